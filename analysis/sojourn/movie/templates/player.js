// Plays, pauses, scrubs; chooses a window and a speed.
const film = JSON.parse(document.getElementById("data").textContent);
const scenes = film.scenes, by = id => document.getElementById(id);
const slider = by("at"), button = by("play"), speed = by("speed"), fromField = by("from"), toField = by("to");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const SLIDE = 0.35;  // s of the film: duration of a square's move
const digits = film.seconds >= 100 ? 1 : film.seconds >= 1 ? 2 : 4;
const number = value => value.toFixed(digits);
let from = 0, to = film.seconds, now = 0, playing = false, before = 0, announced = 0, frames = 0;

function peak(scene, lane) {
  const changes = [];
  scene.arrival.forEach((arrival, k) => { if (scene.lane[k] === lane && scene.until[k] > arrival) changes.push([arrival, 1], [scene.until[k], -1]); });
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let level = 0, most = 0;
  for (const [, change] of changes) { level += change; most = Math.max(most, level); }
  return most;
}

scenes.forEach((scene, index) => {
  const holder = by(`scene-${index}`);
  Object.assign(scene, {holder, canvas: holder.querySelector(".queue"), depth: holder.querySelector(".depth"), counts: holder.querySelector(".counts")});
  scene.longest = scene.lanes.map((_, lane) => peak(scene, lane));
  const scrub = event => {
    const place = scene.depth.getBoundingClientRect();
    const share = (event.clientX - place.left - DEPTH_LEFT) / Math.max(place.width - DEPTH_LEFT - PAD, 1);
    seek(from + (to - from) * share);
  };
  scene.depth.addEventListener("pointerdown", event => { scene.depth.setPointerCapture(event.pointerId); scrub(event); });
  scene.depth.addEventListener("pointermove", event => { if (event.buttons) scrub(event); });
  scene.depth.addEventListener("pointerup", tell);
});

// Seconds of the requests in a second of the film.
function rate() {
  const [kind, value] = speed.value.split(" ");
  return kind === "x" ? Number(value) : (to - from) / Number(value);
}

function clock() {
  const elapsed = `${number(now)} of ${number(film.seconds)} s`;
  if (film.begun === null) return elapsed;
  return `${new Date(film.begun + now * 1000).toISOString().slice(11, film.seconds < 60 ? 23 : 19)} UTC, ${elapsed}`;
}

function words(scene, counts) {
  return [`waiting ${counts.waiting}`, ...scene.phases.map(phase => `${LABELS[phase]} ${counts.held[phase]}`)].join(" · ") + (counts.gone ? ` · given up, still queued ${counts.gone}` : "");
}

function draw() {
  const slide = still.matches ? 0 : SLIDE * rate();
  for (const scene of scenes) {
    scene.now = drawScene(scene, 0, now, slide);
    const text = words(scene, scene.now);
    if (scene.counts.textContent !== text) scene.counts.textContent = text;
    drawDepth(scene, from, to, now, number);
  }
  by("clock").textContent = clock();
  slider.value = now;
  slider.setAttribute("aria-valuetext", `${number(now)} s`);
  frames += 1;
  document.body.dataset.now = now; document.body.dataset.frames = frames;
}

const SPOKEN = {...LABELS, read: "in phase read", body: "in phase body", after: "in phase after"};

// For screen readers: after each action, and every five seconds of the film; never at each frame.
function tell() {
  announced = performance.now();
  by("status").textContent = `At ${number(now)} s. ` + scenes.map(scene => {
    const {waiting, held, gone, ended} = scene.now;
    return `${scene.name}: ${waiting} waiting, ${scene.phases.filter(phase => phase === "service" || held[phase]).map(phase => `${held[phase]} ${SPOKEN[phase]}`).join(", ")}` + (gone ? `, ${gone} given up and still queued` : "") +
      `; so far ${OUTCOMES.map((name, code) => `${ended[code]} ${name}`).filter((_, code) => code === 0 || ended[code]).join(", ")}.`;
  }).join(" ");
}

function step(time) {
  if (!playing) return;
  now += Math.max(time - before, 0) / 1000 * rate();
  before = time;
  if (now >= to) { now = to; pause(); return; }
  draw();
  if (performance.now() - announced > 5000) tell();
  requestAnimationFrame(step);
}

function play() {
  if (now >= to) now = from;
  playing = true; before = performance.now();
  button.textContent = "Pause"; document.body.dataset.playing = "yes";
  announced = performance.now();
  requestAnimationFrame(step);
}

function pause() {
  playing = false; button.textContent = "Play"; document.body.dataset.playing = "no";
  draw(); tell();
}

function seek(value) { now = Math.min(Math.max(value, from), to); before = performance.now(); if (!playing) draw(); }

function choose(begin, end) {
  const least = film.seconds / 10000;
  from = Math.min(Math.max(Number.isFinite(begin) ? begin : 0, 0), film.seconds - least);
  to = Math.min(Math.max(Number.isFinite(end) ? end : film.seconds, from + least), film.seconds);
  slider.min = from; slider.max = to; slider.step = "any";
  fromField.value = Number(number(from)); toField.value = Number(number(to));
  seek(now); draw(); tell();
}

button.addEventListener("click", () => playing ? pause() : play());
slider.addEventListener("input", () => seek(Number(slider.value)));
slider.addEventListener("change", tell);
speed.addEventListener("change", () => draw());
const chosen = () => choose(fromField.value === "" ? NaN : Number(fromField.value), toField.value === "" ? NaN : Number(toField.value));
fromField.addEventListener("change", chosen); toField.addEventListener("change", chosen);
by("whole").addEventListener("click", () => choose(0, film.seconds));

document.addEventListener("keydown", event => {
  const field = event.target.closest("input, select, button, summary, a"), range = field === slider;
  if (event.ctrlKey || event.metaKey || event.altKey || (field && !range && field !== button)) return;
  const share = (to - from) * (event.shiftKey ? .1 : .01), faster = {"+": -1, ">": -1, "-": 1, "<": 1}[event.key];
  if (event.key === " " && field !== button) playing ? pause() : play();
  else if (event.key === "ArrowRight") { seek(now + share); tell(); }
  else if (event.key === "ArrowLeft") { seek(now - share); tell(); }
  else if (event.key === "Home") { seek(from); tell(); }
  else if (event.key === "End") { seek(to); tell(); }
  else if (faster) { speed.selectedIndex = Math.min(Math.max(speed.selectedIndex - faster, 0), speed.options.length - 1); draw(); }
  else return;
  event.preventDefault();
});

function arrange() {
  for (const scene of scenes) scene.layout = layoutOf(scene, Math.max(scene.holder.clientWidth, 200));
  draw();
}
new ResizeObserver(arrange).observe(by("scenes"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
readColours();
by("bar").hidden = false; by("silent").hidden = true;
// #0.4 in the address shows the instant at 40 % of the time.
now = Math.min(Math.max(Number(location.hash.slice(1)) || 0, 0), 1) * film.seconds;
arrange();
choose(0, film.seconds);
