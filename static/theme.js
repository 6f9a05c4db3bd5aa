// Runs before the first paint, so that a chosen theme never flashes the other one, and a secret never flashes at all.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const saved = localStorage.getItem("theme");
  if (saved) root.dataset.theme = saved;

  // Presenting: whatever carries the class "secret" is not drawn, the tab says nothing, and all tabs follow.
  const neutral = "Faultline";
  const real = { title: "", icon: "" };
  const isOn = () => root.classList.contains("presenting");
  const wanted = () => localStorage.getItem("presenting") === "yes";

  function cover() {
    if (!isOn()) return;
    const icon = document.getElementById("favicon");
    if (document.title && document.title !== neutral) [real.title, document.title] = [document.title, neutral];
    if (!icon || icon.getAttribute("href") === icon.dataset.plain) return;
    real.icon = icon.getAttribute("href");
    icon.setAttribute("href", icon.dataset.plain);
  }

  function uncover() {
    if (real.title) document.title = real.title;
    if (real.icon) document.getElementById("favicon").setAttribute("href", real.icon);
  }

  function show() {
    root.classList.toggle("presenting", wanted());
    isOn() ? cover() : uncover();
    document.querySelector("[data-presenting]")?.setAttribute("aria-pressed", String(isOn()));
    if (isOn() && document.activeElement?.closest(".secret, .desk > :not(.middle)")) document.activeElement.blur();
  }

  function toggle() {
    localStorage.setItem("presenting", wanted() ? "no" : "yes");
    show();
  }

  function onKey(event) {
    if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (localStorage.getItem("single-keys") === "off" || !document.querySelector("[data-presenting]")) return;
    if (event.target.matches("textarea, select, input:not([type=radio], [type=checkbox])")) return;
    if (!document.querySelector("dialog[open]")) toggle();
  }

  show();
  new MutationObserver(cover).observe(document.head, { subtree: true, childList: true, characterData: true, attributeFilter: ["href"] });
  addEventListener("storage", (event) => event.key === "presenting" && show());
  document.addEventListener("click", (event) => event.target.closest("[data-presenting], [data-end-presenting]") && toggle());
  document.addEventListener("keydown", onKey);
  document.addEventListener("DOMContentLoaded", show);
})();
