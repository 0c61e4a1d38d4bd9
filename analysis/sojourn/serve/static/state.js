// What the page shows, held in the fragment of its address: a copied address opens the same view.
const AREA = ["from", "to"];
const SELECTION = ["begin", "end", "low", "high"];

export const state = { where: [], missing: [] };
const listeners = [];

export function read() {
  const query = new URLSearchParams(location.hash.slice(1));
  for (const name of [...AREA, ...SELECTION]) state[name] = query.has(name) ? Number(query.get(name)) : undefined;
  state.where = query.getAll("where");
  state.missing = query.getAll("missing");
}

export function fragment(current = state) {
  const query = new URLSearchParams();
  for (const name of [...AREA, ...SELECTION]) if (Number.isFinite(current[name])) query.set(name, current[name]);
  for (const value of current.where) query.append("where", value);
  for (const value of current.missing) query.append("missing", value);
  return query;
}

// `replace`: the change is no step to go back to, such as a movement with the keys.
export function change(values, { replace = false } = {}) {
  Object.assign(state, values);
  const hash = `#${fragment()}`;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  for (const listener of listeners) listener();
}

export function onChange(listener) {
  listeners.push(listener);
}

export function isFiltered(dimension, value) {
  return value === null ? state.missing.includes(dimension) : state.where.includes(`${dimension}=${value}`);
}

export function toggle(dimension, value) {
  const name = value === null ? "missing" : "where";
  const entry = value === null ? dimension : `${dimension}=${value}`;
  const entries = state[name];
  change({ [name]: entries.includes(entry) ? entries.filter((one) => one !== entry) : [...entries, entry] });
}

export const hasSelection = () => SELECTION.every((name) => Number.isFinite(state[name]));
export const NO_SELECTION = Object.fromEntries(SELECTION.map((name) => [name, undefined]));

window.addEventListener("popstate", () => {
  read();
  for (const listener of listeners) listener();
});
