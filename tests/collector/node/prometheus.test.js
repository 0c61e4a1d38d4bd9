'use strict';

// Histograms for Prometheus, in registries of prom-client.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');

const { APPS } = require('./apps');
const {
  ManualClock,
  NOW_US,
  PACKAGE,
  block,
  eventually,
  fetch,
  listen,
  requireInstalled,
  serve,
  skip,
  sojourn,
} = require('./support');

const DELAY = 'sojourn_queueing_delay_seconds';
const SERVICE_TIME = 'sojourn_service_time_seconds';
const NEGATIVE = 'sojourn_negative_queueing_delays_total';
const NEGATIVE_SECONDS = 'sojourn_negative_queueing_delay_seconds_total';
const LOOP_DELAY = 'sojourn_event_loop_delay_seconds';
const BOUNDS = ['0.001', '0.0025', '0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5'];
BOUNDS.push('1', '2.5', '5', '10', '30', '60', '+Inf');

const client = skip ? null : requireInstalled('prom-client');

/** The samples of an exposition: name and sorted labels -> value. */
async function samples(registry) {
  const values = new Map();
  for (const line of (await registry.metrics()).split('\n')) {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null || line.startsWith('#')) continue;
    const labels = [...(match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value]);
    values.set(seriesOf(match[1], Object.fromEntries(labels)), Number(match[3]));
  }
  return values;
}

function seriesOf(name, labels) {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  return `${name}{${pairs.sort().join(',')}}`;
}

/** Count and sum of a histogram's series; undefined if there is none. */
function pointOf(values, name, labels) {
  const count = values.get(seriesOf(`${name}_count`, labels));
  return count === undefined ? undefined : [count, values.get(seriesOf(`${name}_sum`, labels))];
}

function labelsOf(route, statusClass = '2xx', service = '') {
  return { service, route, status_class: statusClass };
}

/** Warnings of the process with this text, until the end of the test. */
function warnings(t, text) {
  const messages = [];
  const keep = (warning) => {
    if (warning.message.includes(text)) messages.push(warning.message);
  };
  process.on('warning', keep);
  t.after(() => process.off('warning', keep));
  return messages;
}

/** Serve requests that take 0.125 s, with stamps relative to a clock that stands still otherwise. */
async function measured(t, options) {
  const clock = new ManualClock();
  const handler = (req, res) => {
    clock.advance(125_000);
    res.writeHead(Number(req.headers['x-status'] ?? 200)).end();
  };
  const port = await serve(t, sojourn.wrap(handler, { clock, route: (req) => req.url.slice(1), ...options }));
  return async (delaySeconds, { path: target = '/r', status = 200 } = {}) => {
    const before = sojourn.stats().requests_in_progress;
    const stamp = delaySeconds === null ? 'junk' : String(clock.wall - delaySeconds * 1e6);
    const response = await fetch(port, { path: target, headers: { 'X-Request-Start': stamp, 'X-Status': status } });
    await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the request');
    return response;
  };
}

test('both histograms have the buckets, the labels and the corrected delay', { skip }, async (t) => {
  const registry = new client.Registry();
  const send = await measured(t, { prometheus: registry, service: 'shop', clockOffset: 0.25 });
  await send(0.5);
  await send(1.5, { status: 503 });
  const values = await samples(registry);
  const labels = labelsOf('r', '2xx', 'shop');
  assert.deepEqual(pointOf(values, DELAY, labels), [1, 0.25]);
  assert.deepEqual(pointOf(values, DELAY, { ...labels, status_class: '5xx' }), [1, 1.25]);
  assert.deepEqual(pointOf(values, SERVICE_TIME, labels), [1, 0.125]);
  const counts = BOUNDS.map((le) => values.get(seriesOf(`${DELAY}_bucket`, { ...labels, le })));
  assert.deepEqual(counts, [...Array(7).fill(0), ...Array(9).fill(1)]); // a bound belongs to its bucket
  const bounds = [...values.keys()].filter((key) => key.startsWith(`${SERVICE_TIME}_bucket`) && key.includes('2xx'));
  assert.equal(bounds.length, BOUNDS.length);
  assert.equal(values.get(seriesOf(NEGATIVE, { service: 'shop' })), 0);
});

test('a negative delay is a zero, and counted without its sign', { skip }, async (t) => {
  const registry = new client.Registry();
  const send = await measured(t, { prometheus: registry, clockOffset: 0.25 });
  await send(0.125);
  await send(-0.5);
  const values = await samples(registry);
  assert.deepEqual(pointOf(values, DELAY, labelsOf('r')), [2, 0]);
  assert.equal(values.get(seriesOf(`${DELAY}_bucket`, { ...labelsOf('r'), le: '0.001' })), 2);
  assert.equal(values.get(seriesOf(NEGATIVE, { service: '' })), 2);
  assert.equal(values.get(seriesOf(NEGATIVE_SECONDS, { service: '' })), 0.875);
});

test('a request without a valid stamp has a service time only', { skip }, async (t) => {
  const registry = new client.Registry();
  const send = await measured(t, { prometheus: registry });
  await send(null);
  const values = await samples(registry);
  assert.equal(pointOf(values, DELAY, labelsOf('r')), undefined);
  assert.deepEqual(pointOf(values, SERVICE_TIME, labelsOf('r')), [1, 0.125]);
});

test('the environment names the service, and an option the histogram', { skip }, async (t) => {
  const before = process.env.OTEL_SERVICE_NAME;
  process.env.OTEL_SERVICE_NAME = 'of-the-environment';
  t.after(() => {
    if (before === undefined) delete process.env.OTEL_SERVICE_NAME;
    else process.env.OTEL_SERVICE_NAME = before;
  });
  const registry = new client.Registry();
  const send = await measured(t, { prometheus: registry, prometheusName: 'http_request_queue_duration_seconds' });
  await send(0.5);
  const values = await samples(registry);
  const labels = labelsOf('r', '2xx', 'of-the-environment');
  assert.deepEqual(pointOf(values, 'http_request_queue_duration_seconds', labels), [1, 0.5]);
  assert.equal(registry.getSingleMetric(DELAY), undefined);
});

for (const [name, target] of [
  ['true', () => true],
  ['the module', () => client],
]) {
  test(`${name} is the default registry`, { skip }, async (t) => {
    client.register.clear();
    t.after(() => client.register.clear());
    const send = await measured(t, { prometheus: target() });
    await send(0.5);
    assert.deepEqual(pointOf(await samples(client.register), DELAY, labelsOf('r')), [1, 0.5]);
  });
}

test('several instances, and another copy of the package, have the same metrics', { skip }, async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sojourn-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  fs.cpSync(PACKAGE, folder, { recursive: true });
  const copy = require(folder);
  const messages = warnings(t, 'metric');
  const registry = new client.Registry();
  const first = await measured(t, { prometheus: registry });
  const second = await measured(t, { prometheus: { ...client, register: registry }, service: '' });
  await first(0.5);
  await second(0.25);
  const port = await serve(
    t,
    copy.wrap((req, res) => res.end(), { clock: new ManualClock(), prometheus: registry, route: () => 'r' }),
  );
  await fetch(port, { headers: { 'X-Request-Start': String(NOW_US - 125_000) } });
  await eventually(() => copy.stats().requests_in_progress === 0, 'the end of the request');
  assert.deepEqual(pointOf(await samples(registry), DELAY, labelsOf('r')), [3, 0.875]);
  assert.deepEqual(messages, []);
});

test('a registry that the app clears has the metrics again', { skip }, async (t) => {
  const registry = new client.Registry();
  const send = await measured(t, { prometheus: registry });
  await send(0.5);
  registry.clear();
  await send(0.25);
  assert.deepEqual(pointOf(await samples(registry), DELAY, labelsOf('r')), [1, 0.25]);
});

/** The delays of the event loop of a service, by quantile. */
function loopDelays(values, service = '') {
  const pairs = ['mean', '0.5', '0.99', 'max'].map((quantile) => [
    quantile,
    values.get(seriesOf(LOOP_DELAY, { service, quantile })),
  ]);
  return Object.fromEntries(pairs);
}

test('a loop that a handler blocks has a delay, in every scrape', { skip }, async (t) => {
  const registry = new client.Registry();
  const handler = (req, res) => {
    block(0.3);
    res.end();
  };
  const port = await serve(t, sojourn.wrap(handler, { prometheus: registry, service: 'shop' }));
  sojourn.wrap(handler, { prometheus: registry, service: 'another' });
  await fetch(port);
  await eventually(() => sojourn.eventLoop().delay.max >= 0.27, 'the tick after the block');
  // One scrape does not take the delay from another.
  for (let scrape = 0; scrape < 2; scrape += 1) {
    const values = await samples(registry);
    const delays = loopDelays(values, 'shop');
    assert.ok(delays.max >= 0.27 && delays.max < 10, JSON.stringify(delays));
    assert.ok(delays['0.5'] <= delays['0.99'] && delays['0.99'] <= delays.max, JSON.stringify(delays));
    assert.ok(delays.mean > 0 && delays.mean < delays.max, JSON.stringify(delays));
    assert.equal([...values.keys()].filter((key) => key.startsWith(LOOP_DELAY)).length, 4);
  }
});

test('a cleared registry has the delay of the event loop again with the next request', { skip }, async (t) => {
  const registry = new client.Registry();
  const send = await measured(t, { prometheus: registry });
  registry.clear();
  await send(0.5);
  assert.ok(Number.isFinite(loopDelays(await samples(registry)).max));
});

test('the delay of a cluster is that of its slowest process', { skip }, async () => {
  const registry = new client.Registry();
  sojourn.express({ prometheus: registry });
  const metrics = await registry.getMetricsAsJSON();
  const gauge = metrics.find(({ name }) => name === LOOP_DELAY);
  const ofProcess = (seconds) => [
    { ...gauge, values: [{ value: seconds, labels: { service: '', quantile: 'max' } }] },
  ];
  const sum = client.AggregatorRegistry.aggregate([ofProcess(0.25), ofProcess(0.5)]);
  assert.equal((await samples(sum)).get(seriesOf(LOOP_DELAY, { service: '', quantile: 'max' })), 0.5);
});

test('the event loop is measured once per process, and only with the option', { skip }, () => {
  const script = `
    const hooks = require('node:perf_hooks');
    const { monitorEventLoopDelay } = hooks;
    let started = 0;
    hooks.monitorEventLoopDelay = (options) => {
      started += 1;
      return monitorEventLoopDelay(options);
    };
    const sojourn = require(${JSON.stringify(PACKAGE)});
    sojourn.express();
    const without = started;
    for (let index = 0; index < 3; index += 1) sojourn.express({ prometheus: true });
    console.log(without, started);
  `;
  const done = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 20_000 });
  // Two overlapping windows; and the process ends, though it has them.
  assert.equal(done.stdout, '0 2\n', done.stderr);
});

test('routes beyond 100 are other, for all instances with the registry', { skip }, async (t) => {
  const registry = new client.Registry();
  const instances = [await measured(t, { prometheus: registry }), await measured(t, { prometheus: registry })];
  for (let index = 0; index < 102; index += 1) await instances[index % 2](0.5, { path: `/r${index}` });
  await instances[0](0.5, { path: '/r7' });
  await instances[1](0.5, { path: '/' });
  const values = await samples(registry);
  assert.deepEqual(pointOf(values, DELAY, labelsOf('other')), [2, 1]);
  assert.deepEqual(pointOf(values, DELAY, labelsOf('r7')), [2, 1]);
  assert.deepEqual(pointOf(values, DELAY, labelsOf('')), [1, 0.5]);
  assert.equal([...values.keys()].filter((key) => key.startsWith(`${DELAY}_count`)).length, 102);
});

test('a name that the app uses itself is one warning, and the other metrics are recorded', { skip }, async (t) => {
  const messages = warnings(t, DELAY);
  const registry = new client.Registry();
  new client.Gauge({ name: DELAY, help: 'of the app', registers: [registry] });
  const send = await measured(t, { prometheus: registry });
  for (const delay of [0.5, 0.5]) assert.equal((await send(delay)).status, 200);
  assert.deepEqual(pointOf(await samples(registry), SERVICE_TIME, labelsOf('r')), [2, 0.25]);
  await eventually(() => messages.length > 0, 'the warning');
  assert.equal(messages.length, 1);
});

test('the exposition of OpenMetrics has the names of the contract', { skip }, async (t) => {
  const registry = new client.Registry(client.Registry.OPENMETRICS_CONTENT_TYPE);
  const send = await measured(t, { prometheus: registry });
  await send(-0.5);
  await registry.metrics();
  await send(-0.5);
  assert.equal((await samples(registry)).get(seriesOf(NEGATIVE, { service: '' })), 2);
});

test('a client that leaves before the response has waited, too', { skip }, async (t) => {
  const registry = new client.Registry();
  let held;
  const options = { clock: new ManualClock(), prometheus: registry, route: () => 'r' };
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      held = res;
    }, options),
  );
  const before = sojourn.stats().requests_in_progress;
  const socket = net.connect(port, '127.0.0.1');
  socket.write(`GET / HTTP/1.1\r\nHost: x\r\nX-Request-Start: ${NOW_US - 500_000}\r\n\r\n`);
  await eventually(() => held, 'the request');
  socket.destroy();
  await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the request');
  const values = await samples(registry);
  assert.deepEqual(pointOf(values, DELAY, labelsOf('', '')), [1, 0.5]);
  assert.equal(pointOf(values, SERVICE_TIME, labelsOf('', '')), undefined);
});

for (const name of Object.keys(APPS).filter((each) => each !== 'http')) {
  test(`${name}: the route is the template`, { skip }, async (t) => {
    const registry = new client.Registry();
    const port = await listen(t, await APPS[name]({ prometheus: registry }));
    const before = sojourn.stats().requests_in_progress;
    for (const target of ['/users/7', '/users/8', '/unknown']) await fetch(port, { path: target });
    await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the requests');
    const values = await samples(registry);
    for (const histogram of [DELAY, SERVICE_TIME]) {
      assert.equal(pointOf(values, histogram, labelsOf('/users/:id'))[0], 2);
      assert.equal(pointOf(values, histogram, labelsOf('', '4xx'))[0], 1);
    }
  });
}

test('without prom-client there is one warning, and every response', (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sojourn-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const script = `
    const http = require('node:http');
    const sojourn = require(${JSON.stringify(PACKAGE)});
    const handler = (req, res) => {
      sojourn.measure(req, res, { prometheus: true });
      res.end();
    };
    sojourn.express({ prometheus: true });
    const server = http.createServer(handler).listen(0, '127.0.0.1', async () => {
      for (let index = 0; index < 2; index += 1) {
        const headers = { 'X-Request-Start': String(Date.now()) };
        const response = await fetch('http://127.0.0.1:' + server.address().port, { headers });
        console.log(response.status, response.headers.has('x-service-time'));
      }
      server.closeAllConnections();
      server.close();
    });
  `;
  const done = spawnSync(process.execPath, ['-e', script], { cwd: folder, encoding: 'utf8', timeout: 20_000 });
  assert.equal(done.stdout, '200 true\n200 true\n', done.stderr);
  assert.equal(done.stderr.match(/SojournWarning/g).length, 1);
  assert.match(done.stderr, /prom-client/);
});

for (const [name, value] of [
  ['prometheus', 'yes'],
  ['prometheus', null],
  ['prometheus', {}],
  ['service', 7],
  ['prometheusName', 'queue-time'],
]) {
  test(`an invalid ${name} is refused: ${JSON.stringify(value)}`, () => {
    assert.throws(() => sojourn.express({ [name]: value }), { name: 'TypeError', message: new RegExp(name) });
  });
}
