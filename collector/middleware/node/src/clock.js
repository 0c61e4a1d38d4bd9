'use strict';

// Two clocks, both in microseconds. The stamp comes from another machine, so it is compared with the wall clock; the
// service time begins and ends in this process, so it is taken from the monotonic clock.

const { performance } = require('node:perf_hooks');

// Date.now() has whole milliseconds. The monotonic clock, added to the wall clock's time at its origin, has fractions,
// but ignores corrections of the wall clock; so it is kept within the millisecond of Date.now().
let origin = performance.timeOrigin;

/** Return the wall clock, whole microseconds since the Unix epoch. */
function wallMicros() {
  const before = Date.now();
  const now = performance.now();
  const after = Date.now();
  let wall = origin + now;
  if (wall < before || wall >= after + 1) {
    wall = wall < before ? before : after + 0.999;
    // If a millisecond passed between the readings, the process may have been paused between them.
    if (before === after) origin = wall - now;
  }
  return Math.floor(wall * 1000);
}

/** Return the monotonic clock, microseconds since an arbitrary instant. */
function monotonicMicros() {
  return performance.now() * 1000;
}

module.exports = { wallMicros, monotonicMicros };
