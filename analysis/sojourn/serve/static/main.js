import { address, ask, isCancelled, takeToken } from "./api.js";
import { Cover } from "./brush.js";
import { widthOf } from "./charts.js";
import { setUpComparison, showComparison } from "./comparison.js";
import { showFilters } from "./filters.js";
import { instant, parseInstant } from "./formats.js";
import { setUpLanes, showLanes } from "./lanes.js";
import { node } from "./nodes.js";
import { drawComposition, drawHeat, drawQueue, showFigures, showTable } from "./overview.js";
import { setUpReplay, showRoutes, viewChanged } from "./replay.js";
import { savePicture, saveRequests } from "./save.js";
import { NO_SELECTION, change, hasSelection, onChange, read, state } from "./state.js";

const element = (id) => document.getElementById(id);
const SHORTEST = 1000; // µs
let source;
let view;
let queue;

const window_ = () => ({ from: state.from ?? source.from, to: state.to ?? source.to });

function query() {
  const { from, to } = window_();
  const parameters = new URLSearchParams({ from, to, columns: Math.max(Math.round(widthOf("heat") / 4), 20) });
  for (const value of state.where) parameters.append("where", value);
  for (const value of state.missing) parameters.append("missing", value);
  return parameters;
}

// The selection if there is one, otherwise the window.
function selectedQuery() {
  const parameters = query();
  if (hasSelection()) for (const name of ["begin", "end", "low", "high"]) parameters.set(name, state[name]);
  return parameters;
}

function say(error) {
  if (error && isCancelled(error)) return;
  element("problem").hidden = !error;
  element("problem").textContent = error?.message ?? "";
}

async function refresh() {
  const parameters = query();
  document.documentElement.dataset.busy = "true";
  const figures = ask("figures", parameters).then(showFigures).catch(say);
  const queueing = ask("queue", parameters).catch((error) => ({ error: error.message, isCancelled: isCancelled(error) }));
  try {
    view = await ask("view", parameters);
    say();
    showFilters(source.dimensions, view);
    showRoutes(view.values.route);
    showArea();
    await Promise.all([drawHeat(view), drawComposition(view)]);
    markAll();
    element("command").textContent = view.command || "No command selects several values of a column, or a missing one.";
    queue = await queueing;
    if (queue.isCancelled) return;
    element("queue").hidden = Boolean(queue.error);
    element("queue-reason").hidden = !queue.error;
    element("queue-reason").textContent = queue.error ? `Not available: ${queue.error}` : "";
    if (!queue.error) await drawQueue(view, queue);
    showTable(view, queue.error ? undefined : queue);
    markAll();
    await figures;
    viewChanged();
    showLanes();
    showComparison();
    document.documentElement.dataset.busy = "false";
  } catch (error) {
    say(error);
    if (!isCancelled(error)) document.documentElement.dataset.busy = "false";
  }
}

function showArea() {
  const { from, to } = window_();
  element("area-from").value = instant(from);
  element("area-to").value = instant(to);
  element("area-low").value = Number.isFinite(state.low) ? state.low : "";
  element("area-high").value = Number.isFinite(state.high) ? state.high : "";
  element("whole").disabled = from === source.from && to === source.to;
  for (const id of ["zoom", "clear"]) element(id).disabled = !hasSelection();
}

// Marks on the charts: the incident, and the selection.
const partOf = (value) => (value - view.from) / (view.to - view.from);
const covers = ["heat", "composition", "queue"].map((id) => new Cover(id, {
  isArea: id === "heat",
  onSelect: (box) => (id === "heat" ? select(box) : zoom(at(box.left), at(box.right))),
  onMove: (x) => showCursor(x),
}));
const at = (part) => Math.round(view.from + part * (view.to - view.from));
const height = (value) => {
  const [low, high] = [Math.log(view.heat.edges[0]), Math.log(view.heat.edges.at(-1))];
  return 1 - (Math.log(value) - low) / (high - low);
};
const responseAt = (part) => Math.exp(Math.log(view.heat.edges.at(-1)) + part * (Math.log(view.heat.edges[0]) - Math.log(view.heat.edges.at(-1))));

function markAll() {
  const { incident } = source;
  for (const cover of covers) {
    cover.place();
    const bands = incident ? [{ left: partOf(incident.from), right: partOf(incident.to), className: "band" }] : [];
    if (hasSelection()) {
      const tall = cover.isArea ? { top: height(state.high), bottom: height(Math.max(state.low, 1e-9)) } : {};
      bands.push({ left: partOf(state.begin), right: partOf(state.end), ...tall, className: "chosen" });
    }
    cover.show(bands);
  }
}

function showCursor(x) {
  for (const cover of covers) {
    const line = cover.element.querySelector(".cursor") ?? cover.element.appendChild(Object.assign(document.createElement("div"), { className: "cursor" }));
    line.style.left = `${x * 100}%`;
  }
}

const digits = (value) => Number(value.toPrecision(4));

function select(box) {
  change({ begin: at(box.left), end: at(box.right), low: digits(responseAt(box.bottom)), high: digits(responseAt(box.top)) });
}

function zoom(from, to, options) {
  const [first, last] = [Math.max(from, source.from), Math.min(to, source.to)];
  if (last - first < SHORTEST) return;
  const whole = first === source.from && last === source.to;
  change(whole ? { from: undefined, to: undefined } : { from: Math.round(first), to: Math.round(last) }, options);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { from, to } = window_();
  const length = to - from;
  const scale = (factor) => zoom(from + length * (1 - factor) / 2, to - length * (1 - factor) / 2, { replace: true });
  const move = (part) => {
    const by = Math.max(Math.min(length * part, source.to - to), source.from - from);
    zoom(from + by, to + by, { replace: true });
  };
  const keys = {
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), "+": () => scale(0.5), "=": () => scale(0.5),
    "-": () => scale(2), 0: () => zoom(source.from, source.to), Escape: () => change(NO_SELECTION),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

function applyArea(event) {
  event.preventDefault();
  const [from, to] = [parseInstant(element("area-from").value), parseInstant(element("area-to").value)];
  if (!Number.isFinite(from) || !Number.isFinite(to) || to - from < SHORTEST) {
    say(new Error("The window is from one instant to a later one: 2026-01-31T12:00:00Z."));
    return;
  }
  const [low, high] = ["area-low", "area-high"].map((id) => element(id).value.trim());
  if (low === "" && high === "") {
    say();
    zoom(from, to);
    return;
  }
  const [above, below] = [Number(low || "0"), high === "" ? view.heat.edges.at(-1) : Number(high)];
  if (!(above >= 0 && below > above)) {
    say(new Error("The response times of a selection are two numbers of seconds, the second one larger."));
    return;
  }
  say();
  change({ from, to, begin: from, end: to, low: above, high: below });
}

// Follow logs that are being written, until what is looked at is to stay.
const POLL = 1000; // ms
let paused = false;

async function follow() {
  if (!paused && document.documentElement.dataset.busy !== "true") {
    try {
      const latest = await ask("source");
      if (latest.generation !== source.generation && !paused) {
        source = latest;
        showSource();
        await refresh();
      }
    } catch (error) {
      say(error);
    }
  }
  setTimeout(follow, POLL);
}

function pause() {
  paused = !paused;
  element("pause").setAttribute("aria-pressed", String(paused));
  element("pause").textContent = paused ? "Continue" : "Pause";
  change(paused ? window_() : { from: undefined, to: undefined });
}

function showSource() {
  document.title = `Sojourn: ${source.names.join(", ")}`;
  element("name").textContent = source.names.join(", ");
  const notes = [source.incident?.sentence, ...source.notes].filter(Boolean);
  element("notes").replaceChildren(...notes.map((note) => node("p", note, "note")));
}

async function firstSource() {
  for (;;) {
    try {
      return await ask("source");
    } catch (error) {
      say(error);
      if (!error.message.endsWith("no request yet")) throw error;
      await new Promise((resolve) => setTimeout(resolve, POLL));
    }
  }
}

async function start() {
  takeToken();
  read();
  onChange(refresh);
  const themes = ["auto", "light", "dark"];
  element("theme").addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % 3];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    element("theme").textContent = `Theme: ${next}`;
    refresh();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  element("link").addEventListener("click", async () => {
    await navigator.clipboard.writeText(address());
    element("link").textContent = "Copied";
  });
  element("whole").addEventListener("click", () => zoom(source.from, source.to));
  element("clear").addEventListener("click", () => change(NO_SELECTION));
  element("zoom").addEventListener("click", () => zoom(state.begin, state.end));
  element("area").addEventListener("submit", applyArea);
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => savePicture(button.dataset.of, button.dataset.save).catch(say));
  }
  element("save-requests").addEventListener("click", () => saveRequests(selectedQuery()).catch(say));
  element("plots").addEventListener("keydown", onKey);
  source = await firstSource();
  showSource();
  setUpComparison(selectedQuery);
  setUpReplay(query);
  setUpLanes(query, zoom);
  await refresh();
  let width = widthOf("heat");
  new ResizeObserver(() => {
    const now = element("heat").clientWidth;
    if (now !== width) {
      width = now;
      refresh();
    }
  }).observe(element("heat"));
  document.documentElement.dataset.ready = "true";
  if (source.follows) {
    element("pause").hidden = false;
    element("pause").addEventListener("click", pause);
    setTimeout(follow, POLL);
  }
}

start();
