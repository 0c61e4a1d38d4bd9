'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const test = require('node:test');

const { PACKAGE } = require('./support');

const { monotonicMicros, wallMicros } = require(path.join(PACKAGE, 'src/clock.js'));

test('the wall clock is Date.now(), with fractions of a millisecond', () => {
  let fractions = 0;
  for (let count = 0; count < 10_000; count += 1) {
    const before = Date.now() * 1000;
    const wall = wallMicros();
    const after = Date.now() * 1000;
    assert.ok(Number.isInteger(wall));
    assert.ok(before <= wall && wall < after + 1000, `${before} ${wall} ${after}`);
    if (wall % 1000 !== 0) fractions += 1;
  }
  assert.ok(fractions > 5000);
});

test('the wall clock follows steps of the clock, the monotonic one does not', (t) => {
  const { now } = Date;
  t.after(() => {
    Date.now = now;
  });
  const monotonic = monotonicMicros();
  for (const step of [10_000, -10_000, 0]) {
    Date.now = () => now() + step;
    const before = Date.now() * 1000;
    const wall = wallMicros();
    assert.ok(before <= wall && wall < Date.now() * 1000 + 1000);
    const readings = Array.from({ length: 1000 }, wallMicros);
    assert.ok(readings.filter((each) => each % 1000 !== 0).length > 500);
  }
  const passed = monotonicMicros() - monotonic;
  assert.ok(passed >= 0 && passed < 5_000_000);
});
