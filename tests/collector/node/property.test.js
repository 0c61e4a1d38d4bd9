'use strict';

// Random ways to send headers: with and without the measurement the response is the same, except for the added headers.

const assert = require('node:assert/strict');
const http = require('node:http');
const test = require('node:test');

const { ManualClock, sojourn } = require('./support');

const NAMES = [
  'A',
  'a',
  'B',
  'Set-Cookie',
  'x-worker',
  'X-Service-Time',
  'X-Queueing-Delay',
  'X-Route',
  'Content-Type',
];
const MEASURED = new Set(['x-queueing-delay', 'x-service-time', 'x-worker']);
const RUNS = 3000;

/** A generator of numbers from 0 to below `limit`, the same ones for the same seed (mulberry32). */
function generator(seed) {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}

/** Calls on a response: [method, ...arguments]. */
function randomCalls(seed) {
  const next = generator(seed);
  const value = () => (next(4) === 0 ? [`v${next(9)}`, `v${next(9)}`] : `v${next(9)}`);
  const name = () => NAMES[next(NAMES.length)];
  const pairs = () => Array.from({ length: next(5) }, () => [name(), value()]);
  const calls = Array.from({ length: next(4) }, () => [['setHeader', 'appendHeader'][next(2)], name(), value()]);
  if (next(4) === 0) calls.push(['removeHeader', name()]);
  const last = next(4);
  if (last === 0) return [...calls, ['end']];
  if (last === 1) return [...calls, ['flushHeaders']];
  const headers = [undefined, null, Object.fromEntries(pairs()), pairs().flat(), pairs()][next(5)];
  const status = [200, 204, 304, 404, 500][next(5)];
  return [...calls, next(2) ? ['writeHead', status, headers] : ['writeHead', status, 'Reason', headers]];
}

/** The head of the response to a request, or that a call failed. */
function headOf(calls, begin) {
  const req = new http.IncomingMessage(null);
  const res = new http.ServerResponse(req);
  res.sendDate = false;
  begin(req, res);
  try {
    // A copy, because Node appends to arrays of values.
    for (const [method, ...args] of structuredClone(calls)) if (typeof res[method] === 'function') res[method](...args);
  } catch {
    return { failed: true };
  }
  const [status, ...lines] = res._header.split('\r\n').filter(Boolean);
  return { status, lines };
}

const nameOf = (line) => line.slice(0, line.indexOf(':')).toLowerCase();

test(`${RUNS} random responses`, () => {
  const clock = new ManualClock();
  const options = { clock, telemetry: false, alwaysAnswer: true };
  for (let seed = 0; seed < RUNS; seed += 1) {
    const calls = randomCalls(seed);
    const what = `seed ${seed}: ${JSON.stringify(calls)}`;
    const bare = headOf(calls, () => {});
    const measured = headOf(calls, (req, res) => sojourn.measure(req, res, options));
    if (bare.failed) {
      assert.deepEqual(measured, bare, what);
      continue;
    }
    assert.equal(measured.status, bare.status, what);
    // Without a stamp nothing is added, and nothing of the app replaced.
    const unstamped = headOf(calls, (req, res) => sojourn.measure(req, res, { ...options, alwaysAnswer: false }));
    assert.deepEqual(unstamped, bare, what);
    const others = measured.lines.filter((line) => !MEASURED.has(nameOf(line)));
    assert.deepEqual(others.sort(), bare.lines.filter((line) => !MEASURED.has(nameOf(line))).sort(), what);
    const own = measured.lines.filter((line) => MEASURED.has(nameOf(line))).map((line) => line.toLowerCase());
    assert.deepEqual(own.sort(), ['x-service-time: 0.000000', `x-worker: ${process.pid}`], what);
  }
});
