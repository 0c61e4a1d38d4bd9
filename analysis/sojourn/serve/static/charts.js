// The three charts over time, drawn by Vega on one time axis. Vega interprets its expressions: the page allows no eval.
export const PADDING = { left: 68, right: 14, top: 6, bottom: 24 };
export const HEIGHTS = { heat: 250, composition: 120, queue: 120 };
// From few to many requests on a light background, even in lightness.
const COUNTS = ["#eee8c8", "#c4b98a", "#8e8a79", "#5a6071", "#273a6b", "#00204d"];
const COLOURS = { service: "#0072B2", queueing: "#D55E00", other: "#8b8b8b" };
const DECADES = [1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000]; // s, of the labels
const TIMES = {
  milliseconds: ":%S.%L", seconds: "%H:%M:%S", minutes: "%H:%M", hours: "%H:%M", date: "%b %d", week: "%b %d",
  month: "%b %d", year: "%b %d",
};

const views = new Map();

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const domain = (first, last) => ({ domainMin: { expr: first }, domainMax: { expr: last }, nice: false });
const time = (field) => ({
  field, type: "temporal", scale: { type: "utc", ...domain("x0", "x1") },
  axis: { title: null, grid: false, format: TIMES, labelOverlap: true, tickCount: { expr: "width / 110" } },
});
const amount = (field, title, format) => ({
  field, type: "quantitative", scale: { ...domain("y0", "y1"), zero: false }, axis: { title, format, tickCount: 4, grid: true, titleX: -56 },
});

function layers(id) {
  if (id === "heat") {
    const scale = { type: "log", ...domain("y0", "y1") };
    return [{
      mark: { type: "rect", stroke: null, clip: true },
      encoding: {
        x: time("a"), x2: { field: "b" },
        y: { field: "low", type: "quantitative", scale, axis: { title: "response time", titleX: -56, grid: false, values: DECADES, labelExpr: "datum.value >= 1 ? format(datum.value, '~r') + ' s' : format(datum.value * 1000, '~r') + ' ms'" } },
        y2: { field: "high" },
        color: {
          field: "requests", type: "quantitative", legend: null,
          scale: { type: "log", domainMin: 1, domainMax: { expr: "most" }, range: isDark() ? [...COUNTS].reverse() : COUNTS, interpolate: "rgb", clamp: true },
        },
      },
    }];
  }
  const bars = (title, format) => ({
    mark: { type: "rect", stroke: null, clip: true },
    encoding: {
      x: time("a"), x2: { field: "b" }, y: amount("low", title, format), y2: { field: "high" },
      color: { field: "part", type: "nominal", legend: null, scale: { domain: Object.keys(COLOURS), range: Object.values(COLOURS) } },
    },
  });
  if (id === "composition") return [bars("seconds", "~s")];
  return [
    bars("requests", "~s"),
    {
      transform: [{ filter: "datum.part === 'queueing'" }],
      mark: { type: "line", interpolate: "step-after", color: COLOURS.service, strokeWidth: 2, clip: true },
      encoding: { x: time("a"), y: amount("serving", "requests", "~s") },
    },
    { mark: { type: "rule", color: style("--dim"), strokeDash: [6, 3], strokeWidth: 2, clip: true }, encoding: { y: { datum: { expr: "workers" }, type: "quantitative" } } },
  ];
}

export const vegaOptions = () => ({ actions: false, ast: true, logLevel: 1, renderer: "canvas", tooltip: false, defaultStyle: false });
export function vegaConfig() {
  const text = style("--text");
  const axis = { labelColor: text, titleColor: text, gridColor: style("--line"), domainColor: style("--dim"), tickColor: style("--dim"), titleFontWeight: "normal" };
  return { view: { stroke: null }, axis, legend: { labelColor: text, titleColor: text } };
}

function specification(id, width) {
  const names = ["x0", "x1", "y0", "y1", "most", "workers"];
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width, height: HEIGHTS[id], padding: PADDING, autosize: "none", background: "transparent",
    params: names.map((name) => ({ name, value: name.endsWith("1") || name === "most" ? 2 : 1 })),
    data: { name: "rows", values: [], format: { parse: null } },
    layer: layers(id),
    config: vegaConfig(),
  };
}

async function viewOf(id) {
  const holder = document.getElementById(id);
  const width = Math.max(holder.clientWidth - PADDING.left - PADDING.right, 120);
  const key = `${width} ${isDark()}`;
  if (views.get(id)?.key !== key) {
    views.get(id)?.embedded.then((result) => result.finalize());
    const target = holder.querySelector(".drawing") ?? holder.appendChild(Object.assign(document.createElement("div"), { className: "drawing" }));
    views.set(id, { key, width, embedded: vegaEmbed(target, specification(id, width), vegaOptions()) });
  }
  return (await views.get(id).embedded).view;
}

// `bounds`: x0, x1 (ms), y0, y1 and what else the chart is drawn with.
export async function draw(id, rows, bounds) {
  const view = await viewOf(id);
  for (const [name, value] of Object.entries(bounds)) view.signal(name, value);
  await view.data("rows", rows).runAsync();
  document.getElementById(id).dataset.drawn = String(Number(document.getElementById(id).dataset.drawn ?? 0) + 1);
}

export async function picture(id, type) {
  const view = await viewOf(id);
  return type === "svg" ? view.toSVG() : view.toImageURL("png", 2);
}

export const widthOf = (id) => views.get(id)?.width ?? Math.max(document.getElementById(id).clientWidth - PADDING.left - PADDING.right, 120);
