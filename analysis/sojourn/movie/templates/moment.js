// Positions of the squares at an instant: the rules of sojourn/movie/moment.py. Instants in seconds on the film's clock.
const SERVED = 0, GIVEN_UP = 1, TURNED_AWAY = 2;

function eased(share) {
  const s = Math.min(Math.max(share, 0), 1);
  return s * s * (3 - 2 * s);
}

// When the worker of request k is free beyond doubt.
const freedAt = (scene, k) => scene.doubt_end?.[k] ?? scene.end[k];

// The phase in which request k holds its worker. Instants of phases are there where several phases occur.
function phaseOf(scene, k, now) {
  if (scene.phases.length === 1) return "service";
  if (now < scene.started[k]) return "read";
  if (now < scene.headers[k]) return "service";
  if (scene.doubt_end[k] !== null) return "in doubt";
  return now < scene.answered[k] ? "body" : "after";
}

// Exact at the instant; requests that ended before `from` do not count.
function countsOf(scene, from, now) {
  const counts = {waiting: 0, gone: 0, held: {}, ended: [0, 0, 0]};
  for (const phase of scene.phases) counts.held[phase] = 0;
  for (let k = 0; k < scene.arrival.length; k++) {
    if (scene.arrival[k] > now) break;
    const late = scene.left[k] <= now;
    if (late && scene.left[k] >= from) counts.ended[scene.outcome[k]] += 1;
    if (now < scene.until[k]) counts[late ? "gone" : "waiting"] += 1;
    else if (scene.begin[k] !== null && scene.begin[k] <= now && now < freedAt(scene, k)) counts.held[phaseOf(scene, k, now)] += 1;
  }
  return counts;
}

// How much of [now − slide, now] request k was in the queue; without slide, whether it is there now.
function standing(scene, k, now, slide) {
  if (slide <= 0) return scene.arrival[k] <= now && now < scene.until[k] ? 1 : 0;
  return Math.max(Math.min(scene.until[k], now) - Math.max(scene.arrival[k], now - slide), 0) / slide;
}

function slotOf(scene, lane, index, now, slide) {
  let before = 0;
  for (let k = 0; k < index; k++) if (scene.lane[k] === lane) before += standing(scene, k, now, slide);
  return before;
}

function inLine(layout, lane, arrival, slot, now, takes) {
  const [x, y] = slotAt(layout, lane, slot), share = takes > 0 ? eased((now - arrival) / takes) : 1;
  return [PAD + (x - PAD) * share, y, share];
}

// Calls put(index, x, y, kind, seen, phase) for every visible square.
function squares(scene, layout, now, slide, put) {
  const before = scene.lanes.map(() => 0), inner = (layout.box - layout.size) / 2;
  for (let k = 0; k < scene.arrival.length; k++) {
    const arrival = scene.arrival[k], until = scene.until[k], begin = scene.begin[k], end = freedAt(scene, k), left = scene.left[k];
    if (arrival > now) break;
    const lane = scene.lane[k], room = layout.lanes[lane].fits;
    const smooth = layout.lanes[lane].rows === 1 ? slide : 0;
    const slot = before[lane];
    before[lane] += standing(scene, k, now, smooth);
    if (now < until) {
      if (slot > room - 1) continue;
      const [x, y, share] = inLine(layout, lane, arrival, slot, now, Math.min(slide, (until - arrival) / 4));
      put(k, x, y, now >= left ? "abandoned" : scene.known[k] ? "waiting" : "unknown", Math.min(4 * share, 1));
    } else if (begin !== null && now < end) {
      let [x, y] = workerAt(layout, lane, scene.place[k]);
      x += inner; y += inner;
      const takes = Math.min(slide, (end - begin) / 4), share = takes > 0 ? eased((now - begin) / takes) : 1;
      if (share < 1) {
        const was = Math.min(slotOf(scene, lane, k, until, smooth), room - 1);
        const [fromX, fromY] = inLine(layout, lane, arrival, was, until, Math.min(slide, (until - arrival) / 4));
        x = fromX + (x - fromX) * share; y = fromY + (y - fromY) * share;
      }
      const phase = phaseOf(scene, k, now), gone = now >= left && scene.outcome[k] === GIVEN_UP;
      put(k, x, y, gone ? "abandoned" : phase === "in doubt" ? "unknown" : "working", 1, phase);
    } else if (slide > 0) {
      const share = (now - (begin !== null ? end : until)) / slide;
      if (!(share >= 0 && share < 1)) continue;
      if (begin !== null) {
        const [x, y] = workerAt(layout, lane, scene.place[k]), target = layout.width - layout.size - 2;
        put(k, x + inner + (target - x - inner) * share, y + inner, scene.outcome[k] === GIVEN_UP ? "abandoned" : "working", 1 - share);
      } else {
        const [x, y] = slotAt(layout, lane, Math.min(slot, room - 1));
        put(k, x, y - share * layout.size, scene.outcome[k] === SERVED ? "unknown" : "abandoned", 1 - share);
      }
    }
  }
}

// Per lane and worker: the share of [now − slide, now] for which it was held.
function busyShares(scene, now, slide) {
  const window = Math.max(slide, 1e-6), shares = scene.lanes.map(lane => new Float64Array(lane.workers));
  for (let k = 0; k < scene.arrival.length; k++) {
    if (scene.begin[k] === null) continue;
    const held = Math.min(scene.end[k], now) - Math.max(scene.begin[k], now - window);
    if (held > 0) shares[scene.lane[k]][scene.place[k]] += held / window;
  }
  return shares;
}

// Maximum queue length in each of `parts` equal parts of [from, to): [all, without abandoned requests].
function deepest(scene, from, to, parts) {
  const most = (endOf) => {
    const changes = [];
    for (let k = 0; k < scene.arrival.length; k++) {
      const end = endOf(k);
      if (end > scene.arrival[k]) changes.push([scene.arrival[k], 1], [end, -1]);
    }
    changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const maxima = new Float64Array(parts);
    let level = 0, next = 0;
    for (let part = 0; part < parts; part++) {
      const begin = from + (to - from) * part / parts, end = from + (to - from) * (part + 1) / parts;
      while (next < changes.length && changes[next][0] <= begin) level += changes[next++][1];
      maxima[part] = level;
      while (next < changes.length && changes[next][0] < end) {
        level += changes[next++][1];
        // Of several changes at one instant only the last counts.
        if (next === changes.length || changes[next][0] > changes[next - 1][0]) maxima[part] = Math.max(maxima[part], level);
      }
    }
    return maxima;
  };
  return [most(k => scene.until[k]), most(k => Math.min(scene.until[k], Math.max(scene.left[k], scene.arrival[k])))];
}
