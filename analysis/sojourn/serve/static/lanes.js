// The workers and the waiting requests of the window, lane by lane.
import { ask, isCancelled, oneAtATime } from "./api.js";
import { count, counted, seconds, ticks } from "./formats.js";
import { CanvasPen, SvgPen } from "./pens.js";
import { showRequest } from "./request.js";
import { save } from "./save.js";

const element = (id) => document.getElementById(id);
const GUTTER = 150; // px of the names
const WORKER = 18; // px: height of the lane of a worker
const WAITING = 140; // px: height of the waiting lanes of a backend, at most
const HEADING = 22;
const AXIS = 20;
const LEAST = 4; // px: a shorter drag is a click
const COLOURS = {
  read: "#CC79A7", service: "#0072B2", body: "#56B4E9", after: "#009E73", turnaround: "#8b8b8b",
  "unknown service": "#CC79A7", waiting: "#D55E00", abandoned: "#8c3b00",
};
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let data;
let places = []; // y and height of each lane
let height = 0;
let query = () => new URLSearchParams();
let onZoom = () => {};
let chosen; // details of a request
let current; // its number, or that of the next one

const isOpen = () => element("lanes-panel").open;
const width = () => Math.max(element("lanes").clientWidth, 320);
const x = (time) => GUTTER + ((time - data.from) / (data.to - data.from)) * (width() - GUTTER - 10);
const timeAt = (position) => data.from + ((position - GUTTER) / (width() - GUTTER - 10)) * (data.to - data.from);

const lanesOf = (backend) => data.lanes.map((lane, number) => ({ ...lane, number })).filter((lane) => lane.backend === backend);

function layOut() {
  places = [];
  let y = AXIS;
  for (const backend of data.backends) {
    y += HEADING;
    const lanes = lanesOf(backend);
    const waiting = lanes.filter((lane) => lane.waiting);
    const each = Math.min(Math.max(WAITING / Math.max(waiting.length, 1), 1.5), 10);
    for (const lane of waiting) {
      places[lane.number] = { y, height: each };
      y += each;
    }
    if (waiting.length) y += 6;
    for (const lane of lanes.filter((one) => !one.waiting)) {
      places[lane.number] = { y, height: WORKER - 3 };
      y += WORKER;
    }
  }
  height = y + 8;
}

function drawWith(pen) {
  const [text, dim, line] = ["--text", "--dim", "--line"].map(style);
  for (const { time, label } of ticks(data.from, data.to)) {
    pen.line(x(time), AXIS - 4, x(time), height, line);
    pen.text(label, x(time) + 3, 13, dim, width() - x(time) - 3);
  }
  let y = AXIS;
  data.backends.forEach((backend, place) => {
    const own = lanesOf(backend);
    y = Math.min(...own.map((lane) => places[lane.number].y)) - 6;
    const waiting = own.filter((lane) => lane.waiting).length;
    pen.text(`${backend ?? "(no address)"}${waiting ? `: up to ${count(waiting)} waiting` : ""}`, 4, place || y > AXIS ? y : AXIS + 12, text, width() - 8);
    for (const lane of own.filter((one) => !one.waiting)) pen.text(lane.name, 4, places[lane.number].y + 12, dim, GUTTER - 10);
    const first = own.find((lane) => lane.waiting);
    if (first) pen.text("waiting", 4, places[first.number].y + 12, dim, GUTTER - 10);
  });
  if (data.slices) drawSlices(pen);
  else drawAverages(pen);
}

function drawSlices(pen) {
  const { begin, end, lane, category } = data.slices;
  for (let slice = 0; slice < begin.length; slice += 1) {
    const [from, to] = [Math.max(begin[slice], 0), Math.min(end[slice], data.to - data.from)];
    if (to <= from) continue;
    const place = places[lane[slice]];
    const left = x(data.from + from);
    const wide = Math.max(x(data.from + to) - left, 0.5);
    pen.rectangle(left, place.y, wide > 2 ? wide - 0.5 : wide, Math.max(place.height - 0.5, 1), COLOURS[data.categories[category[slice]]] ?? "#8b8b8b");
  }
  if (!chosen) return;
  const boxes = new Map();
  const number = (slice) => data.requests.number[data.slices.request[slice]];
  const box = (slice) => ({ left: x(data.from + Math.max(begin[slice], 0)), right: x(data.from + Math.min(end[slice], data.to - data.from)), ...places[lane[slice]] });
  for (let slice = 0; slice < begin.length; slice += 1) {
    const isWait = ["waiting", "abandoned"].includes(data.categories[category[slice]]);
    if (number(slice) === chosen.number) {
      const own = box(slice);
      pen.outline(own.left - 1, own.y - 1, Math.max(own.right - own.left, 2) + 2, own.height + 1, style("--text"));
      if (isWait) boxes.set("wait", own);
    } else if (!isWait && chosen.holders.some((holder) => holder.number === number(slice)) && !boxes.has(number(slice))) {
      boxes.set(number(slice), box(slice));
    }
  }
  const wait = boxes.get("wait");
  for (const [key, held] of boxes) {
    if (key === "wait") continue;
    pen.outline(held.left, held.y, Math.max(held.right - held.left, 2), held.height, style("--queueing"));
    if (wait) pen.line((wait.left + wait.right) / 2, wait.y + wait.height, Math.max(held.left, wait.left), held.y, style("--queueing"), 1.5);
  }
}

function drawAverages(pen) {
  for (const [lane, parts] of Object.entries(data.averages.parts)) {
    const place = places[lane];
    parts.forEach((part, column) => {
      if (!part) return;
      const left = x(data.from + column * data.averages.width);
      const right = Math.min(x(data.from + (column + 1) * data.averages.width), width() - 10);
      pen.rectangle(left, place.y + place.height * (1 - part), right - left, place.height * part, COLOURS.service);
    });
  }
}

function draw() {
  if (!data) return;
  layOut();
  drawWith(new CanvasPen(element("lanes-canvas"), width(), height));
  element("lanes").dataset.drawn = String(Number(element("lanes").dataset.drawn ?? 0) + 1);
}

function showNotes() {
  const legend = data.slices ? data.categories.filter((name, place) => data.slices.category.includes(place)) : ["service"];
  element("lanes-legend").replaceChildren(...legend.map((name) => {
    const key = Object.assign(document.createElement("span"), { className: "key", textContent: data.slices ? name : "part of the time for which the worker is held" });
    key.style.setProperty("--key", COLOURS[name]);
    return key;
  }));
  const notes = [];
  if (!data.slices) notes.push("Zoom in to see single requests.");
  if (data.left_out) notes.push(`${counted(data.left_out, "further backend")} with fewer waiting requests: choose one by a filter.`);
  if (data.unplaced) notes.push(`${counted(data.unplaced, "request")} waited while 200 others did, and have no lane.`);
  element("lanes-note").textContent = notes.join(" ");
}

export async function showLanes() {
  if (!isOpen()) return;
  element("lanes").dataset.busy = "true";
  try {
    data = await ask("lanes", query());
    element("lanes").hidden = false;
    element("lanes-command").textContent = data.command;
    showNotes();
    draw();
  } catch (error) {
    if (isCancelled(error)) return;
    element("lanes").hidden = true;
    element("lanes-note").textContent = `Not available: ${error.message}`;
  }
  element("lanes").dataset.busy = "false";
}

const choose = oneAtATime(async (number, arrival) => {
  current = number;
  try {
    const parameters = query();
    parameters.set("number", number);
    if (arrival !== undefined) parameters.set("arrival", arrival);
    chosen = await ask("request", parameters);
    showRequest(chosen, choose);
    draw();
  } catch (error) {
    element("lanes-note").textContent = `Not available: ${error.message}`;
  }
});

function hit(event) {
  if (!data?.slices) return undefined;
  const box = element("lanes-canvas").getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const time = timeAt(px) - data.from;
  const slack = ((data.to - data.from) / (width() - GUTTER)) * 3;
  let best;
  data.slices.lane.forEach((lane, slice) => {
    const place = places[lane];
    if (py < place.y - 1 || py > place.y + place.height + 1) return;
    const away = Math.max(data.slices.begin[slice] - time, time - data.slices.end[slice], 0);
    if (away <= slack && (!best || away < best.away)) best = { slice, away };
  });
  return best && data.slices.request[best.slice];
}

function titleOf(place) {
  const { route, status, wait, hold } = data.requests;
  return `${route[place] ?? "no route"}, status ${status[place]}: waited ${seconds(wait[place])}, held a worker for ${seconds(hold[place])}`;
}

function step(by) {
  const numbers = data?.requests?.number ?? [];
  if (!numbers.length) return;
  const place = numbers.indexOf(current);
  const first = by > 0 ? 0 : numbers.length - 1;
  const next = place < 0 ? first : Math.min(Math.max(place + by, 0), numbers.length - 1);
  current = numbers[next];
  choose(current, data.requests.arrival[next]);
}

export function setUpLanes(currentQuery, zoom) {
  query = currentQuery;
  onZoom = zoom;
  const holder = element("lanes");
  let from;
  holder.addEventListener("pointerdown", (event) => { from = event.clientX; });
  holder.addEventListener("pointerup", (event) => {
    if (from === undefined || !data) return;
    const left = element("lanes-canvas").getBoundingClientRect().left;
    if (Math.abs(event.clientX - from) >= LEAST) {
      const times = [from, event.clientX].map((position) => timeAt(Math.max(position - left, GUTTER))).sort((one, other) => one - other);
      onZoom(...times);
    } else {
      const place = hit(event);
      if (place !== undefined) choose(data.requests.number[place], data.requests.arrival[place]);
    }
    from = undefined;
  });
  holder.addEventListener("pointermove", (event) => {
    const place = from === undefined ? hit(event) : undefined;
    holder.title = place === undefined ? "" : titleOf(place);
  });
  holder.addEventListener("keydown", (event) => {
    if (event.key === "n") step(1);
    else if (event.key === "p") step(-1);
  });
  element("lanes-panel").addEventListener("toggle", showLanes);
  new ResizeObserver(draw).observe(holder);
  element("lanes-svg").addEventListener("click", () => {
    const pen = new SvgPen(width(), height, style("--paper"));
    drawWith(pen);
    save(String(pen), "sojourn-lanes.svg", "image/svg+xml");
  });
  element("lanes-png").addEventListener("click", () => element("lanes-canvas").toBlob((blob) => save(blob, "sojourn-lanes.png")));
}
