'use strict';

// The requests in progress: of the process, in a registry of prom-client, and with OpenTelemetry's SDK.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { createHash } = require('node:crypto');
const { once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');

const { APPS } = require('./apps');
const { PACKAGE, eventually, fetch, listen, requireInstalled, serve, skip, sojourn } = require('./support');

const client = skip ? null : requireInstalled('prom-client');

/** The gauge of a registry as a scrape has it: service -> value. */
async function gauges(registry) {
  const text = await registry.metrics();
  const lines = [...text.matchAll(/^sojourn_requests_in_progress\{service="(.*)"\} (\S+)$/gm)];
  return Object.fromEntries(lines.map(([, service, value]) => [service, Number(value)]));
}

function inProgress() {
  return sojourn.stats().requests_in_progress;
}

async function expectInProgress(number) {
  await eventually(() => inProgress() === number, `${number} requests in progress`);
}

/** Open a connection with a request, and wait for its text. */
async function opened(port, request, text) {
  const socket = net.connect(port, '127.0.0.1');
  socket.on('error', () => {}); // the test destroys it
  socket.write(`${request}\r\nHost: x\r\n\r\n`);
  let received = '';
  socket.setEncoding('latin1');
  socket.on('data', (chunk) => {
    received += chunk;
  });
  await eventually(() => received.includes(text), text);
  return socket;
}

test('concurrent requests are in progress until their responses have ended', { skip }, async (t) => {
  const registry = new client.Registry();
  const held = [];
  const port = await serve(
    t,
    sojourn.wrap((req, res) => held.push(res), { prometheus: registry, service: 'shop' }),
  );
  assert.deepEqual(await gauges(registry), { shop: 0 });
  const responses = [1, 2, 3].map(() => fetch(port));
  await eventually(() => held.length === 3, 'the requests');
  assert.equal(inProgress(), 3);
  assert.deepEqual(await gauges(registry), { shop: 3 });
  held[0].end();
  await responses[0];
  await expectInProgress(2);
  assert.deepEqual(await gauges(registry), { shop: 2 });
  held[1].write('a part'); // the headers are not the end
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(await gauges(registry), { shop: 2 });
  for (const res of held) res.end();
  await Promise.all(responses);
  await expectInProgress(0);
  assert.deepEqual(await gauges(registry), { shop: 0 });
});

test('middleware of several services and copies of the package have one gauge', { skip }, async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sojourn-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  fs.cpSync(PACKAGE, folder, { recursive: true });
  const copy = require(folder);
  const registry = new client.Registry();
  const held = [];
  for (const [each, service] of [
    [sojourn, 'shop'],
    [sojourn, 'shop'],
    [copy, 'shop'],
    [copy, 'stock'],
  ]) {
    const port = await serve(
      t,
      each.wrap((req, res) => held.push(res), { prometheus: registry, service }),
    );
    http.get({ host: '127.0.0.1', port, agent: false }, (response) => response.resume());
  }
  await eventually(() => held.length === 4, 'the requests');
  assert.deepEqual(await gauges(registry), { shop: 3, stock: 1 });
  registry.clear();
  for (const res of held) res.end();
  await expectInProgress(0);
  await eventually(() => copy.stats().requests_in_progress === 0, 'the end of the requests');
  sojourn.express({ prometheus: registry, service: 'shop' });
  assert.deepEqual(await gauges(registry), { shop: 0, stock: 0 });
});

test('a client that leaves ends its request', async (t) => {
  let held;
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      held = res;
    }),
  );
  const socket = net.connect(port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await eventually(() => held, 'the request');
  assert.equal(inProgress(), 1);
  socket.destroy();
  await expectInProgress(0);
});

test('a handler that throws has a request until its connection ends', async (t) => {
  const script = `
    const http = require('node:http');
    const { stats, wrap } = require(${JSON.stringify(PACKAGE)});
    process.on('uncaughtException', () => {});
    const server = http.createServer(wrap(() => { throw new Error('of the app'); }));
    http.createServer((req, res) => res.end(String(stats().requests_in_progress))).listen(0, '127.0.0.1', function () {
      server.listen(0, '127.0.0.1', () => process.send([server.address().port, this.address().port]));
    });
  `;
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  t.after(async () => {
    child.kill();
    await once(child, 'exit');
  });
  const [[port, monitoring]] = await once(child, 'message');
  const socket = net.connect(port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  const reading = async (number) => {
    for (const deadline = Date.now() + 10_000; ; ) {
      if ((await fetch(monitoring)).body.toString() === String(number)) return;
      assert.ok(Date.now() < deadline, `waited 10 s for ${number} requests in progress`);
    }
  };
  await reading(1);
  socket.destroy();
  await reading(0);
});

for (const [name, respond] of [
  ['setHeader', (res) => res.setHeader('content-type', 'text/event-stream; charset=utf-8')],
  ['writeHead', (res) => res.writeHead(200, { 'Content-Type': 'Text/Event-Stream' })],
  ['writeHead with a list', (res) => res.writeHead(200, 'OK', ['Content-Type', 'text/event-stream'])],
]) {
  test(`server-sent events are not in progress after their headers: ${name}`, async (t) => {
    const seen = [];
    const port = await serve(
      t,
      sojourn.wrap((req, res) => {
        respond(res);
        res.write('data: first\n\n');
        seen.push(inProgress());
      }),
    );
    const socket = await opened(port, 'GET / HTTP/1.1', 'data: first');
    assert.deepEqual(seen, [0]);
    socket.destroy();
    await eventually(() => socket.closed, 'the end of the connection');
    assert.equal(inProgress(), 0);
  });
}

test('a connection that a handler switches to WebSocket is not in progress', async (t) => {
  const key = 'dGhlIHNhbXBsZSBub25jZQ==';
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  let upgraded;
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      res.writeHead(101, { Upgrade: 'websocket', Connection: 'Upgrade', 'Sec-WebSocket-Accept': accept });
      res.flushHeaders();
      upgraded = inProgress();
    }),
  );
  const handshake = 'GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket';
  const socket = await opened(port, `${handshake}\r\nSec-WebSocket-Key: ${key}`, '101 Switching Protocols');
  assert.equal(upgraded, 0);
  assert.equal(inProgress(), 0);
  socket.destroy();
});

test('streams of HTTP/2 are in progress one by one', async (t) => {
  const held = [];
  const server = http2.createServer(sojourn.wrap((req, res) => held.push(res)));
  const port = await listen(t, server);
  const session = http2.connect(`http://127.0.0.1:${port}`);
  server.once('session', (own) => session.once('close', () => own.destroy()));
  const streams = [1, 2].map(() => session.request({ ':path': '/' }));
  await eventually(() => held.length === 2, 'the streams');
  assert.equal(inProgress(), 2);
  streams[0].close(http2.constants.NGHTTP2_CANCEL);
  await expectInProgress(1);
  held[1].end();
  await expectInProgress(0);
  session.destroy();
});

for (const name of Object.keys(APPS)) {
  test(`${name}: no request is in progress after responses and errors`, { skip }, async (t) => {
    const registry = new client.Registry();
    const port = await listen(t, await APPS[name]({ prometheus: registry, service: 'shop' }));
    for (const target of ['/users/7', '/stream', '/error', '/unknown']) await fetch(port, { path: target });
    await expectInProgress(0);
    assert.deepEqual(await gauges(registry), { shop: 0 });
  });
}

test('the processes of a cluster are added up, without one that was killed', { skip }, async (t) => {
  const script = `
    const cluster = require('node:cluster');
    const http = require('node:http');
    const client = require(${JSON.stringify(requireInstalled.resolve('prom-client'))});
    const { wrap } = require(${JSON.stringify(PACKAGE)});
    const registry = new client.AggregatorRegistry(); // in a worker, it answers the primary process
    if (cluster.isPrimary) {
      // A process that ends during a query fails the scrape.
      const metrics = (req, res) => registry.clusterMetrics().then((text) => res.end(text), () => res.writeHead(500).end());
      const ready = [];
      cluster.on('message', (worker, port) => {
        if (typeof port === 'number' && ready.push([port, worker.process.pid]) === 2) {
          const server = http.createServer(metrics);
          server.listen(0, '127.0.0.1', () => process.send({ ready, port: server.address().port }));
        }
      });
      process.on('disconnect', () => process.exit());
      for (let index = 0; index < 2; index += 1) cluster.fork();
    } else {
      // Port 0 would be one port for both.
      const held = [];
      const server = http.createServer(wrap((req, res) => held.push(res), { prometheus: client, service: 'shop' }));
      server.listen({ port: 0, host: '127.0.0.1', exclusive: true }, () => process.send(server.address().port));
    }
  `;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sojourn-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  fs.writeFileSync(path.join(folder, 'app.js'), script);
  const primary = spawn(process.execPath, [path.join(folder, 'app.js')], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  t.after(async () => {
    primary.kill();
    await once(primary, 'exit');
  });
  const [{ ready, port }] = await once(primary, 'message');
  const sockets = [0, 0, 1].map((index) => net.connect(ready[index][0], '127.0.0.1'));
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  for (const socket of sockets) {
    socket.on('error', () => {});
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  }
  const sum = async (number) => {
    for (const deadline = Date.now() + 20_000; ; ) {
      const text = (await fetch(port)).body.toString(); // for at most 5 s
      if (text.includes(`sojourn_requests_in_progress{service="shop"} ${number}\n`)) return;
      assert.ok(Date.now() < deadline, `waited 20 s for ${number} requests in progress:\n${text}`);
    }
  };
  await sum(3);
  process.kill(ready[0][1], 'SIGKILL');
  await once(sockets[0], 'close');
  await sum(1);
});

/** Global meters of the SDK, unset after the test; returns what reads the series. */
function openTelemetry(t) {
  const api = requireInstalled('@opentelemetry/api');
  const { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } =
    requireInstalled('@opentelemetry/sdk-metrics');
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  api.metrics.setGlobalMeterProvider(provider);
  t.after(async () => {
    api.metrics.disable();
    await provider.shutdown();
  });
  return async () => {
    await reader.forceFlush();
    const metrics = exporter
      .getMetrics()
      .at(-1)
      .scopeMetrics.flatMap((scope) => scope.metrics);
    const metric = metrics.find(({ descriptor }) => descriptor.name === 'http.server.active_requests');
    assert.equal(metric.descriptor.unit, '{request}');
    return metric.dataPoints.map(({ attributes, value }) => [attributes, value]);
  };
}

test('OpenTelemetry has the requests in progress by method', { skip }, async (t) => {
  const points = openTelemetry(t);
  const held = [];
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      req.method = 'CHANGED';
      held.push(res);
    }),
  );
  const responses = ['GET', 'GET', 'POST'].map((method) => fetch(port, { method }));
  await eventually(() => held.length === 3, 'the requests');
  const attributes = (method) => ({ 'http.request.method': method, 'url.scheme': 'http' });
  const byMethod = (one, other) => (one[0]['http.request.method'] < other[0]['http.request.method'] ? -1 : 1);
  const series = (get, post) => [
    [attributes('GET'), get],
    [attributes('POST'), post],
  ];
  assert.deepEqual((await points()).sort(byMethod), series(2, 1));
  for (const res of held) res.end();
  await Promise.all(responses);
  await expectInProgress(0);
  assert.deepEqual((await points()).sort(byMethod), series(0, 0));
});
