// Keeps the panels of one page current: frames from a WebSocket, or a poll every five seconds without one.
// A frame is a whole panel with its sequence number; after a gap or a reconnect all panels are fetched by HTTP.
(() => {
  const page = document.querySelector("[data-live]");
  if (!page) return;
  const light = document.querySelector("[data-link]");
  const last = new Map();
  let socket, wait = 500, opened = false, refused = false, fetching = false, told = "", ticks = 0;

  const inText = (element) => element.matches("textarea, select, input:not([type=radio], [type=checkbox])");
  const typing = (panel) => panel.contains(document.activeElement) && inText(document.activeElement);

  function unsaved() {
    return inText(document.activeElement) || document.querySelector("form[data-dirty]") !== null;
  }

  function leaveFor(screen) {
    if (screen === page.dataset.screen) return false;
    if (!unsaved()) location.reload();
    else if (told !== screen) faultline.say("The session has moved on. Finish what you are writing, then reload the page.");
    told = screen;
    return true;
  }

  // What a person opened, focused or scrolled in a panel stays as it was when the panel is replaced.
  function keep(old) {
    const open = [...old.querySelectorAll("details[id]")].filter((part) => part.open).map((part) => part.id);
    const scrolled = [...old.querySelectorAll(".scroll")].map((part) => [part.scrollTop, part.scrollLeft]);
    const focus = faultline.place(old);
    return (fresh) => {
      for (const id of open) fresh.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
      fresh.querySelectorAll(".scroll").forEach((part, i) => scrolled[i] && ([part.scrollTop, part.scrollLeft] = scrolled[i]));
      if (focus && document.activeElement === document.body) focus(fresh);
    };
  }

  function flash(old, fresh) {
    const before = new Map([...old.querySelectorAll("[data-key]")].map((row) => [row.dataset.key, row.dataset.value]));
    for (const row of fresh.querySelectorAll("[data-key]")) {
      if (before.size && before.get(row.dataset.key) !== row.dataset.value) row.classList.add("is-changed");
    }
  }

  function place(fresh) {
    const old = document.getElementById(fresh.id);
    if (!fresh.id.startsWith("panel-") || !old || typing(old)) return;
    if (fresh.dataset.screen && leaveFor(fresh.dataset.screen)) return;
    const restore = keep(old);
    fresh.removeAttribute("hx-swap-oob");
    flash(old, fresh);
    old.replaceWith(fresh);
    htmx.process(fresh);
    restore(fresh);
    tab(fresh);
    document.dispatchEvent(new Event("faultline:placed"));
  }

  // The browser's tab tells the state: title and icon come with a panel.
  function tab(panel) {
    if (!panel?.dataset.title) return;
    document.title = `${panel.dataset.title} · Faultline`;
    const icon = document.getElementById("favicon");
    if (icon.getAttribute("href") !== panel.dataset.icon) icon.setAttribute("href", panel.dataset.icon);
  }

  function parse(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return [...template.content.children];
  }

  function receive(html) {
    for (const fresh of parse(html)) {
      const seq = Number(fresh.dataset.seq || 0);
      const known = last.get(fresh.id);
      if (seq && known !== undefined && seq !== known + 1) return snapshot();
      if (seq) last.set(fresh.id, seq);
      place(fresh);
    }
  }

  async function snapshot() {
    if (fetching) return;
    fetching = true;
    try {
      const answer = await fetch(page.dataset.snapshot, { headers: { "HX-Request": "true", ...(opened ? {} : { "X-Without-Socket": "yes" }) }, redirect: "manual" });
      if (answer.status === 404 || answer.type === "opaqueredirect") return location.reload();
      if (!answer.ok) throw new Error(String(answer.status));
      for (const fresh of parse(await answer.text())) {
        if (Number(fresh.dataset.seq)) last.set(fresh.id, Number(fresh.dataset.seq));
        place(fresh);
      }
      if (!opened) show("wait", "Polling every 5 s");
    } catch {
      if (!opened) show("off", "Not connected");
    } finally {
      fetching = false;
    }
  }

  function show(state, words) {
    if (!light) return;
    light.querySelector(".lamp").className = `lamp ${state}`;
    const text = light.querySelector("[data-words]");
    if (text.textContent !== words) text.textContent = words;
  }

  function connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}${page.dataset.socket}`);
    const trying = socket;
    setTimeout(() => trying.readyState === WebSocket.CONNECTING && trying.close(), 6000); // a door that never answers
    socket.onopen = () => {
      opened = true;
      wait = 500;
      show("on", "In sync");
      snapshot();
    };
    socket.onmessage = (event) => receive(event.data);
    socket.onclose = (event) => {
      opened = false;
      refused = event.code === 4404;
      show("wait", "Reconnecting");
      if (!refused) setTimeout(connect, wait * (1 + Math.random() / 2));
      wait = Math.min(wait * 2, 8000);
    };
  }

  tab(document.querySelector("[data-title]"));
  if (page.dataset.socket) connect();
  // Polls without a socket; with one, looks now and then whether something was missed that no later frame told of.
  setInterval(() => {
    const soon = (page.dataset.socket && !opened) || ["prepare", "releasing"].includes(page.dataset.screen);
    if (!document.hidden && (soon || ++ticks % (page.dataset.socket ? 6 : 2) === 0)) snapshot();
  }, 5000);
  document.addEventListener("visibilitychange", () => document.hidden || opened || snapshot());
})();
