"use strict";
{
  const byId = (id) => document.getElementById(id);
  const list = byId("atom-list"), dialog = byId("enlarged");
  let current = null; // the item whose atom is enlarged

  // Sorting: the largest codes first; the place of an atom by its usage is known.
  for (const button of document.querySelectorAll(".sorting button")) {
    button.addEventListener("click", () => {
      const key = button.dataset.key, sign = key === "size" ? -1 : 1;
      const value = (item) => sign * Number(item.dataset[key]);
      const items = [...list.children];
      items.sort((a, b) => value(a) - value(b) || a.dataset.number - b.dataset.number);
      list.append(...items);
      for (const other of document.querySelectorAll(".sorting button"))
        other.setAttribute("aria-pressed", String(other === button));
      byId("announcement").textContent = `Atoms are sorted by ${button.textContent}.`;
    });
  }

  // Of the maps of codes one is visible: that of the atom which the slider chooses.
  const slider = byId("map-slider");
  slider?.addEventListener("input", () => {
    const all = [...document.querySelectorAll(".code-map")];
    for (const [place, map] of all.entries()) map.hidden = place !== slider.valueAsNumber;
    slider.setAttribute("aria-valuetext", `Atom ${all[slider.valueAsNumber].dataset.number}`);
  });

  // Everything that comes from a file goes through textContent, never through HTML.
  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const percent = (value) => `${(100 * value).toFixed(1)}%`;

  const curveOf = (item) => {
    const small = item.querySelector("svg.curve");
    if (!small) return [];
    const box = element("div", undefined, "box"), ends = element("div", undefined, "ends");
    ends.append(element("span", small.dataset.high), element("span", small.dataset.low));
    const feet = element("div", undefined, "feet");
    feet.append(element("span", small.dataset.first), element("span", small.dataset.last));
    box.append(ends, small.cloneNode(true), feet);
    return [box];
  };

  const factsOf = ({ usage, size, norm, filled }) => {
    const facts = [["norm", norm], ["entries not zero", percent(filled)]];
    if (usage !== undefined)
      facts.unshift(["samples that use it", percent(usage)], ["mean size of codes", size]);
    return facts.map(([name, value]) => {
      const pair = element("div");
      pair.append(element("dt", name), element("dd", value));
      return pair;
    });
  };

  const show = (item) => {
    current = item;
    byId("enlarged-title").textContent = `Atom ${item.dataset.number}`;
    const picture = item.querySelector("img");
    byId("enlarged-picture").replaceChildren(...(picture ? [picture.cloneNode()] : []));
    byId("enlarged-curve").replaceChildren(...curveOf(item));
    byId("enlarged-facts").replaceChildren(...factsOf(item.dataset));
    const features = JSON.parse(item.dataset.features || "[]");
    byId("enlarged-features").hidden = features.length === 0;
    byId("enlarged-features").tBodies[0].replaceChildren(...features.map((pair) => {
      const row = element("tr");
      row.append(...pair.map((text) => element("td", text)));
      return row;
    }));
    if (dialog.open) return;
    dialog.showModal();
    byId("close").focus();
  };

  const previous = () => show(current.previousElementSibling ?? list.lastElementChild);
  const next = () => show(current.nextElementSibling ?? list.firstElementChild);
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li");
    if (item) show(item);
  });
  byId("previous").addEventListener("click", previous);
  byId("next").addEventListener("click", next);
  byId("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") previous();
    if (event.key === "ArrowRight") next();
  });
  // Escape closes the dialog; the focus returns to the atom that was enlarged last.
  dialog.addEventListener("close", () => current.querySelector("button").focus());

  byId("copy").addEventListener("click", async () => {
    const selection = getSelection();
    selection.selectAllChildren(byId("command"));
    let copied = false;
    try {
      await navigator.clipboard.writeText(selection.toString());
      copied = true;
    } catch {
      copied = document.execCommand("copy"); // where the page may not use the clipboard
    }
    byId("copy").textContent = copied ? "Copied" : "Selected";
  });
}
