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
    if (!first || first.key !== key) arrived.set(element, { key, at: now });
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
  const [page] = performance.getEntriesByType("navigation");
  const serverTime = () => (served ? served + performance.now() - page.responseStart : Date.now());

  function tick() {
    const now = performance.now();
    const wall = serverTime();
    document.querySelectorAll("[data-clock]").forEach((element) => tickClock(element, now));
    document.querySelectorAll("[data-until]").forEach((element) => tickUntil(element, wall));
    document.querySelectorAll("[data-age]").forEach((element) => tickAge(element, wall));
    document.querySelectorAll("[data-ago]").forEach((element) => tickAgo(element, wall));
  }

  tick();
  document.addEventListener("faultline:placed", tick);
  document.addEventListener("htmx:afterSwap", tick);
  setInterval(tick, 500);
})();
