// The details of one request.
import { instant, seconds } from "./formats.js";
import { node, tableOf } from "./nodes.js";


function list(pairs) {
  const result = document.createElement("dl");
  for (const [name, value] of pairs) result.append(node("dt", name), node("dd", value));
  return result;
}

function holdersTable(request, choose) {
  const { table, body } = tableOf(["request", "route", "worker", "held from", "to", "share of the wait"]);
  for (const holder of request.holders) {
    const row = body.insertRow();
    const button = node("button", `request ${holder.number}`);
    button.type = "button";
    button.addEventListener("click", () => choose(holder.number, holder.arrival));
    row.insertCell().append(button);
    const times = [holder.begin, holder.end].map((time) => (time === null ? "unknown" : instant(time).slice(11, 23)));
    for (const text of [holder.route ?? "", holder.worker ?? "", ...times, seconds(holder.seconds)]) row.insertCell().textContent = text;
  }
  return table;
}

function packetsTable(packets) {
  const { table, body } = tableOf(["after the first", "between", "direction", "what"]);
  for (const packet of packets) {
    const row = body.insertRow();
    const direction = packet.to_server ? "to the server" : "to the client";
    for (const text of [seconds(packet.at / 1e6), packet.place, direction, packet.label + (packet.lost ? " (no answer)" : "")]) row.insertCell().textContent = text;
  }
  return table;
}

export function showRequest(request, choose) {
  const holder = document.getElementById("request");
  holder.hidden = false;
  holder.dataset.number = request.number;
  const close = node("button", "Close");
  close.type = "button";
  close.addEventListener("click", () => { holder.hidden = true; });
  const parts = Object.entries(request.components).filter(([, value]) => Math.abs(value) >= 1e-6);
  holder.replaceChildren(
    node("h3", `Request ${request.number}: ${request.values.route ?? "no route"}, response time ${seconds(request.response_time)}`),
    close,
    list([
      ["arrived at the backend", request.arrival === null ? "unknown" : instant(request.arrival)],
      ["waited", seconds(request.wait)],
      ["held a worker", request.begin === null || request.end === null ? "unknown" : seconds((request.end - request.begin) / 1e6)],
      ...Object.entries(request.values).map(([name, value]) => [name.replaceAll("_", " "), value]),
    ]),
    node("h4", "Components of the response time"),
    list(parts.map(([name, value]) => [name.replaceAll("_", " "), seconds(value)])),
    node("h4", request.holders.length ? "Workers were held while it waited by" : "No request held a worker while it waited"),
  );
  if (request.holders.length) holder.append(holdersTable(request, choose));
  if (request.more_holders) holder.append(node("p", `and ${request.more_holders} more`, "dim"));
  for (const account of request.accounts) holder.append(node("p", `${seconds(account.seconds)} passed ${account.sentence}.`));
  if (request.span) holder.append(node("h4", "Span of the app"), list(Object.entries(request.span).map(([name, value]) => [name.replaceAll("_", " "), typeof value === "number" ? seconds(value) : value])));
  if (request.packets) holder.append(node("h4", "Packets"), packetsTable(request.packets));
  if (request.line) holder.append(node("h4", "Line of the log, redacted"), node("pre", request.line, "command"));
}
