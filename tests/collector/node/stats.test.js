'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const cluster = require('node:cluster');
const { once } = require('node:events');
const http = require('node:http');
const test = require('node:test');
const { Worker } = require('node:worker_threads');

const { PACKAGE, eventually, fetch, serve, sojourn } = require('./support');

const KEYS = [
  ...['sojourn', 'kind', 'pid', 'worker', 'requests_in_progress', 'requests', 'event_loop_delay'],
  ...['event_loop_utilisation', 'uptime'],
];

function assertStats(stats) {
  assert.deepEqual(Object.keys(stats), KEYS);
  assert.deepEqual([stats.sojourn, stats.kind], [1, 'node']);
  assert.deepEqual(Object.keys(stats.event_loop_delay), ['p50', 'p99', 'max', 'mean']);
  for (const value of [...Object.values(stats.event_loop_delay), stats.event_loop_utilisation, stats.uptime]) {
    assert.ok(Number.isFinite(value) && value >= 0, JSON.stringify(stats));
  }
  assert.ok(stats.event_loop_utilisation <= 1);
}

// The first test: the window is short.
test('the delay of the event loop is that of a blocked loop, in seconds', async () => {
  sojourn.eventLoop();
  // Ticks before and after, so that the block is between two of them.
  await eventually(() => sojourn.eventLoop().window > 0.06, 'ticks');
  const blocked = 0.3;
  for (const end = Date.now() + blocked * 1000; Date.now() < end; );
  await eventually(() => sojourn.eventLoop().delay.max >= blocked - 0.03, 'the tick after the block');
  const { delay, utilisation, window } = sojourn.eventLoop();
  assert.ok(delay.max < window);
  // Of fewer than 100 ticks, the quantile is the longest one; the histogram has three significant digits.
  assert.ok(delay.p99 >= 0.99 * delay.max && delay.p50 < delay.p99);
  assert.ok(delay.mean > 0 && delay.mean < delay.max);
  assert.ok(utilisation > 0 && utilisation <= 1);
});

test('statsHandler answers with the state of the process', async (t) => {
  const stats = await serve(t, sojourn.statsHandler());
  let release;
  const app = await serve(
    t,
    sojourn.wrap((req, res) => {
      release = () => res.end('x');
    }),
  );
  const before = JSON.parse((await fetch(stats)).body);
  assertStats(before);
  assert.deepEqual([before.pid, before.worker], [process.pid, String(process.pid)]);
  const response = fetch(app);
  await eventually(() => release, 'the request');
  const during = JSON.parse((await fetch(stats)).body);
  assert.equal(during.requests, before.requests + 1); // its own requests do not count
  assert.equal(during.requests_in_progress, before.requests_in_progress + 1);
  release();
  await response;
  await eventually(() => sojourn.stats().requests_in_progress === before.requests_in_progress, 'the end');
  const answer = await fetch(stats);
  assert.equal(answer.headers['content-type'], 'application/json');
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.equal(answer.headers['x-service-time'], undefined);
  assert.equal((await fetch(stats, { method: 'HEAD' })).status, 200);
  assert.equal((await fetch(stats, { method: 'POST' })).status, 405);
});

test('an idle loop has no delay: the interval of the timer is not part of it', async () => {
  await eventually(() => sojourn.eventLoop().delay.p50 < 0.01, 'ticks of an idle loop');
});

test('the measurement of the event loop does not keep a process alive', async () => {
  const script = `require(${JSON.stringify(PACKAGE)}).statsHandler()`;
  const child = spawn(process.execPath, ['-e', script], { stdio: 'inherit' });
  assert.deepEqual(await once(child, 'exit'), [0, null]);
});

const THREAD = `
const { parentPort } = require('node:worker_threads');
const http = require('node:http');
const { express } = require(${JSON.stringify(PACKAGE)});
const middleware = express({ alwaysAnswer: true });
parentPort.on('message', () => {
  const req = new http.IncomingMessage(null);
  const res = new http.ServerResponse(req);
  middleware(req, res, () => res.writeHead(200));
  parentPort.postMessage(res.getHeader('X-Worker'));
});
`;

async function workerOf(thread) {
  thread.postMessage('');
  const [name] = await once(thread, 'message');
  return name;
}

test('worker threads have the smallest numbers that no living thread has', async (t) => {
  const start = () => new Worker(THREAD, { eval: true });
  const threads = [start(), start(), start()];
  t.after(() => Promise.all(threads.map((thread) => thread.terminate())));
  const names = [];
  for (const thread of threads) names.push(await workerOf(thread));
  assert.deepEqual(
    names,
    [1, 2, 3].map((number) => `${process.pid}.${number}`),
  );
  await threads[1].terminate();
  threads[1] = start();
  assert.equal(await workerOf(threads[1]), `${process.pid}.2`);
  assert.equal(await workerOf(threads[1]), `${process.pid}.2`);
  assert.equal(sojourn.stats().worker, String(process.pid));
});

test('a worker of a cluster is its process', async (t) => {
  const script = `
    const http = require('node:http');
    const { wrap } = require(${JSON.stringify(PACKAGE)});
    http.createServer(wrap((req, res) => res.end())).listen(0, '127.0.0.1', function () {
      process.send(this.address().port);
    });
  `;
  cluster.setupPrimary({ exec: '-', execArgv: ['-e', script], silent: false });
  const worker = cluster.fork();
  t.after(async () => {
    worker.kill();
    await once(worker, 'exit');
  });
  const [port] = await once(worker, 'message');
  assert.equal((await fetch(port)).headers['x-worker'], String(worker.process.pid));
  http.globalAgent.destroy();
});
