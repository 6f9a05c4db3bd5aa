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
