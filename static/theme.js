// Runs before the first paint, so that a chosen theme never flashes the other one.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const saved = localStorage.getItem("theme");
  if (saved) root.dataset.theme = saved;
  if (localStorage.getItem("presenting") === "yes") root.classList.add("presenting");
})();
