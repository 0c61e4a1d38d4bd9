// The share of requests that took longer than a time, measured, replayed and predicted.
import { vegaOptions, vegaConfig } from "./charts.js";

const SERIES = { measured: ["#808080", [1, 0]], replayed: ["#D55E00", [4, 3]], predicted: ["#0072B2", [8, 3]] };
const HEIGHT = 220;

export async function drawCurves(id, curves) {
  const holder = document.getElementById(id);
  const rows = Object.entries(curves).flatMap(([what, curve]) => curve.seconds.map((value, place) => ({ what, seconds: value, share: curve.shares[place] })));
  const names = Object.keys(SERIES);
  const spec = {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width: Math.max(holder.clientWidth - 90, 120), height: HEIGHT, background: "transparent",
    data: { values: rows },
    mark: { type: "line", interpolate: "step-after", strokeWidth: 2 },
    encoding: {
      x: { field: "seconds", type: "quantitative", scale: { type: "log" }, axis: { title: "response time (s)", format: "~g" } },
      y: { field: "share", type: "quantitative", scale: { type: "log" }, axis: { title: "share that took longer", format: "~%", tickCount: 6 } },
      color: { field: "what", type: "nominal", title: null, legend: { orient: "top" }, scale: { domain: names, range: names.map((name) => SERIES[name][0]) } },
      strokeDash: { field: "what", type: "nominal", title: null, legend: { orient: "top" }, scale: { domain: names, range: names.map((name) => SERIES[name][1]) } },
    },
    config: vegaConfig(),
  };
  await vegaEmbed(holder, spec, vegaOptions());
  holder.dataset.drawn = String(Number(holder.dataset.drawn ?? 0) + 1);
}
