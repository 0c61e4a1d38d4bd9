// Draws scenes and their lines of depth on canvases, in the colours of the page.
const OUTCOMES = ["served", "given up", "turned away"];
const LABELS = {read: "read", service: "in service", body: "body", after: "after", "in doubt": "perhaps held"};
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "text", "dim", "line", "panel", "waiting", "working", "abandoned", "stroke"])
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  colours.font = style.fontFamily || "sans-serif";
}

function pen(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function write(context, words, x, y, size, colour, align = "left", baseline = "alphabetic", most) {
  context.font = `${size}px ${colours.font}`;
  context.fillStyle = colour; context.textAlign = align; context.textBaseline = baseline;
  context.fillText(words, x, y, most);
}

function box(context, x, y, width, height, radius) {
  context.beginPath();
  if (radius && context.roundRect) context.roundRect(x, y, width, height, radius); else context.rect(x, y, width, height);
}

function square(context, x, y, size, kind, number, seen, struck, phase = "service", stripe = null) {
  const radius = size >= 12 ? 4 : 0;
  context.globalAlpha = seen;
  if (kind === "unknown") {
    box(context, x + .75, y + .75, size - 1.5, size - 1.5, radius);
    context.strokeStyle = colours.dim; context.lineWidth = size >= 8 ? 1.5 : 1; context.stroke();
  } else if (radius) {
    box(context, x, y, size, size, radius); context.fillStyle = colours[kind]; context.fill();
  } else {
    context.fillStyle = colours[kind]; context.fillRect(x, y, size, size);
  }
  const numbered = size >= 14 && number < 1000, strokes = kind === "unknown" ? [] : strokesOf(phase, size);
  if (strokes.length) {
    context.beginPath();
    for (const [fromX, fromY, toX, toY] of strokes) { context.moveTo(x + fromX, y + fromY); context.lineTo(x + toX, y + toY); }
    context.strokeStyle = colours.stroke; context.lineWidth = size >= 16 ? 2 : 1.5; context.stroke();
    if (numbered) { box(context, x + .22 * size, y + .22 * size, .56 * size, .56 * size, .28 * size); context.fillStyle = colours[kind]; context.fill(); }
  }
  if (stripe && kind !== "unknown") {
    const [top, high] = stripeOf(size);
    context.fillStyle = stripe; context.fillRect(x, y + top, size, high);
  }
  const ink = kind === "unknown" ? colours.dim : "#ffffff";
  if (numbered)
    write(context, number, x + size / 2, y + size / 2 + .5, Math.round((number < 100 ? .55 : .42) * size), ink, "center", "middle");
  if (kind === "abandoned" && struck && size >= 6) {
    // Not by colour alone: abandoned requests are struck through.
    context.beginPath(); context.moveTo(x + 2, y + size - 2); context.lineTo(x + size - 2, y + 2);
    context.strokeStyle = ink; context.lineWidth = 1.2; context.stroke();
  }
  context.globalAlpha = 1;
}

function drawScene(scene, from, now, slide) {
  const layout = scene.layout, context = pen(scene.canvas, layout.width, layout.height), busy = busyShares(scene, now, slide);
  const counts = countsOf(scene, from, now);
  layout.lanes.forEach((place, lane) => {
    if (layout.lanes.length > 1) write(context, scene.lanes[lane].name, PAD, place.top - 4, 12, colours.dim, "left", "alphabetic", layout.width - 2 * PAD);
    context.fillStyle = colours.panel;
    box(context, PAD - 4, place.top, layout.width - 2 * PAD + 8, place.height, 4); context.fill();
    busy[lane].forEach((share, number) => {
      const [x, y] = workerAt(layout, lane, number), radius = layout.box >= 16 ? 5 : 0;
      box(context, x + .75, y + .75, layout.box - 1.5, layout.box - 1.5, radius);
      context.fillStyle = colours.paper; context.fill();
      context.lineWidth = radius ? 1.5 : 1; context.strokeStyle = colours.dim; context.stroke();
      context.globalAlpha = Math.min(share, 1); context.strokeStyle = colours.working; context.stroke(); context.globalAlpha = 1;
    });
  });
  squares(scene, layout, now, slide, (k, x, y, kind, seen, phase) => square(context, x, y, layout.size, kind, scene.number[k], seen, true, phase, film.routes[scene.route?.[k]]));
  drawMore(context, scene, layout, now);
  if (layout.shelves.length) drawShelves(context, scene, layout, from, now);
  else drawBar(context, scene, layout, counts.ended);
  return counts;
}

function drawMore(context, scene, layout, now) {
  const there = scene.lanes.map(() => 0);
  for (let k = 0; k < scene.arrival.length && scene.arrival[k] <= now; k++) if (now < scene.until[k]) there[scene.lane[k]] += 1;
  layout.lanes.forEach((place, lane) => {
    if (there[lane] > place.fits) write(context, `+${there[lane] - place.fits}`, PAD, place.top + 14, 12, colours.text);
  });
}

function drawShelves(context, scene, layout, from, now) {
  layout.shelves.forEach((code, row) => {
    const top = layout.shelf + row * SHELF, all = [];
    let most = 0;
    for (let k = 0; k < scene.arrival.length; k++) if (scene.outcome[k] === code) {
      most += 1;
      if (scene.left[k] >= from && scene.left[k] <= now) all.push(k);
    }
    all.sort((a, b) => scene.left[a] - scene.left[b]);
    write(context, `${OUTCOMES[code]} ${all.length}`, PAD, top + SHELF / 2, 13, colours.text, "left", "middle");
    const size = Math.min(20, Math.max((layout.width - 120 - PAD) / most - 3, 1));
    all.forEach((k, place) => square(context, 120 + place * (size + 3), top + (SHELF - size) / 2, size, code === SERVED ? "working" : "abandoned", scene.number[k], 1, false));
  });
}

function drawBar(context, scene, layout, ended) {
  const words = OUTCOMES.map((name, code) => code === 0 || scene.outcome.includes(code) ? `${name} ${ended[code].toLocaleString("en")}` : "").filter(Boolean);
  write(context, words.join(" · "), PAD, layout.shelf + 12, 13, colours.text, "left", "alphabetic", layout.width - 2 * PAD);
  let x = PAD;
  const top = layout.shelf + BAR - 11, whole = layout.width - 2 * PAD;
  context.fillStyle = colours.panel; context.fillRect(x, top, whole, 8);
  context.strokeStyle = colours.line; context.lineWidth = 1; context.strokeRect(x + .5, top + .5, whole - 1, 7);
  ended.forEach((count, code) => {
    const wide = whole * count / Math.max(scene.arrival.length, 1);
    context.fillStyle = code === SERVED ? colours.working : code === GIVEN_UP ? colours.abandoned : colours.dim;
    context.fillRect(x, top, wide, 8);
    x += wide;
  });
}

const DEPTH = 72, DEPTH_LEFT = PAD + 28;

function drawDepth(scene, from, to, now, number) {
  const width = scene.layout.width, context = pen(scene.depth, width, DEPTH);
  const right = width - PAD, top = 6, bottom = DEPTH - 20, parts = Math.max(Math.floor(right - DEPTH_LEFT), 2);
  const key = `${from} ${to} ${parts}`;
  if (scene.deepestKey !== key) { scene.deepest = deepest(scene, from, to, parts); scene.deepestKey = key; }
  const most = Math.max(...scene.deepest[0], 1);
  scene.deepest.forEach((levels, which) => {
    context.fillStyle = which ? colours.waiting : colours.abandoned;
    levels.forEach((level, part) => { const high = (bottom - top) * level / most; if (high) context.fillRect(DEPTH_LEFT + part, bottom - high, 1.02, high); });
  });
  context.strokeStyle = colours.line; context.lineWidth = 1;
  context.beginPath(); context.moveTo(DEPTH_LEFT, bottom + .5); context.lineTo(right, bottom + .5); context.stroke();
  write(context, most, DEPTH_LEFT - 5, top, 11, colours.dim, "right", "top");
  write(context, "0", DEPTH_LEFT - 5, bottom, 11, colours.dim, "right");
  write(context, `${number(from)} s`, DEPTH_LEFT, DEPTH - 4, 11, colours.dim);
  write(context, "queue depth over time", (DEPTH_LEFT + right) / 2, DEPTH - 4, 11, colours.dim, "center");
  write(context, `${number(to)} s`, right, DEPTH - 4, 11, colours.dim, "right");
  const x = DEPTH_LEFT + (right - DEPTH_LEFT) * Math.min(Math.max((now - from) / (to - from), 0), 1);
  context.fillStyle = colours.text; context.fillRect(x - 1, top - 4, 2, bottom - top + 8);
}
