// Keeps the panels of one page current. The server sends over a WebSocket what has changed (a panel, or rows of it), the
// whole screen where this page has missed something, and a heartbeat. Without a socket the page asks every five seconds.
(() => {
  const page = document.querySelector("[data-live]");
  if (!page) return;
  const light = document.querySelector("[data-link]");
  const [silence, patience] = [5000, 4000]; // no heartbeat for so long: not in sync; no answer for so long: none will come
  let shown = Number(page.dataset.seq) || null; // the newest frame that is on the page
  let socket = null, opened = false, refused = false, stale = null, heard = 0, wait = 0, asking = null, told = "", ticks = 0;
  let contact = 0, polls = false; // when the server last said anything, and whether it did so to a question

  const inText = (element) => element.matches("textarea, select, input:not([type=radio], [type=checkbox])");
  const unsaved = () => inText(document.activeElement) || document.querySelector("form[data-dirty]") !== null;

  function leaveFor(screen) {
    if (screen === page.dataset.screen) return false;
    if (!unsaved()) location.reload();
    else if (told !== screen) faultline.say("The session has moved on. Finish what you are writing, then reload the page.");
    told = screen;
    return true;
  }

  // The browser's tab tells the state: title and icon come with a panel.
  function tab(panel) {
    if (!panel?.dataset.title) return;
    document.title = `${panel.dataset.title} · Faultline`;
    const icon = document.getElementById("favicon");
    if (icon.getAttribute("href") !== panel.dataset.icon) icon.setAttribute("href", panel.dataset.icon);
  }

  // Parsed as a child of `parent`, since a row outside of its table, or a mark outside of its drawing, is none.
  function parse(html, parent = document.createElement("div")) {
    const holder = parent.cloneNode(false);
    holder.innerHTML = html;
    return [...holder.children];
  }

  function place(fresh) {
    const old = document.getElementById(fresh.id);
    if (!fresh.id.startsWith("panel-") || !old) return;
    if (fresh.dataset.screen && leaveFor(fresh.dataset.screen)) return;
    fresh.removeAttribute("hx-swap-oob");
    settle(old, () => faultline.morph(old, fresh));
    tab(document.getElementById(fresh.id));
  }

  // Whoever had the focus in a part that is no longer there gets it back where it belongs.
  function settle(panel, change) {
    const focus = faultline.place(panel);
    change();
    htmx.process(panel);
    if (focus && document.activeElement === document.body) focus(panel);
  }

  // Returns false where the page does not have what the change builds on.
  function patch(panel, change) {
    for (const [name, keys] of Object.entries(change.gone ?? {})) {
      for (const row of [...list(panel, name)?.children ?? []]) if (keys.includes(row.dataset.key)) row.remove();
    }
    for (const [name, html] of Object.entries(change.slots ?? {})) {
      const old = panel.querySelector(`[data-slot="${CSS.escape(name)}"]`);
      if (!old) return false;
      faultline.morph(old, parse(html, old.parentNode)[0]);
    }
    for (const age of change.as_of ? panel.querySelectorAll("[data-age]") : []) {
      age.dataset.at = change.as_of;
      age.title = new Date(change.as_of).toLocaleString();
    }
    return Object.entries(change.rows ?? {}).every(([name, rows]) => patchRows(list(panel, name), rows));
  }

  const list = (panel, name) => panel.querySelector(`[data-rows="${CSS.escape(name)}"]`);

  function patchRows(box, rows) {
    if (!box) return false;
    const known = new Map([...box.children].map((row) => [row.dataset.key, row]));
    return rows.every(([key, html, previous]) => {
      let row = known.get(key);
      if (html !== null) {
        const [fresh] = parse(html, box);
        if (row) row = faultline.morph(row, fresh);
        else faultline.flash((row = fresh));
      }
      if (!row || (previous && !known.has(previous))) return false;
      known.set(key, row);
      if (previous !== undefined) {
        const next = previous ? known.get(previous).nextElementSibling : box.firstElementChild;
        if (next !== row) box.insertBefore(row, next);
      }
      return true;
    });
  }

  function show(panels) {
    for (const [name, change] of Object.entries(panels)) {
      const panel = document.getElementById(`panel-${name}`);
      if (!panel) continue;
      if (typeof change === "string") parse(change).forEach(place);
      else settle(panel, () => patch(panel, change) || again());
    }
    document.dispatchEvent(new Event("faultline:placed"));
  }

  function showAll(html) {
    parse(html).forEach(place);
    document.dispatchEvent(new Event("faultline:placed"));
  }

  // Something is missing here: the server sends the whole screen to a page that does not say what it shows.
  function again() {
    shown = null;
    drop();
    setTimeout(connect, 0);
  }

  function receive(message) {
    heard = contact = performance.now();
    if (message.beat !== undefined) return beat(message.beat);
    if (message.all !== undefined) showAll(message.all);
    else if (message.seq !== shown + 1) return again();
    else show(message.panels);
    shown = message.seq;
  }

  // Where nobody keeps the panels current (no observer, no Redis), the page asks for what stands in the database.
  function beat(current) {
    if (stale !== !current) lamp(current ? "on" : "wait", current ? "In sync" : "Polling every 5 s");
    stale = !current;
  }

  // One request at a time, each with an end: a network that swallows it must not keep the page from asking again.
  async function snapshot() {
    if (asking) return;
    asking = AbortSignal.timeout(patience);
    const headers = { "HX-Request": "true", ...(opened ? {} : { "X-Without-Socket": "yes" }), ...(shown ? { "X-Shown": String(shown) } : {}) };
    try {
      const answer = await fetch(page.dataset.snapshot, { headers, redirect: "manual", signal: asking });
      if (answer.status === 404 || answer.type === "opaqueredirect") return location.reload();
      if (!answer.ok) throw new Error(String(answer.status));
      const html = await answer.text();
      if (opened && !stale) return; // the socket is ahead of what was asked for without it
      if (answer.status !== 204) {
        showAll(html);
        shown = Number(answer.headers.get("X-Shown")) || null;
      }
      contact = performance.now();
      polls = true;
      tellContact();
    } catch {
      if (!opened || stale) tellContact();
    } finally {
      asking = null;
    }
  }

  // One word for as long as it is true, with the time since: tries that fail in between are no news.
  function tellContact() {
    const silent = performance.now() - contact;
    if (contact && silent < (polls ? silence + patience + 2000 : silence)) {
      return polls ? lamp("wait", "Polling every 5 s") : lamp("wait", "Reconnecting");
    }
    const [seconds, minutes] = [10 * Math.floor(silent / 10000), Math.floor(silent / 60000)];
    lamp("off", `Not connected${minutes ? ` for ${minutes} min` : seconds ? ` for ${seconds} s` : ""}`);
  }

  function lamp(state, words) {
    page.dataset.link = state;
    if (!light) return;
    light.querySelector(".lamp").className = `lamp ${state}`;
    const text = light.querySelector("[data-words]");
    if (text.textContent !== words) text.textContent = words;
  }

  // On a dead network the closing handshake of a socket takes minutes: nobody waits for it.
  function drop() {
    opened = false;
    stale = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    socket = null;
  }

  function lost() {
    drop();
    tellContact();
    if (!refused) setTimeout(connect, wait + Math.random() * 2000); // not all at once, after a restart
    wait = Math.min(Math.max(wait * 2, 500), 8000);
  }

  function connect() {
    if (socket) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}${page.dataset.socket}${shown ? `?seq=${shown}` : ""}`);
    const trying = socket;
    setTimeout(() => trying === socket && !opened && lost(), 6000); // a server that never answers
    socket.onopen = () => {
      opened = true;
      heard = contact = performance.now();
      polls = false;
      wait = 0;
    };
    socket.onmessage = (event) => receive(JSON.parse(event.data));
    socket.onclose = (event) => {
      refused = event.code === 4404;
      lost();
    };
  }

  function look() {
    if (opened && performance.now() - heard > silence) lost();
    const alone = !opened || stale;
    if (!opened) tellContact();
    if (++ticks % (page.dataset.socket ? 5 : 10) === 0 && alone && !document.hidden) snapshot();
  }

  // A click that goes nowhere says so: at once where the network is known to be dead, else after two seconds.
  function waits(event) {
    const request = event.detail.xhr;
    const say = () => request.readyState < XMLHttpRequest.DONE && faultline.say(
      page.dataset.link === "off" ? "Not connected: this waits for the server, for 20 seconds at most." : "The server has not answered yet. Still waiting …",
    );
    setTimeout(say, page.dataset.link === "off" ? 0 : 2000);
  }

  tab(document.querySelector("[data-title]"));
  if (page.dataset.socket) connect();
  setInterval(look, 1000);
  document.addEventListener("htmx:beforeSend", waits);
  document.addEventListener("visibilitychange", () => document.hidden || opened || snapshot());
})();

// Keeps what a page fetches once it stands: what cannot be fetched stays as it is.
(() => {
  function keeper(box, address) {
    let asking = null;
    return async () => {
      asking?.abort();
      const mine = (asking = new AbortController());
      const late = setTimeout(() => mine.abort(), 8000);
      try {
        const answer = await fetch(address(), { redirect: "manual", signal: mine.signal });
        if (!answer.ok) return;
        const holder = document.createElement("div");
        holder.innerHTML = await answer.text();
        if (mine !== asking) return;
        faultline.morph(box.firstElementChild, holder.firstElementChild);
        box.hidden = false;
      } catch {
        // No answer is no news.
      } finally {
        clearTimeout(late);
      }
    };
  }

  // The charts: every 15 seconds while somebody sees them, and when a range is chosen. They tell their own age. Quiet
  // time hides them before anything is asked.
  function keepCharts(box) {
    const isQuiet = () => document.querySelector(".panel[data-quiet]:not(#panel-metrics)") !== null;
    const minutes = () => box.querySelector("[name=minutes]:checked")?.value ?? "0";
    const load = keeper(box, () => `${box.dataset.charts}?minutes=${minutes()}`);
    let quiet = isQuiet();
    function follow() {
      if (quiet === isQuiet()) return;
      quiet = !quiet;
      box.hidden = quiet;
      load();
    }
    load();
    document.addEventListener("faultline:placed", follow);
    setInterval(() => document.hidden || load(), 15000);
    box.addEventListener("change", load);
    document.addEventListener("visibilitychange", () => document.hidden || load());
  }

  // The answer key, which weighs as much as the page: when its tab is opened, and then whenever a part has begun, since
  // only then all of its names are known.
  function keepKey(box) {
    const begun = () => document.getElementById("panel-stages")?.dataset.begun;
    const isLoaded = () => box.querySelector("[data-later]") === null;
    const load = keeper(box, () => box.dataset.keyTexts);
    let known = begun();
    new IntersectionObserver(([seen]) => seen.isIntersecting && !isLoaded() && load()).observe(box);
    document.addEventListener("faultline:placed", () => known !== (known = begun()) && isLoaded() && load());
  }

  const [charts, key] = [document.querySelector("[data-charts]"), document.querySelector("[data-key-texts]")];
  if (charts) keepCharts(charts);
  if (key) keepKey(key);
})();
