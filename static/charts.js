// Keeps the charts of the page current: fetched once it stands, every 15 seconds while somebody sees it, and when a range
// is chosen. What cannot be fetched stays as it is, and tells its own age.
(() => {
  const box = document.querySelector("[data-charts]");
  if (!box) return;
  let asking = null;

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
      if (mine === asking) faultline.morph(box.firstElementChild, holder.firstElementChild);
    } catch {
      // No answer is no news.
    } finally {
      clearTimeout(late);
    }
  }

  load();
  setInterval(() => document.hidden || load(), 15000);
  box.addEventListener("change", load);
  document.addEventListener("visibilitychange", () => document.hidden || load());
})();
