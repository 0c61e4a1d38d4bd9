// What distinguishes the selected requests, and which requests held the workers meanwhile.
import { ask, isCancelled } from "./api.js";
import { count, counted, percent, seconds } from "./formats.js";
import { node, rowHeading, tableOf } from "./nodes.js";
import { hasSelection, toggle } from "./state.js";

const element = (id) => document.getElementById(id);
const FILTERS = ["service", "route", "upstream", "worker", "status"];

let query = () => new URLSearchParams();

function bars(row, share, other) {
  const cell = document.createElement("td");
  cell.className = "bars";
  for (const [part, name] of [[row[share], "selected"], [row[other], "rest"]]) {
    const bar = node("i", "", name);
    bar.style.inlineSize = `${Math.min(part * 100, 100)}%`;
    cell.append(bar);
  }
  return cell;
}

function list(rows, [share, other], headings, more) {
  const { table, body } = tableOf(headings);
  for (const row of rows) {
    const line = body.insertRow();
    line.append(rowHeading(`${row.column} ${row.value ?? "(missing)"}`));
    line.append(bars(row, share, other));
    line.insertCell().textContent = percent(row[share]);
    line.insertCell().textContent = percent(row[other]);
    line.insertCell().textContent = `+${(row.low * 100).toFixed(1)} … +${(row.high * 100).toFixed(1)}`;
    line.insertCell().textContent = count(row.requests);
    const action = line.insertCell();
    if (FILTERS.includes(row.column)) {
      const button = node("button", "Filter");
      button.type = "button";
      button.setAttribute("aria-label", `Filter by ${row.column} ${row.value ?? "(missing)"}`);
      button.addEventListener("click", () => toggle(row.column, row.value === null ? null : String(row.value)));
      action.append(button);
    } else action.textContent = "–";
  }
  const holder = document.createElement("div");
  holder.className = "scroll";
  holder.tabIndex = 0;
  holder.setAttribute("role", "region");
  holder.setAttribute("aria-label", headings[0]);
  holder.append(table);
  return more ? [holder, node("p", `and ${count(more)} more`, "dim")] : [holder];
}

function show(result) {
  const parts = [node("p", result.sentence, "answer")];
  for (const failure of result.failures) parts.push(node("p", failure, "note"));
  const of = (part) => `${counted(part.requests, "request")}, response time mean ${seconds(part.response_time.mean)}, queueing delay mean ${seconds(part.queueing_delay.mean)}`;
  parts.push(node("p", `Selected: ${of(result.selected)}. Rest: ${of(result.rest)}.`, "dim"));
  if (result.differences.length) {
    parts.push(node("h3", "Values that are more frequent among the selected requests"));
    parts.push(...list(result.differences, ["selected", "rest"], ["value", "selected and rest", "of the selected", "of the rest", "difference, 95 % (points)", "requests", "filter"], result.more.differences));
  }
  if (result.culprits.length) {
    parts.push(node("h3", "Requests that held the workers while the selected requests waited"));
    parts.push(...list(result.culprits, ["share", "of_requests"], ["value", "held time and requests", "of the held time", "of all requests", "difference, 95 % (points)", "requests", "filter"], result.more.culprits));
  } else if (result.culprits_unknown) parts.push(node("p", result.culprits_unknown, "dim"));
  for (const note of result.notes) parts.push(node("p", note, "dim"));
  element("comparison").replaceChildren(...parts);
  element("comparison-command").textContent = result.command;
  element("comparison-command").hidden = false;
}

export async function showComparison() {
  const panel = element("comparison-panel");
  if (!hasSelection()) {
    element("comparison").replaceChildren(node("p", "Select a cloud first: drag over the requests, or enter response times.", "dim"));
    element("comparison-command").hidden = true;
    return;
  }
  panel.open = true;
  panel.dataset.busy = "true";
  try {
    show(await ask("comparison", query()));
  } catch (error) {
    if (isCancelled(error)) return;
    element("comparison").replaceChildren(node("p", `Not available: ${error.message}`, "dim"));
    element("comparison-command").hidden = true;
  }
  panel.dataset.busy = "false";
}

export function setUpComparison(selectedQuery) {
  query = selectedQuery;
}
