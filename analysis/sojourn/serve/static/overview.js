// The overview: what the server binned, as rows of the charts, and the figures of the view.
import { draw } from "./charts.js";
import { count, counted, instant, percent, seconds } from "./formats.js";
import { node, tableOf } from "./nodes.js";

const milliseconds = (view, column) => (view.from + column * view.width) / 1000;
const span = (view) => ({ x0: view.from / 1000, x1: view.to / 1000 });

export async function drawHeat(view) {
  const { heat } = view;
  const rows = heat.column.map((column, place) => ({
    a: milliseconds(view, column), b: milliseconds(view, column + 1),
    low: heat.edges[heat.bin[place]], high: heat.edges[heat.bin[place] + 1], requests: heat.requests[place],
  }));
  const most = heat.requests.reduce((one, other) => Math.max(one, other), 2);
  await draw("heat", rows, { ...span(view), y0: heat.edges[0], y1: heat.edges.at(-1), most });
}

export async function drawComposition(view) {
  const parts = view.composition;
  const rows = [];
  let most = 1e-6;
  parts.requests.forEach((requests, column) => {
    if (!requests) return;
    const service = Math.max(parts.service[column], 0);
    const queueing = Math.max(parts.queueing[column], 0);
    const response = Math.max(parts.response[column], service + queueing);
    const edges = [0, service, service + queueing, response];
    most = Math.max(most, response);
    ["service", "queueing", "other"].forEach((part, place) => rows.push({
      a: milliseconds(view, column), b: milliseconds(view, column + 1), low: edges[place], high: edges[place + 1], part,
    }));
  });
  await draw("composition", rows, { ...span(view), y0: 0, y1: most });
}

export async function drawQueue(view, queue) {
  const rows = queue.waiting.map((waiting, column) => ({
    a: milliseconds(queue, column), b: milliseconds(queue, column + 1), low: 0, high: waiting, part: "queueing",
    serving: queue.in_service[column],
  }));
  const most = rows.reduce((one, row) => Math.max(one, row.high, row.serving), queue.workers);
  await draw("queue", rows, { ...span(view), y0: 0, y1: most * 1.05, workers: queue.workers });
}

export function showFigures(figures) {
  const element = document.getElementById("figures");
  element.replaceChildren();
  const say = (text, className) => element.append(node(className === undefined ? "span" : "b", text, className));
  say(counted(figures.requests, "request"), "");
  if (!figures.requests) return;
  say(": response time mean ");
  say(seconds(figures.response.mean), "");
  say(`, p50 ${seconds(figures.response.p50)}, p99 ${seconds(figures.response.p99)}; queueing delay mean `);
  say(seconds(figures.queueing.mean), "queueing");
  say(`, p99 ${seconds(figures.queueing.p99)}; service time mean `);
  say(seconds(figures.service.mean), "service");
  say(`, p99 ${seconds(figures.service.p99)}.`);
  const unknown = figures.requests - figures.queueing.requests;
  if (unknown) say(` The queueing delay of ${percent(unknown / figures.requests)} is unknown.`);
}

// The figures that the charts are drawn from, for readers who do not see them.
export function showTable(view, queue) {
  const names = ["begin (UTC)", "requests", "response mean", "queueing mean", "service mean"];
  if (queue) names.push("waiting", "most waiting", "in service");
  const { table, body } = tableOf(names);
  view.composition.requests.forEach((requests, column) => {
    if (!requests && !queue?.waiting[column]) return;
    const row = body.insertRow();
    const part = view.composition;
    const cells = [instant(view.from + column * view.width), count(requests), seconds(part.response[column]), seconds(part.queueing[column]), seconds(part.service[column])];
    if (queue) cells.push(queue.waiting[column].toFixed(2), count(queue.most_waiting[column]), queue.in_service[column].toFixed(2));
    for (const cell of cells) row.insertCell().textContent = cell;
  });
  document.getElementById("table").replaceChildren(table);
}
