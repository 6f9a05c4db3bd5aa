// Small behaviours of every page. Addresses come from attributes; nothing here knows a URL.
(() => {
  const root = document.documentElement;
  const themes = ["", "light", "dark"];

  function nextTheme() {
    const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    next ? (root.dataset.theme = next) : delete root.dataset.theme;
    next ? localStorage.setItem("theme", next) : localStorage.removeItem("theme");
    say(next ? `Theme: ${next}.` : "Theme: as your system.");
  }

  function say(text, milliseconds = 5000) {
    const said = [...document.querySelectorAll("#toasts .toast > p")].some((toast) => toast.textContent === text);
    if (said) return; // a request that is repeated says the same each time
    const toast = Object.assign(document.createElement("div"), { className: "toast" });
    toast.dataset.fades = "";
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "×", className: "button quiet small square" });
    close.dataset.dismiss = "";
    close.setAttribute("aria-label", "Dismiss");
    toast.append(Object.assign(document.createElement("p"), { textContent: text, className: "grow" }), close);
    document.getElementById("toasts").append(toast);
    setTimeout(() => toast.remove(), milliseconds);
  }

  // What went well is read and gone; what failed stays until something has gone through, or it is dismissed.
  function fadeToasts() {
    for (const toast of document.querySelectorAll("#toasts .toast:not([data-error], [data-fades])")) {
      toast.dataset.fades = "";
      setTimeout(() => toast.remove(), 8000);
    }
  }
  function dropErrors(event) {
    const answer = event.detail.xhr?.responseText ?? "";
    if (!event.detail.successful || event.detail.requestConfig?.verb === "get" || answer.includes("data-error")) return;
    for (const toast of document.querySelectorAll("#toasts .toast[data-error]")) toast.remove();
  }

  // Where the focus is inside a part of the page that is about to be replaced, and where it belongs afterwards.
  const focused = new Map();
  const wanted = "a[href], button, input:not([type=hidden]), textarea, select, summary, [tabindex]";
  const focusable = (root) => [...root.querySelectorAll(wanted)].filter((part) => part.checkVisibility() && part.tabIndex >= 0);
  function place(root, element = document.activeElement) {
    if (!root) return null;
    if (element === document.body && focused.has(root.id)) return focused.get(root.id);
    if (!root.contains(element)) return null;
    const { id } = element;
    const fold = element.closest("details[id]")?.id;
    const index = focusable(root).indexOf(element);
    return (fresh) => {
      const inFold = fold && document.getElementById(fold)?.querySelector("summary");
      const near = focusable(fresh)[Math.min(Math.max(index, 0), focusable(fresh).length - 1)];
      const goal = (id && document.getElementById(id)) || inFold || near || fresh;
      if (goal === fresh && !fresh.hasAttribute("tabindex")) fresh.tabIndex = -1;
      goal.focus({ preventScroll: true });
    };
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const text = source.value ?? source.textContent;
    try {
      await navigator.clipboard.writeText(text.trim());
    } catch {
      // Without TLS there is no clipboard object; selecting is what is left.
      source.select ? source.select() : getSelection().selectAllChildren(source);
      say(document.execCommand("copy") ? "Copied." : "Press Ctrl+C to copy the selected text.");
      return;
    }
    say("Copied.");
  }

  function selectTab(tab) {
    const list = tab.closest('[role="tablist"]');
    for (const other of list.querySelectorAll('[role="tab"]')) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (list.dataset.keep) sessionStorage.setItem(list.dataset.keep, tab.id);
  }

  function prepareTabs() {
    for (const list of document.querySelectorAll('[role="tablist"]')) {
      list.hidden = false;
      const kept = list.dataset.keep && document.getElementById(sessionStorage.getItem(list.dataset.keep) || "");
      selectTab(kept || list.querySelector('[role="tab"]'));
    }
  }

  function moveTab(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const tabs = [...event.target.closest('[role="tablist"]').querySelectorAll('[role="tab"]')];
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    selectTab(next);
    next.focus();
  }

  function open(button) {
    button.closest(".menu")?.removeAttribute("open");
    document.getElementById(button.dataset.open).showModal();
  }

  function closeMenus(except) {
    for (const menu of document.querySelectorAll(".menu[open]")) if (menu !== except) menu.open = false;
  }

  // To what a mark tells of, wherever that is folded away; else to its line in the list of all moments.
  function showMoment(mark) {
    const goal = document.getElementById(mark.getAttribute("href").slice(1)) || document.getElementById(mark.dataset.moment);
    if (!goal) return;
    for (let fold = goal.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    const panel = goal.closest('[role="tabpanel"]');
    if (panel) selectTab(document.getElementById(panel.getAttribute("aria-labelledby")));
    document.dispatchEvent(new CustomEvent("faultline:shown", { detail: goal }));
    if (!goal.matches("[tabindex], summary")) goal.tabIndex = -1;
    goal.scrollIntoView({ block: "center" });
    goal.focus({ preventScroll: true });
    goal.classList.remove("is-changed");
    requestAnimationFrame(() => goal.classList.add("is-changed"));
  }

  function filterList(input) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of document.querySelectorAll(input.dataset.filter)) {
      item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word));
    }
  }

  document.addEventListener("click", (event) => {
    const find = (selector) => event.target.closest(selector);
    closeMenus(find(".menu"));
    if (find("[data-theme-toggle]")) nextTheme();
    else if (find("[data-copy]")) copy(find("[data-copy]"));
    else if (find("[data-dismiss]")) find(".toast").remove();
    else if (find("[data-open]")) open(find("[data-open]"));
    else if (find("[data-moment]")) event.preventDefault(), showMoment(find("[data-moment]"));
    else if (find("[data-close]")) find("dialog").close();
    else if (find('[role="tab"]')) selectTab(find('[role="tab"]'));
    else if (find("[data-select-tab]")) selectTab(document.getElementById(find("[data-select-tab]").dataset.selectTab));
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches('[role="tab"]')) moveTab(event);
    const menu = event.key === "Escape" && event.target.closest(".menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  // Nothing is cut off: who writes more than fits is told before, and the server refuses it with words.
  function count(field) {
    const used = [...field.value].length;
    const limit = Number(field.dataset.limit);
    let told = field.parentElement.querySelector(".count");
    if (!told && used < limit * 0.8) return;
    if (!told) field.after((told = Object.assign(document.createElement("p"), { className: "count num" })));
    told.hidden = used < limit * 0.8;
    const [some, all] = [used.toLocaleString("en"), limit.toLocaleString("en")];
    told.textContent = used > limit ? `${some} characters; at most ${all} fit. Shorten it to save it.` : `${some} of ${all} characters`;
    told.classList.toggle("error", used > limit);
  }

  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-filter]")) filterList(event.target);
    if (event.target.matches("[data-limit]")) count(event.target);
  });
  document.addEventListener("change", (event) => event.target.matches("[data-submit-on-change]") && event.target.form.requestSubmit());
  const saves = (event) => event.detail.elt.matches("form[data-autosave]"); // tells for itself
  const unreachable = (event) => saves(event) || say("The server cannot be reached. Nothing was sent; what you typed is still here. Try again.");
  document.addEventListener("htmx:sendError", unreachable);
  document.addEventListener("htmx:timeout", unreachable);
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    const plain = (event.detail.xhr.getResponseHeader("Content-Type") || "").startsWith("text/plain");
    if (plain && event.detail.xhr.responseText && !saves(event)) say(event.detail.xhr.responseText, 15000);
    else if (status === 403) say("You have been signed out. Reload the page: what you typed is kept.", 30000);
    else if (!saves(event)) say(`The server answered ${status}. Nothing was saved; try again.`);
  });
  document.addEventListener("htmx:afterRequest", dropErrors);
  document.addEventListener("htmx:afterSettle", fadeToasts);
  document.addEventListener("htmx:oobAfterSwap", fadeToasts);
  document.addEventListener("faultline:done", (event) => event.target.closest("dialog")?.close());

  // A button that is replaced by its own answer must not leave the keyboard nowhere.
  // It is remembered from the press on: a disabled button has lost the focus, and a push may come before the answer.
  function remember(root, element) {
    const back = root?.id && place(root, element);
    if (back) focused.set(root.id, back);
  }
  function giveBack(id) {
    const fresh = focused.has(id) && document.getElementById(id);
    if (fresh && document.activeElement === document.body) focused.get(id)(fresh);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const target = button?.closest("[hx-target]")?.getAttribute("hx-target");
    if (target?.startsWith("#")) remember(document.querySelector(target), button);
  }, true);
  document.addEventListener("htmx:beforeRequest", (event) => remember(event.detail.target));
  // Whoever has gone on to another part wants nothing back in the one before.
  document.addEventListener("focusin", (event) => {
    for (const id of focused.keys()) if (!document.getElementById(id)?.contains(event.target)) focused.delete(id);
  });
  for (const moment of ["htmx:afterSwap", "htmx:afterSettle"]) {
    document.addEventListener(moment, (event) => giveBack(event.detail.target?.id));
  }
  // However long the answer took, the push that follows it comes soon; on a busy machine, some seconds later.
  document.addEventListener("htmx:afterRequest", (event) => {
    const id = event.detail.target?.id;
    const back = focused.get(id);
    for (const wait of [50, 250, 1000, 2500, 5000, 9000, 14000]) setTimeout(giveBack, wait, id);
    setTimeout(() => focused.get(id) === back && focused.delete(id), 15000);
  });

  for (const part of document.querySelectorAll("[data-theme-toggle], [data-needs-js]")) part.hidden = false;
  prepareTabs();
  fadeToasts();
  window.faultline = { say, selectTab, place };
})();

// Ticks clocks and ages from the numbers the server gave. Read anew each time, since panels are replaced.
(() => {
  const arrived = new WeakMap();
  const two = (n) => String(n).padStart(2, "0");

  function words(ms) {
    const s = Math.floor(Math.abs(ms) / 1000);
    const h = Math.floor(s / 3600);
    const text = `${h ? `${h}:` : ""}${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`;
    return ms < 0 && s > 0 ? `-${text}` : text;
  }

  function set(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  // Seen and, through the toast's live region, heard; only when the time runs across a mark, not when a page opens.
  const marks = [30, 15, 5, 0];
  let before = null;
  function warn(left) {
    const crossed = before === null ? undefined : marks.findLast((mark) => before > mark * 60000 && left <= mark * 60000);
    before = left;
    if (crossed === undefined) return;
    faultline.say(crossed ? `${crossed} minutes left.` : "The planned time is over. The interview goes on until it is ended.", 30000);
  }

  function tickClock(element, now) {
    const key = element.dataset.elapsed;
    const first = arrived.get(element);
    if (!first || first.key !== key) arrived.set(element, { key, at: opened ?? now });
    const since = element.dataset.running === "yes" ? now - arrived.get(element).at : 0;
    const elapsed = Number(key) + since;
    const left = Number(element.dataset.budget) - elapsed;
    set(element, words(element.dataset.clock === "elapsed" ? elapsed : left));
    const box = element.closest(".clock");
    if (box && element.dataset.clock === "remaining") {
      box.classList.toggle("low", left < 300000 && left >= 0);
      box.classList.toggle("over", left < 0);
      warn(left);
    }
  }

  function relative(ms) {
    const s = Math.max(0, Math.floor(Math.abs(ms) / 1000));
    const [size, unit] = s >= 86400 ? [86400, "d"] : s >= 3600 ? [3600, "h"] : s >= 60 ? [60, "min"] : [1, "s"];
    const text = `${Math.floor(s / size)} ${unit}`;
    return ms < -999 ? `in ${text}` : `${text} ago`;
  }

  function tickAge(element, wall) {
    const seconds = Math.max(0, Math.round((wall - Number(element.dataset.at)) / 1000));
    const stale = seconds >= Number(element.dataset.staleAfter);
    element.classList.toggle("stale", stale);
    set(element, stale ? `No data ${relative(seconds * 1000).replace(" ago", "")}` : `as of ${seconds} s ago`);
  }

  function tickAgo(element, wall) {
    const text = relative(wall - Date.parse(element.dateTime));
    set(element, element.dataset.ago === "short" ? text.replace(" ago", "") : text);
  }

  function tickUntil(element, wall) {
    const left = Date.parse(element.dataset.until) - wall;
    set(element, words(Math.max(0, left)));
  }

  // Ages are told by the server's time, and go on by a clock that nobody can set: the browser's own may be minutes
  // off, or be corrected while the page is open.
  const served = Number(document.body.dataset.now || 0);
  const [page = { responseStart: 0 }] = performance.getEntriesByType("navigation"); // which not every browser keeps
  const serverTime = () => (served ? served + performance.now() - page.responseStart : Date.now());

  // A clock of the page itself was right when the page was sent, however long its scripts took to load.
  let opened = page.responseStart;

  function tick() {
    const now = performance.now();
    const wall = serverTime();
    document.querySelectorAll("[data-clock]").forEach((element) => tickClock(element, now));
    document.querySelectorAll("[data-until]").forEach((element) => tickUntil(element, wall));
    document.querySelectorAll("[data-age]").forEach((element) => tickAge(element, wall));
    document.querySelectorAll("[data-ago]").forEach((element) => tickAgo(element, wall));
  }

  tick();
  opened = null;
  document.addEventListener("faultline:placed", tick);
  document.addEventListener("htmx:afterSwap", tick);
  setInterval(tick, 500);
})();

// Turns one element into another while keeping its nodes wherever they are the same: the focus, a selection, an open
// fold and the place to which somebody has scrolled stay as they are. Rows are told apart by data-key or id.
(() => {
  const keyOf = (node) => node.nodeType === Node.ELEMENT_NODE && (node.dataset.key || node.id) || "";
  const nameOf = (node) => node.nodeType === Node.ELEMENT_NODE && node.getAttribute("name") || "";
  const ofPerson = { DETAILS: ["open"], DIALOG: ["open"], INPUT: ["value", "checked"], TEXTAREA: ["value"] };

  function flash(row) {
    if (row.classList.contains("is-changed")) {
      row.classList.remove("is-changed");
      void row.offsetWidth; // else the animation would not begin anew
    }
    row.classList.add("is-changed");
  }

  function attributes(old, fresh) {
    const kept = ofPerson[old.nodeName] ?? [];
    const stays = (name) => kept.includes(name) || (name === "hidden" && old.hasAttribute("data-needs-js")) || (name === "disabled" && old.hasAttribute("data-disabled-by-htmx")) || name === "data-disabled-by-htmx";
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !stays(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (!stays(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }

  function children(old, fresh) {
    const wanted = new Set([...fresh.children].map(keyOf));
    const known = new Map();
    for (const child of [...old.children]) {
      const key = keyOf(child);
      if (key && !wanted.has(key)) child.remove();
      else if (key) known.set(key, child);
    }
    const hadRows = known.size > 0;
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const key = keyOf(child);
      // A field keeps its value, so that it must never become the field of another name.
      const same = at && at.nodeType === child.nodeType && at.nodeName === child.nodeName && !keyOf(at) && nameOf(at) === nameOf(child);
      const match = key ? known.get(key) : same ? at : null;
      if (!match) {
        old.insertBefore(child, at);
        if (key && hadRows && child.dataset.value !== undefined) flash(child);
        continue;
      }
      if (match !== at) old.insertBefore(match, at);
      at = morph(match, child).nextSibling;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  // Returns the node that stands in the page afterwards.
  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) {
      old.replaceWith(fresh);
      return fresh;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return old;
    }
    const changed = old.dataset.value !== fresh.dataset.value;
    attributes(old, fresh);
    if (old.nodeName !== "TEXTAREA") children(old, fresh);
    if (changed && old.dataset.key) flash(old);
    return old;
  }

  window.faultline = Object.assign(window.faultline ?? {}, { morph, flash });
})();
