// What if: the form of a change, and the measured and the replayed distribution side by side.
import { ask, isCancelled, oneAtATime } from "./api.js";
import { drawCurves } from "./curves.js";
import { counted, percent, seconds } from "./formats.js";
import { node, rowHeading, tableOf } from "./nodes.js";

const element = (id) => document.getElementById(id);
const FIELDS = {
  "replay-workers": (value) => (Number(value) ? { workers: Number(value) > 0 ? `+${value}` : value } : {}),
  "replay-cores": (value) => (Number(value) ? { cores: Number(value) > 0 ? `+${value}` : value } : {}),
  "replay-load": (value) => (Number(value) === 1 ? {} : { load: `x${value}` }),
  "replay-discipline": (value) => (value ? { discipline: value } : {}),
  "replay-balancer": (value) => (value ? { balancer: value } : {}),
  "replay-timeout": (value) => (value.trim() ? { timeout: value.trim() } : {}),
};
let query = () => new URLSearchParams();

const written = (set) => Object.entries(set).map((pair) => pair.join("=")).join(", ");

function settings() {
  const result = {};
  for (const [id, setting] of Object.entries(FIELDS)) Object.assign(result, setting(element(id).value));
  const route = element("replay-route").value;
  const factor = element("replay-factor").value;
  const own = element("replay-own").value;
  if (route && Number(factor) !== 1) result[`service:${route}`] = `x${factor}`;
  if (route && Number(own)) result[`pool:${route}`] = own;
  return result;
}

function showOutputs() {
  for (const output of element("replay").querySelectorAll("output")) {
    const value = element(output.htmlFor.value).value;
    const relative = output.dataset.relative !== undefined && Number(value) > 0;
    output.textContent = `${output.dataset.before ?? ""}${relative ? "+" : ""}${value}`;
  }
}

const run = oneAtATime(async () => {
  element("replay").dataset.busy = "true";
  try {
    show(await ask("replay", query(), { body: { set: settings(), force: element("replay-force").checked } }));
  } catch (error) {
    if (!isCancelled(error)) showError(error.message);
  }
  element("replay").dataset.busy = "false";
});

function showError(text) {
  element("replay-sentence").textContent = `Not available: ${text}`;
  element("replay-figures").replaceChildren();
  element("replay-plot").hidden = true;
}

function show(result) {
  const grades = { exact: "The replay matches the measurement", rough: "The replay matches the measurement roughly", refused: "The replay does not match the measurement" };
  const off = ["mean", "p99"].map((name) => `${name} ${(result.error[name] * 100).toFixed(1)} %`).join(", ");
  element("replay-sentence").textContent = result.sentence;
  element("replay-grade").textContent = `${grades[result.grade]} of ${counted(result.requests, "request")} (off by: ${off}).`;
  element("replay-grade").dataset.grade = result.grade;
  const rows = [["measured", result.measured.response_time], ["replayed", result.replayed.response_time]];
  for (const variant of result.variants) {
    rows.push([written(variant.set), variant.response_time, variant.change]);
  }
  const { table, body } = tableOf(["requests", "mean", "p50", "p90", "p99", "change of p99"]);
  for (const [name, figures, change] of rows) {
    const row = body.insertRow();
    row.append(rowHeading(name));
    for (const key of ["mean", "p50", "p90", "p99"]) row.insertCell().textContent = seconds(figures[key]);
    row.insertCell().textContent = change ? `${change.p99 > 0 ? "+" : ""}${percent(change.p99)}` : "";
  }
  element("replay-figures").replaceChildren(table);
  const notes = [...result.withheld.map((one) => `Not predicted: ${written(one.set)}: ${one.reason}.`), ...result.notes];
  element("replay-notes").replaceChildren(...notes.map((note) => node("li", note)));
  element("replay-command").textContent = result.command;
  element("replay-plot").hidden = false;
  drawCurves("replay-plot", result.curves);
}

export function setUpReplay(currentQuery) {
  query = currentQuery;
  const form = element("replay");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", showOutputs);
  form.addEventListener("change", run);
  element("replay-usual").addEventListener("click", () => {
    form.reset();
    showOutputs();
    run();
  });
  element("replay-panel").addEventListener("toggle", () => element("replay-panel").open && !form.dataset.busy && run());
  showOutputs();
}

export function showRoutes(values) {
  const select = element("replay-route");
  const chosen = select.value;
  const routes = values.map(([route]) => route).filter((route) => route !== null && route !== "");
  select.replaceChildren(new Option("no route", ""), ...routes.map((route) => new Option(route, route)));
  if (routes.includes(chosen)) select.value = chosen;
}

export const viewChanged = () => element("replay-panel").open && run();
