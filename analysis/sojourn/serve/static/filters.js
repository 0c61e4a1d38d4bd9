// Filters as chips: the most frequent values of each dimension in the view.
import { count } from "./formats.js";
import { isFiltered, state, toggle } from "./state.js";

const text = (value) => (value === null ? "(missing)" : value === "" ? "(empty)" : value);

export function showFilters(dimensions, view) {
  const holder = document.getElementById("filters");
  const focused = document.activeElement?.dataset?.chip;
  holder.replaceChildren(...dimensions.map((dimension) => {
    const values = new Map(view.values[dimension].map(([value, requests]) => [value, requests]));
    // A filter without a request in the view remains, so that it can be removed.
    for (const entry of state.where) {
      const [name, value] = [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)];
      if (name === dimension && !values.has(value)) values.set(value, 0);
    }
    if (state.missing.includes(dimension) && !values.has(null)) values.set(null, 0);
    const group = document.createElement("div");
    group.className = "dimension";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", dimension);
    group.append(Object.assign(document.createElement("span"), { textContent: dimension }));
    group.append(...[...values].map(([value, requests]) => chip(dimension, value, requests)));
    if (view.more[dimension]) {
      group.append(Object.assign(document.createElement("i"), { className: "dim", textContent: `and ${count(view.more[dimension])} more` }));
    }
    return group;
  }));
  if (focused) [...holder.querySelectorAll("button")].find((button) => button.dataset.chip === focused)?.focus();
}

function chip(dimension, value, requests) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "chip";
  button.dataset.chip = JSON.stringify([dimension, value]);
  button.title = text(value);
  button.setAttribute("aria-pressed", String(isFiltered(dimension, value)));
  button.append(text(value).slice(0, 200), Object.assign(document.createElement("b"), { textContent: count(requests) }));
  button.addEventListener("click", () => toggle(dimension, value));
  return button;
}
