// The builder of outlines: totals as one types, and dragging parts and entries. The buttons beside them do the same.
(() => {
  const form = document.querySelector("[data-builder]")?.closest("form");
  if (!form) return;
  let dragged = null;

  const shown = () => form.querySelectorAll("[data-grip]").forEach((grip) => (grip.hidden = false));
  const clear = () => form.querySelectorAll(".is-over").forEach((one) => one.classList.remove("is-over"));

  function tally() {
    let total = 0;
    for (const part of form.querySelectorAll("[data-part]")) {
      const needed = [...part.querySelectorAll("[data-entry]")].reduce((sum, entry) => sum + Number(entry.dataset.minutes), 0);
      const field = part.querySelector(".minutes");
      const typed = /^\d{1,3}$/.test(field.value.trim()) ? Number(field.value) : 0;
      const sum = part.querySelector("[data-sum]");
      field.placeholder = needed;
      sum.textContent = `${needed} min of scenarios and questions${typed && needed > typed ? `, ${needed - typed} more than the part has` : ""}`;
      sum.classList.toggle("over", Boolean(typed && needed > typed));
      total += typed || needed;
    }
    form.querySelector("[data-total]").textContent = total;
  }

  // An entry goes before the entry or to the end of the list under the pointer; a part before the part.
  function place(target) {
    if (dragged.matches("[data-part]")) return target.closest("[data-part]");
    return target.closest("[data-entry]") || target.closest("[data-part]")?.querySelector("[data-entries]");
  }

  form.addEventListener("dragstart", (event) => {
    if (!event.target.matches?.("[data-grip]")) return;
    dragged = event.target.closest("[data-entry], [data-part]");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", dragged.id);
    event.dataTransfer.setDragImage(dragged, 12, 12);
    dragged.classList.add("is-dragged");
  });
  form.addEventListener("dragover", (event) => {
    const goal = dragged && place(event.target);
    if (!goal) return;
    event.preventDefault();
    clear();
    if (goal !== dragged) goal.classList.add("is-over");
  });
  form.addEventListener("drop", (event) => {
    const goal = dragged && place(event.target);
    if (!goal || goal === dragged) return;
    event.preventDefault();
    const rect = goal.getBoundingClientRect();
    const below = event.clientY > rect.top + rect.height / 2;
    if (goal.matches("[data-entries]")) goal.append(dragged);
    else if (below) goal.after(dragged);
    else goal.before(dragged);
    form.querySelector("[data-refresh]").click();
  });
  form.addEventListener("dragend", () => {
    dragged?.classList.remove("is-dragged");
    clear();
    dragged = null;
  });
  // Whoever has added something by keyboard goes on with what follows it in the list.
  let row = -1;
  document.addEventListener("htmx:beforeRequest", () => {
    const here = document.activeElement?.closest(".results > li");
    row = here ? [...here.parentElement.children].indexOf(here) : -1;
  });
  function giveBack() {
    if (row < 0 || document.activeElement !== document.body) return;
    const rows = [...form.querySelectorAll(".results > li")];
    const next = [...rows.slice(row), ...rows.slice(0, row)].map((one) => one.querySelector(".button")).find(Boolean);
    next?.focus({ preventScroll: true });
    row = -1;
  }

  // An answer changes what differs and nothing else: what is being typed or chosen meanwhile stays, and so does a button
  // whose press waits for its turn.
  function renew(answer) {
    for (const fold of form.querySelectorAll(".results details[open]")) {
      const fresh = answer.getElementById(fold.closest("li").id)?.querySelector(".inside");
      if (fresh) fresh.innerHTML = fold.querySelector(".inside").innerHTML;
    }
    for (const id of ["outline", "results", "total", "said"]) {
      const fresh = answer.getElementById(id);
      if (fresh) faultline.morph(document.getElementById(id), document.adoptNode(fresh));
    }
    htmx.process(form);
    shown();
    tally();
    giveBack();
  }
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!["outline", "results"].includes(event.detail.target.id) || !event.detail.shouldSwap) return;
    event.detail.shouldSwap = false;
    renew(new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html"));
  });

  form.addEventListener("input", (event) => event.target.matches(".minutes") && tally());
  shown();
  tally();
})();
