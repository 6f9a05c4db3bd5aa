// Keeps the charts of the page current: fetched once it stands, every 15 seconds while somebody sees it, and when a range
// is chosen. What cannot be fetched stays as it is, and tells its own age. Quiet time hides them before anything is asked.
(() => {
  const box = document.querySelector("[data-charts]");
  if (!box) return;
  const isQuiet = () => document.querySelector(".panel[data-quiet]:not(#panel-metrics)") !== null;
  let [asking, quiet] = [null, isQuiet()];

  async function load() {
    asking?.abort();
    const mine = (asking = new AbortController());
    const late = setTimeout(() => mine.abort(), 8000);
    const minutes = box.querySelector("[name=minutes]:checked")?.value ?? "0";
    try {
      const answer = await fetch(`${box.dataset.charts}?minutes=${minutes}`, { redirect: "manual", signal: mine.signal });
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
  }

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
})();
