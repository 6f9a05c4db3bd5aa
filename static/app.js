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

  function say(text) {
    const toasts = document.getElementById("toasts");
    const toast = document.createElement("div");
    toast.className = "toast";
    toast.append(Object.assign(document.createElement("p"), { textContent: text, className: "grow" }));
    toasts.append(toast);
    setTimeout(() => toast.remove(), 4000);
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

  function filterList(input) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of document.querySelectorAll(input.dataset.filter)) {
      item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word));
    }
  }

  document.addEventListener("click", (event) => {
    const find = (selector) => event.target.closest(selector);
    if (find("[data-theme-toggle]")) nextTheme();
    else if (find("[data-copy]")) copy(find("[data-copy]"));
    else if (find("[data-dismiss]")) find(".toast").remove();
    else if (find("[data-open]")) document.getElementById(find("[data-open]").dataset.open).showModal();
    else if (find("[data-close]")) find("dialog").close();
    else if (find('[role="tab"]')) selectTab(find('[role="tab"]'));
    else if (find("[data-select-tab]")) selectTab(document.getElementById(find("[data-select-tab]").dataset.selectTab));
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.matches('[role="tab"]')) moveTab(event);
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-filter]")) filterList(event.target);
  });
  document.addEventListener("htmx:sendError", () => say("The server cannot be reached. Your text is still here; try again."));
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    say(status === 403 ? "You were signed out. Reload the page to sign in; nothing was saved." : `The server answered ${status}. Nothing was saved; try again.`);
  });

  for (const part of document.querySelectorAll("[data-theme-toggle], [data-needs-js]")) part.hidden = false;
  prepareTabs();
  window.faultline = { say, selectTab };
})();
