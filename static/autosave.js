// Nothing that is typed is lost. Every autosaved form is copied into this browser until the server has confirmed it;
// without a connection it waits and is sent again; where somebody else saved first, its person chooses.
(() => {
  const user = document.body.dataset.user || "";
  const known = new WeakMap();
  const skipped = ["version", "csrfmiddlewaretoken", "submit"];
  const all = () => document.querySelectorAll("form[data-autosave], form[data-keep]");
  const key = (form) => `draft:${user}:${form.getAttribute("action")}`;
  const version = (form) => form.elements.version;

  function values(form) {
    const found = Object.fromEntries([...new FormData(form)].filter(([name]) => !skipped.includes(name)));
    for (const box of form.querySelectorAll("input[type=checkbox]")) found[box.name] = box.checked ? "on" : "";
    return found;
  }

  function write(form, stored) {
    for (const field of form.elements) {
      if (!(field.name in stored) || skipped.includes(field.name)) continue;
      if (field.type === "radio") field.checked = field.value === stored[field.name];
      else if (field.type === "checkbox") field.checked = Boolean(stored[field.name]);
      else field.value = stored[field.name];
    }
  }

  const plain = (value) => String(value ?? "").replace(/\r\n/g, "\n").trim();
  const same = (a, b) => [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => plain(a[name]) === plain(b[name]));

  function state(form) {
    if (!known.has(form)) known.set(form, { sent: [], wait: 1000, timer: 0, conflict: false });
    return known.get(form);
  }

  function tell(form, text) {
    const place = form.querySelector(".saved");
    if (place) place.textContent = text;
    else if (text) faultline.say(text);
  }

  function keep(form) {
    localStorage.setItem(key(form), JSON.stringify({ version: version(form)?.value, values: values(form) }));
    form.dataset.dirty = "yes";
  }

  function forget(form) {
    localStorage.removeItem(key(form));
    delete form.dataset.dirty;
  }

  function again(form) {
    const now = state(form);
    clearTimeout(now.timer);
    now.timer = setTimeout(() => form.isConnected && form.dataset.dirty && htmx.trigger(form, "retry"), now.wait);
    now.wait = Math.min(now.wait * 2, 15000);
  }

  // What was not confirmed before the page was left or replaced comes back, and is sent on the version it was made on.
  function restore(form) {
    if (form.dataset.restored) return;
    form.dataset.restored = "yes";
    const draft = JSON.parse(localStorage.getItem(key(form)) || "null");
    if (!draft) return;
    if (same(draft.values, values(form))) return forget(form);
    if (form.querySelector("fieldset[disabled]")) return;
    write(form, draft.values);
    form.dataset.dirty = "yes";
    if (!form.matches("[data-autosave]")) return;
    if (draft.version) version(form).value = draft.version;
    tell(form, "Restored what was not saved yet.");
    again(form);
  }

  function settle(form, sent) {
    const now = state(form);
    now.sent = [];
    now.wait = 1000;
    if (same(sent, values(form))) forget(form);
    else keep(form);
  }

  // A version that is newer only because our own request was saved and its answer got lost is no conflict.
  function resolve(form) {
    const now = state(form);
    const stored = Object.fromEntries([...form.querySelectorAll("[data-stored]")].map((part) => [part.dataset.stored, part.value]));
    if (!Object.keys(stored).length) return;
    const relevant = (sent) => Object.fromEntries(Object.keys(stored).map((name) => [name, sent[name]]));
    now.conflict = !now.sent.slice(0, -1).some((sent) => same(relevant(sent), stored)) && !same(relevant(values(form)), stored);
    now.sent = [];
    if (now.conflict) return;
    tell(form, "");
    if (same(relevant(values(form)), stored)) forget(form);
    else htmx.trigger(form, "retry");
  }

  function choose(form, mine) {
    const stored = Object.fromEntries([...form.querySelectorAll("[data-stored]")].map((part) => [part.dataset.stored, part.value]));
    state(form).conflict = false;
    if (mine) return;
    write(form, stored);
    forget(form);
    tell(form, "The saved version is used.");
    form.querySelector("textarea, input:checked")?.focus();
  }

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-autosave], form[data-keep]");
    if (form) keep(form);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-keep-mine], [data-take-stored]");
    if (button) choose(button.closest("form"), button.matches("[data-keep-mine]"));
  }, true);
  document.addEventListener("htmx:beforeRequest", (event) => {
    const form = event.detail.elt;
    if (!form.matches("form[data-autosave]")) return;
    if (state(form).conflict) return event.preventDefault();
    clearTimeout(state(form).timer);
    state(form).sent.push(values(form));
  });
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const { elt: form, xhr, requestConfig } = event.detail;
    // A sign-in page that answers in place of the server means that nothing was done.
    const elsewhere = xhr.responseURL && new URL(xhr.responseURL).pathname !== new URL(requestConfig.path, location).pathname;
    if (elsewhere) {
      event.preventDefault();
      faultline.say("You were signed out. Sign in again in this browser, then reload: what you typed is kept.", 30000);
      if (form.matches("form[data-autosave]")) tell(form, "Not saved: you were signed out. Kept on this computer.");
      return;
    }
    if (!form.matches("form[data-autosave], form[data-keep]")) return;
    if (xhr.status < 300) settle(form, state(form).sent.at(-1) || values(form));
  });
  // Other tabs of the same person follow what was saved here, unless something unsaved stands in them.
  const tabs = new BroadcastChannel(`saved:${user}`);
  const counters = () => [...document.querySelectorAll("#rated, #asked")];
  document.addEventListener("htmx:afterSettle", (event) => {
    const form = event.detail.requestConfig?.elt;
    if (!form?.matches?.("form[data-autosave]") || event.detail.xhr?.status >= 300 || form.dataset.dirty) return;
    const counts = Object.fromEntries(counters().map((part) => [part.id, part.innerHTML]));
    tabs.postMessage({ action: form.getAttribute("action"), version: version(form)?.value, values: values(form), counts });
  });
  tabs.addEventListener("message", ({ data }) => {
    const form = [...all()].find((one) => one.getAttribute("action") === data.action);
    if (!form || form.dataset.dirty || !version(form) || Number(version(form).value) >= Number(data.version)) return;
    write(form, data.values);
    version(form).value = data.version;
    tell(form, "Saved in another tab");
    for (const counter of counters()) counter.innerHTML = data.counts[counter.id] || counter.innerHTML;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt: form, xhr } = event.detail;
    if (!form.matches("form[data-autosave]") || !form.isConnected) return;
    if (xhr.status === 409) resolve(form);
    const busy = xhr.status === 429;
    if (xhr.status !== 0 && !busy && xhr.status < 500) return;
    tell(form, `Not saved yet: ${busy ? "too many changes at once" : "no connection"}. Kept on this computer and tried again.`);
    again(form);
  });
  addEventListener("online", () => {
    for (const form of document.querySelectorAll("form[data-autosave][data-dirty]")) htmx.trigger(form, "retry");
  });
  document.addEventListener("htmx:afterSettle", () => all().forEach(restore));
  all().forEach(restore);
})();
