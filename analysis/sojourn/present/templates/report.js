"use strict";
// The theme is the system's until another is chosen; the choice lasts as long as the page is open.
const THEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");
let theme = 0;
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  theme = (theme + 1) % THEMES.length;
  if (theme) document.documentElement.dataset.theme = THEMES[theme];
  else delete document.documentElement.dataset.theme;
  themeButton.textContent = `Theme: ${THEMES[theme]}`;
});

// What does not scroll is no stop on a reader's way through the page.
const sized = new ResizeObserver((entries) => {
  for (const target of new Set(entries.map((entry) => entry.target.closest(".scroll")))) {
    const scrolls = target.scrollWidth > target.clientWidth + 1 || target.scrollHeight > target.clientHeight + 1;
    if (scrolls) { target.tabIndex = 0; target.setAttribute("role", "region"); }
    else { target.removeAttribute("tabindex"); target.removeAttribute("role"); }
    if (scrolls) target.setAttribute("aria-label", target.dataset.label);
    else target.removeAttribute("aria-label");
  }
});
for (const region of document.querySelectorAll(".scroll")) {
  region.dataset.label = region.getAttribute("aria-label");
  sized.observe(region);
  sized.observe(region.firstElementChild); // what grows within it moves no border of it
}

// Charts of several panels cannot follow a width by themselves.
const AXIS = 72;
const LABEL = 96;
function fit(spec, width) {
  for (const key of ["vconcat", "concat"]) for (const one of spec[key] ?? []) fit(one, width);
  for (const one of spec.hconcat ?? []) fit(one, width / spec.hconcat.length);
  if (spec.spec) fit(spec.spec, width);
  if (typeof spec.width === "number") spec.width = Math.max(Math.round(width - AXIS), 100);
}

// On a small screen a long label leaves the chart room, and is read in full in the figures.
function shorten(spec) {
  if (spec === null || typeof spec !== "object") return;
  if (spec.labelLimit > LABEL) spec.labelLimit = LABEL;
  for (const [key, inner] of Object.entries(spec)) if (key !== "values") shorten(inner);
}

// The page names the columns of data once, and Vega reads them in every row.
function lengthen(spec) {
  for (const [name, data] of Object.entries(spec.datasets ?? {})) {
    if (!data.names) continue;
    spec.datasets[name] = data.rows.map((row) => Object.fromEntries(data.names.map((key, place) => [key, row[place]])));
  }
}

async function draw(script) {
  const holder = document.getElementById(script.id.replace("spec-", "chart-"));
  const spec = JSON.parse(script.textContent);
  lengthen(spec);
  const drawing = document.createElement("div");
  drawing.className = "live";
  drawing.style.width = "100%";
  drawing.ariaHidden = "true"; // what holds it says what it shows
  const width = holder.clientWidth;
  if (spec.usermeta?.fit) fit(spec, width - (spec.usermeta.labels ?? 0));
  if (width < 560) {
    spec.config.legend = { ...spec.config.legend, columns: 2, labelLimit: 120 };
    spec.config.axis = { ...spec.config.axis, labelLimit: LABEL, titleLimit: width - 60 };
    shorten(spec);
  }
  holder.append(drawing);
  try {
    await vegaEmbed(drawing, spec, { renderer: "svg", actions: false, tooltip: { theme: "dark" } });
    holder.dataset.drawn = "true";
  } catch (error) {
    drawing.remove();
    console.error(error);
  }
}

// One after the other, with room for the reader's own doing in between.
(async () => {
  for (const script of document.querySelectorAll('script[type="application/json"][id^="spec-"]')) {
    await draw(script);
    await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.ready = "true";
})();
