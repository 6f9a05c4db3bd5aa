// The keyboard of the live page, and its panes on a small screen.
(() => {
  const desk = document.querySelector(".desk");
  const inText = (target) => target.matches("textarea, select, input:not([type=radio], [type=checkbox])") || target.isContentEditable;
  const off = () => localStorage.getItem("single-keys") === "off";
  const byId = (id) => document.getElementById(id);

  function pane(name) {
    desk.dataset.pane = name;
    for (const button of document.querySelectorAll("[data-pane-button]")) {
      button.setAttribute("aria-pressed", String(button.dataset.paneButton === name));
    }
  }

  function tab(name) {
    pane("side");
    faultline.selectTab(byId(`tab-${name}`));
  }

  function step(by) {
    tab("score");
    const all = [...document.querySelectorAll("#pane-score .criterion")];
    const here = all.indexOf(document.activeElement.closest(".criterion"));
    const next = all[Math.min(Math.max(here + by, 0), all.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  function rate(level) {
    const choice = document.activeElement.closest(".criterion, .record")?.querySelector(`input[name="level"][value="${level}"]`);
    if (!choice || choice.disabled) return;
    choice.checked = true;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function focusNote() {
    tab("notes");
    byId("id_note_text")?.focus();
  }

  const keys = {
    "?": () => byId("help").showModal(),
    n: focusNote,
    h: () => (tab("hints"), byId("tab-hints").focus()),
    j: () => step(1),
    k: () => step(-1),
    0: () => rate(""),
    1: () => rate(1),
    2: () => rate(2),
    3: () => rate(3),
    4: () => rate(4),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey && event.key === "Enter" && event.target.form) return event.target.form.requestSubmit();
    if (event.ctrlKey || event.metaKey || event.altKey || off() || inText(event.target)) return;
    if (document.querySelector("dialog[open]") || !keys[event.key]) return;
    if (event.key !== "?" && document.documentElement.classList.contains("presenting")) return;
    event.preventDefault();
    keys[event.key]();
  });

  document.addEventListener("click", (event) => {
    const chosen = event.target.closest("[data-pane-button]");
    if (chosen) pane(chosen.dataset.paneButton);
    const item = event.target.closest("[data-goes-to]");
    if (item) {
      event.preventDefault();
      tab(item.dataset.goesTo);
      const goal = document.querySelector(item.getAttribute("href"));
      if (goal instanceof HTMLDetailsElement) goal.open = true;
      const landing = goal?.querySelector("summary") || goal;
      landing?.scrollIntoView({ block: "start" });
      landing?.focus({ preventScroll: true });
    }
  });

  document.addEventListener("faultline:shown", ({ detail }) => {
    const part = detail.closest(".desk > *");
    const name = ["rail", "middle", "side", "time"].find((one) => part?.classList.contains(one));
    if (name) pane(name);
  });

  // The run of show is drawn once for everybody; which questions one has asked oneself is marked here.
  function markAsked() {
    for (const item of document.querySelectorAll('#panel-run [data-goes-to="questions"]')) {
      const asked = document.querySelector(item.getAttribute("href"))?.dataset.asked;
      const time = item.querySelector("[data-asked-time]");
      if (time.textContent !== (asked || "")) time.textContent = asked || "";
      time.title = asked ? "Asked by me" : "";
    }
  }
  document.addEventListener("htmx:afterSettle", markAsked);
  document.addEventListener("faultline:placed", markAsked);
  markAsked();

  const box = byId("single-keys");
  if (box) {
    box.checked = !off();
    box.addEventListener("change", () => localStorage.setItem("single-keys", box.checked ? "on" : "off"));
  }
  if (desk) pane("middle");
})();
