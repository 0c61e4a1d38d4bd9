// Positions of all parts of a scene for a width in pixels: the rules of sojourn/movie/layout.py.
const PAD = 10, OUT = 40, HEAD = 6, NAME = 16, SHELF = 26, BAR = 30, LARGEST = 30, SMALLEST = 3, FEW = 40, BOXES = .4;

const gapOf = size => size >= 14 ? 5 : size >= 6 ? 2 : 1;
const boxOf = size => size + (size >= 12 ? 8 : 4);

function heightOf(lanes, longest) {
  const deep = longest > 300 ? 150 : 110;
  return lanes === 1 ? deep : lanes <= 4 ? Math.max(Math.floor(deep / 2), 40) : 40;
}

function fits(size, width, lines, workers) {
  const longest = Math.max(...lines), deep = heightOf(lines.length, longest), box = boxOf(size), gap = gapOf(size);
  const boxes = Math.ceil(Math.max(...workers) / Math.max(Math.floor(deep / (box + 3)), 1)) * (box + 3);
  const columns = Math.floor((width - 2 * PAD - OUT - boxes - 12) / (size + gap)), rows = Math.floor(deep / (size + gap));
  return boxes <= BOXES * width && columns >= 1 && rows >= 1 && columns * rows >= longest;
}

// Top and height of the stripe of a square's route, below its number.
function stripeOf(size) {
  const high = Math.max(Math.round(.22 * size), 1);
  return [size - high - Math.max(Math.round(.08 * size), 1), high];
}

// Lines [x, y, x, y] that show the phase of a square without colour.
function strokesOf(phase, size) {
  const edge = size >= 12 ? 2 : 0, far = size - edge, step = Math.max((far - edge) / 4, 3), lines = [];
  if (phase === "read" || phase === "body")
    for (let at = edge + step / 2; at < far; at += step) lines.push(phase === "read" ? [at, edge, at, far] : [edge, at, far, at]);
  if (phase !== "after") return lines;
  lines.push([edge, edge, far, far]);
  for (let shift = step; shift < far - edge - step / 2; shift += step * 1.4)
    lines.push([edge, edge + shift, far - shift, far], [edge + shift, edge, far, far - shift]);
  return lines;
}

function layoutOf(scene, width) {
  const lines = scene.longest, workers = scene.lanes.map(lane => lane.workers);
  let size = LARGEST;
  while (size > SMALLEST && !fits(size, width, lines, workers)) size -= 1;
  const gap = gapOf(size), box = boxOf(size), deep = heightOf(lines.length, Math.max(...lines));
  const mostColumns = Math.max(Math.floor(BOXES * width / (box + 3)), 1);
  const boxRows = workers.map(count => Math.max(Math.min(Math.floor(deep / (box + 3)), count), Math.ceil(count / mostColumns), 1));
  const boxColumns = workers.map((count, k) => Math.ceil(count / boxRows[k]));
  const boxesLeft = width - PAD - OUT - Math.max(...boxColumns) * (box + 3);
  const columns = Math.max(Math.floor((boxesLeft - 12 - PAD) / (size + gap)), 1);
  const layout = {width, size, gap, box, boxesLeft, lanes: []};
  let top = HEAD;
  lines.forEach((line, k) => {
    top += lines.length > 1 ? NAME : 0;
    const rows = Math.max(Math.min(Math.ceil(line / columns), Math.floor(deep / (size + gap))), 1);
    const height = Math.max(rows * (size + gap), boxRows[k] * (box + 3)) + 8;
    layout.lanes.push({top, height, rows, columns, boxRows: boxRows[k], fits: rows * columns});
    top += height + 6;
  });
  const few = scene.arrival.length <= FEW;
  layout.shelves = few ? [0, 1, 2].filter(code => scene.outcome.includes(code)) : [];
  layout.shelf = top;
  layout.height = top + (few ? layout.shelves.length * SHELF : BAR) + 4;
  return layout;
}

function slotAt(layout, lane, number) {
  const place = layout.lanes[lane], step = layout.size + layout.gap;
  const whole = n => {
    const column = Math.floor(n / place.rows), row = n % place.rows;
    const top = place.top + (place.height - place.rows * step + layout.gap) / 2;
    return [layout.boxesLeft - 12 - (column + 1) * step, top + row * step];
  };
  const low = Math.floor(number), [x, y] = whole(low), further = number - low;
  if (!further) return [x, y];
  const [nextX, nextY] = whole(low + 1);
  return [x + (nextX - x) * further, y + (nextY - y) * further];
}

function workerAt(layout, lane, number) {
  const place = layout.lanes[lane], step = layout.box + 3;
  const column = Math.floor(number / place.boxRows), row = number % place.boxRows;
  const top = place.top + (place.height - place.boxRows * step + 3) / 2;
  return [layout.boxesLeft + column * step, top + row * step];
}
