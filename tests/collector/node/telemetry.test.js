'use strict';

// Spans and the histogram, with OpenTelemetry's own SDK, and beside its HTTP instrumentation.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const net = require('node:net');
const test = require('node:test');
const { promisify } = require('node:util');

const { APPS, hooks } = require('./apps');
const {
  INSTALLED,
  ManualClock,
  NOW_US,
  PACKAGE,
  block,
  eventually,
  fetch,
  listen,
  raw,
  requireInstalled,
  serve,
  skip,
  sojourn,
  table,
} = require('./support');

const FRAMEWORKS = Object.keys(APPS).filter((name) => name !== 'http');
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const STAMP = { 'X-Request-Start': 't=1767225599.5' };

/** Global providers of the SDK, as an app sets them; unset after the test. */
function setUp(t, { sampler, traces = true, metrics = true, contexts = true } = {}) {
  const api = requireInstalled('@opentelemetry/api');
  const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = requireInstalled(
    '@opentelemetry/sdk-trace-base',
  );
  const { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } =
    requireInstalled('@opentelemetry/sdk-metrics');
  const { AsyncLocalStorageContextManager } = requireInstalled('@opentelemetry/context-async-hooks');
  const { W3CTraceContextPropagator } = requireInstalled('@opentelemetry/core');
  const spans = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)], sampler });
  const exported = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter: exported, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  if (contexts) api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  api.propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  if (traces) api.trace.setGlobalTracerProvider(tracerProvider);
  if (metrics) api.metrics.setGlobalMeterProvider(meterProvider);
  t.after(async () => {
    for (const each of [api.trace, api.metrics, api.context, api.propagation]) each.disable();
    await meterProvider.shutdown();
  });
  return {
    api,
    tracerProvider,
    meterProvider,
    finished: () => spans.getFinishedSpans(),
    /** The only finished span, once there is one. */
    async span() {
      await eventually(() => spans.getFinishedSpans().length > 0, 'a span');
      assert.equal(spans.getFinishedSpans().length, 1);
      return spans.getFinishedSpans()[0];
    },
    async points(name = 'queueing.delay') {
      await reader.forceFlush();
      const metricsOf =
        exported
          .getMetrics()
          .at(-1)
          ?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
      return metricsOf.filter((metric) => metric.descriptor.name === name);
    },
  };
}

function micros([seconds, nanos]) {
  return seconds * 1e6 + nanos / 1e3;
}

test('a SERVER span with the attributes, the event and the parent', { skip }, async (t) => {
  const otel = setUp(t);
  const clock = new ManualClock();
  const port = await serve(
    t,
    sojourn.wrap(
      (req, res) => {
        clock.advance(100_000);
        res.write('x');
        clock.advance(200_000);
        res.end();
      },
      { clock, clockOffset: 0.125, route: () => '/users/:id' },
    ),
  );
  const headers = {
    ...STAMP,
    traceparent: `00-${TRACE}-${PARENT}-01`,
    'X-Request-ID': 'abc',
    Host: 'shop.example:8080',
  };
  await fetch(port, { path: '/users/7?token=secret', headers });
  const span = await otel.span();
  assert.equal(span.name, 'GET /users/:id');
  assert.equal(span.kind, otel.api.SpanKind.SERVER);
  assert.equal(span.instrumentationScope.name, 'sojourn-middleware');
  assert.equal(span.spanContext().traceId, TRACE);
  assert.equal(span.parentSpanContext.spanId, PARENT);
  assert.deepEqual(span.attributes, {
    'http.request.method': 'GET',
    'http.response.status_code': 200,
    'http.route': '/users/:id',
    'http.request.header.x-request-id': ['abc'],
    'network.protocol.version': '1.1',
    'server.address': 'shop.example',
    'server.port': 8080,
    'url.path': '/users/7',
    'url.scheme': 'http',
    'queueing.clock_offset': 0.125,
    'queueing.delay': 0.375,
    'queueing.delay.raw': 0.5,
    'queueing.service_time': 0.1,
    'queueing.status': 'ok',
    'queueing.worker': String(process.pid),
  });
  assert.equal(micros(span.startTime), NOW_US);
  assert.equal(micros(span.endTime), NOW_US + 300_000);
  assert.equal(span.events.length, 1);
  assert.equal(span.events[0].name, 'http.proxy.request.started');
  assert.equal(micros(span.events[0].time), NOW_US - 500_000);
  assert.equal(span.status.code, otel.api.SpanStatusCode.UNSET);
});

test('the histogram in seconds, without negative delays', { skip }, async (t) => {
  const otel = setUp(t, { traces: false });
  const complaints = [];
  const keep = (...words) => complaints.push(words.join(' '));
  otel.api.diag.setLogger({ error: keep, warn: keep, info() {}, debug() {}, verbose() {} });
  t.after(() => otel.api.diag.disable());
  const clock = new ManualClock();
  const port = await serve(
    t,
    sojourn.wrap((req, res) => res.writeHead(Number(req.url.slice(1))).end(), {
      clock,
      clockOffset: 0.25,
      route: () => '/r',
    }),
  );
  const before = sojourn.stats().requests_in_progress;
  await fetch(port, { path: '/200', headers: STAMP });
  await fetch(port, { path: '/404', method: 'SEARCH', headers: STAMP });
  await fetch(port, { path: '/200', headers: { 'X-Request-Start': 't=1767225600.000' } }); // -0.25 s
  await fetch(port, { path: '/200', headers: { 'X-Request-Start': 'junk' } });
  await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the requests');
  const [histogram, ...others] = await otel.points();
  assert.deepEqual(others, []);
  assert.deepEqual(complaints, []);
  assert.equal(histogram.descriptor.unit, 's');
  const points = histogram.dataPoints.map(({ attributes, value }) => [attributes, value.count, value.sum]);
  const common = { 'http.route': '/r' };
  assert.deepEqual(points, [
    [{ 'http.request.method': 'GET', ...common, 'http.response.status_code': 200 }, 1, 0.25],
    [{ 'http.request.method': '_OTHER', ...common, 'http.response.status_code': 404 }, 1, 0.25],
  ]);
  const { boundaries } = histogram.dataPoints[0].value.buckets;
  assert.deepEqual([boundaries[0], boundaries.at(-1)], [0.0005, 120]);
  assert.deepEqual(otel.finished(), []);
});

const STATUS = {
  missing: { 'X-Request-Start': '' },
  unparsable: { 'X-Request-Start': '1,2' },
  future: { 'X-Request-Start': 't=1767225699' },
  stale: { 'X-Request-Start': 't=1700000000' },
};

for (const [status, headers] of Object.entries(STATUS)) {
  test(`a stamp that is ${status}`, { skip }, async (t) => {
    const otel = setUp(t);
    const port = await serve(
      t,
      sojourn.wrap((req, res) => res.end(), { clock: new ManualClock() }),
    );
    await fetch(port, { headers });
    const span = await otel.span();
    assert.equal(span.attributes['queueing.status'], status);
    assert.ok(!('queueing.delay' in span.attributes) && !('queueing.delay.raw' in span.attributes));
    assert.deepEqual(span.events, []);
    assert.equal(span.name, 'GET');
    assert.equal(span.parentSpanContext, undefined);
    assert.deepEqual(await otel.points(), []);
  });
}

test("the app's spans are children, also after await and in listeners", { skip }, async (t) => {
  const otel = setUp(t);
  const tracer = otel.tracerProvider.getTracer('app');
  const port = await serve(
    t,
    sojourn.wrap(async (req, res) => {
      req.on('data', () => tracer.startSpan('body').end());
      req.on('end', () => res.end());
      res.on('finish', () => tracer.startSpan('finish').end());
      tracer.startSpan('before').end();
      await new Promise((resolve) => setImmediate(resolve));
      tracer.startSpan('after').end();
    }),
  );
  const client = net.connect(port, '127.0.0.1');
  t.after(() => client.destroy());
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n');
  await eventually(() => otel.finished().length === 2, 'the handler');
  client.write('x'); // it arrives outside of every call of the handler
  await eventually(() => otel.finished().length === 5, 'all spans');
  const spans = Object.fromEntries(otel.finished().map((span) => [span.name, span]));
  for (const child of ['before', 'after', 'body', 'finish']) {
    assert.equal(spans[child].parentSpanContext?.spanId, spans.POST.spanContext().spanId, child);
  }
});

test('a listener for the end of a connection runs with the span', { skip }, async (t) => {
  const otel = setUp(t);
  const tracer = otel.tracerProvider.getTracer('app');
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      res.on('close', () => tracer.startSpan('closed').end());
      tracer.startSpan('before').end();
    }),
  );
  const client = net.connect(port, '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  await eventually(() => otel.finished().length === 1, 'the handler');
  client.destroy();
  await eventually(() => otel.finished().length === 3, 'all spans');
  const spans = Object.fromEntries(otel.finished().map((span) => [span.name, span]));
  assert.equal(spans.closed.parentSpanContext?.spanId, spans.GET.spanContext().spanId);
});

const TARGETS = [
  { target: '/a%20b?c=d#e', host: 'shop.example', path: '/a%20b', address: 'shop.example', port: undefined },
  { target: 'http://proxy.example/a?b', host: '[::1]:8080', path: '/a', address: '::1', port: 8080 },
  { target: 'http://proxy.example?b=/c', host: '192.0.2.7:80', path: '/', address: '192.0.2.7', port: 80 },
  { target: '*', host: 'x', path: '*', address: 'x', port: undefined },
];

for (const { target, host, path, address, port: hostPort } of TARGETS) {
  test(`the target ${target} and the host ${host} as attributes`, { skip }, async (t) => {
    const otel = setUp(t);
    const port = await serve(
      t,
      sojourn.wrap((req, res) => res.end()),
    );
    await raw(port, `OPTIONS ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    const { attributes } = await otel.span();
    assert.equal(attributes['url.path'], path);
    assert.equal(attributes['server.address'], address);
    assert.equal(attributes['server.port'], hostPort);
  });
}

for (const name of FRAMEWORKS) {
  test(`${name}: the app's spans are children`, { skip }, async (t) => {
    const otel = setUp(t);
    const tracer = otel.tracerProvider.getTracer('app');
    hooks.user = () => tracer.startSpan('child').end();
    t.after(() => {
      hooks.user = () => {};
    });
    const port = await listen(t, await APPS[name]({ clock: new ManualClock() }));
    // Fastify reads the body before it calls the handler.
    const method = name.startsWith('fastify') ? 'POST' : 'GET';
    const body = method === 'POST' ? '{"a": 1}' : undefined;
    await fetch(port, { path: '/users/7', method, body, headers: { ...STAMP, 'Content-Type': 'application/json' } });
    await eventually(() => otel.finished().length === 2, 'two spans');
    const [child, span] = otel.finished();
    assert.equal(child.name, 'child');
    assert.equal(span.name, `${method} /users/:id`);
    assert.equal(child.parentSpanContext.spanId, span.spanContext().spanId);
    assert.equal(span.attributes['queueing.delay'], 0.5);
  });
}

for (const name of FRAMEWORKS) {
  test(`${name}: an error of the app is that of the span, an error of the client is not`, { skip }, async (t) => {
    const otel = setUp(t);
    const port = await listen(t, await APPS[name]());
    await fetch(port, { path: '/error' });
    await fetch(port, { path: '/missing' });
    await eventually(() => otel.finished().length === 2, 'two spans');
    const [error, missing] = otel.finished();
    assert.equal(error.status.code, otel.api.SpanStatusCode.ERROR);
    assert.equal(error.attributes['http.response.status_code'], 500);
    // Express handles the error after its middleware: the span has its status only.
    const isExpress = name.startsWith('express');
    assert.equal(error.attributes['error.type'], isExpress ? '500' : 'Error');
    const exceptions = error.events.filter((event) => event.name === 'exception');
    assert.deepEqual(
      exceptions.map((event) => event.attributes['exception.message']),
      isExpress ? [] : ['of the app'],
    );
    assert.equal(missing.status.code, otel.api.SpanStatusCode.UNSET);
    assert.equal(missing.attributes['http.response.status_code'], 404);
    assert.ok(!('error.type' in missing.attributes));
  });
}

test('a handler that throws, and a client that leaves, end the span', { skip }, async (t) => {
  const otel = setUp(t);
  const handler = sojourn.wrap(() => {
    throw new TypeError('of the app');
  });
  const port = await serve(t, (req, res) => {
    assert.throws(() => handler(req, res), TypeError);
    res.destroy();
  });
  await assert.rejects(fetch(port));
  const span = await otel.span();
  assert.equal(span.attributes['error.type'], 'TypeError');
  assert.equal(span.status.message, 'of the app');
  assert.ok(!('http.response.status_code' in span.attributes));
  assert.ok(!('queueing.service_time' in span.attributes));
});

test('a span of automatic instrumentation gets the attributes, and no second span is started', { skip }, async (t) => {
  const otel = setUp(t);
  const clock = new ManualClock();
  const tracer = otel.tracerProvider.getTracer('instrumentation');
  const inner = sojourn.wrap(
    (req, res) => {
      clock.advance(100_000);
      res.end();
    },
    { clock },
  );
  const port = await serve(t, (req, res) => {
    tracer.startActiveSpan('request', { kind: otel.api.SpanKind.SERVER }, (span) => {
      res.on('finish', () => span.end());
      inner(req, res);
    });
  });
  await fetch(port, { headers: { ...STAMP, 'X-Request-ID': 'abc' } });
  const span = await otel.span();
  assert.equal(span.name, 'request');
  assert.deepEqual(span.attributes, {
    'http.request.header.x-request-id': ['abc'],
    'queueing.clock_offset': 0,
    'queueing.delay': 0.5,
    'queueing.delay.raw': 0.5,
    'queueing.service_time': 0.1,
    'queueing.status': 'ok',
    'queueing.worker': String(process.pid),
  });
  assert.deepEqual(
    span.events.map((event) => event.name),
    ['http.proxy.request.started'],
  );
  const [histogram] = await otel.points();
  assert.equal(histogram.dataPoints[0].value.sum, 0.5);
});

test(
  "inside of a middleware's span, the SERVER span of the instrumentation gets the attributes",
  { skip },
  async (t) => {
    const otel = setUp(t);
    const { setRPCMetadata } = requireInstalled('@opentelemetry/core');
    const tracer = otel.tracerProvider.getTracer('instrumentation');
    const inner = sojourn.wrap((req, res) => res.end());
    const port = await serve(t, (req, res) => {
      const server = tracer.startSpan('request', { kind: otel.api.SpanKind.SERVER });
      const context = setRPCMetadata(otel.api.trace.setSpan(otel.api.context.active(), server), {
        type: 'http',
        span: server,
      });
      res.on('finish', () => server.end());
      otel.api.context.with(context, () =>
        tracer.startActiveSpan('middleware - sojourn', (span) => {
          inner(req, res);
          span.end();
        }),
      );
    });
    await fetch(port);
    await eventually(() => otel.finished().length === 2, 'two spans');
    const spans = Object.fromEntries(otel.finished().map((span) => [span.name, span]));
    assert.equal(spans.request.attributes['queueing.status'], 'ok');
    assert.deepEqual(spans['middleware - sojourn'].attributes, {});
  },
);

test('a request that a sampler has dropped gets no other span', { skip }, async (t) => {
  const { AlwaysOffSampler, AlwaysOnSampler } = requireInstalled('@opentelemetry/sdk-trace-base');
  const otel = setUp(t, { sampler: new AlwaysOnSampler() });
  const dropping = new (requireInstalled('@opentelemetry/sdk-trace-base').BasicTracerProvider)({
    sampler: new AlwaysOffSampler(),
  }).getTracer('instrumentation');
  const inner = sojourn.wrap((req, res) => res.end());
  const before = sojourn.stats().requests_in_progress;
  const port = await serve(t, (req, res) => dropping.startActiveSpan('request', () => inner(req, res)));
  assert.equal((await fetch(port)).status, 200);
  await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the request');
  assert.deepEqual(otel.finished(), []);
});

test('the delay of the event loop is a gauge, once per provider', { skip }, async (t) => {
  const otel = setUp(t);
  const described = table('prometheus.json').inside.metrics.find(({ packages }) => packages.includes('node'));
  // Two middlewares, and so two records of the provider.
  for (let index = 0; index < 2; index += 1) {
    const port = await serve(
      t,
      sojourn.wrap((req, res) => res.end(), { serverTiming: true }),
    );
    await fetch(port);
  }
  block(0.3);
  await eventually(() => sojourn.eventLoop().delay.max >= 0.27, 'the tick after the block');
  const [gauge, ...others] = await otel.points(described.otel_name);
  assert.deepEqual(others, []);
  assert.equal(gauge.descriptor.unit, described.unit);
  assert.equal(`${gauge.descriptor.description}.`, described.help);
  const values = new Map(gauge.dataPoints.map(({ attributes, value }) => [attributes['queueing.quantile'], value]));
  assert.deepEqual([...values.keys()], ['mean', '0.5', '0.99', 'max']);
  assert.ok(values.get('max') >= 0.27 && values.get('mean') > 0 && values.get('mean') < values.get('max'));
});

test('a provider without other instruments has the histogram', { skip }, async (t) => {
  const warned = [];
  const keep = (warning) => warned.push(warning.message);
  process.on('warning', keep);
  t.after(() => process.off('warning', keep));
  const recorded = [];
  const meterProvider = {
    getMeter: () => ({ createHistogram: () => ({ record: (value) => recorded.push(value) }) }),
  };
  const port = await serve(
    t,
    sojourn.wrap((req, res) => res.end(), { telemetry: { meterProvider } }),
  );
  for (let index = 0; index < 2; index += 1) assert.equal((await fetch(port)).status, 200);
  await eventually(() => recorded.length === 2 && warned.length > 1, 'both delays and the warnings');
  assert.equal(warned.length, 2);
  assert.match(warned[0], /requests in progress/);
  assert.match(warned[1], /event loop/);
});

test('options: no telemetry, or providers of their own', { skip }, async (t) => {
  const otel = setUp(t);
  const before = sojourn.stats().requests_in_progress;
  const port = await serve(
    t,
    sojourn.wrap((req, res) => res.end(), { telemetry: false }),
  );
  await fetch(port);
  await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the request');
  assert.deepEqual(otel.finished(), []);
  assert.deepEqual(await otel.points(), []);

  const { tracerProvider, meterProvider } = otel;
  otel.api.trace.disable();
  otel.api.metrics.disable();
  const own = await serve(
    t,
    sojourn.wrap((req, res) => res.end(), { telemetry: { tracerProvider, meterProvider } }),
  );
  await fetch(own);
  await otel.span();
  assert.equal((await otel.points()).length, 1);
});

test('providers that fail are one warning, and not an error of the request', { skip }, async (t) => {
  const warnings = [];
  const keep = (warning) => warnings.push(warning.message);
  process.on('warning', keep);
  t.after(() => process.off('warning', keep));
  const tracerProvider = {
    getTracer() {
      throw new Error('no tracer today');
    },
  };
  const port = await serve(
    t,
    sojourn.wrap((req, res) => res.end('x'), { telemetry: { tracerProvider } }),
  );
  for (const _ of [1, 2]) {
    const response = await fetch(port);
    assert.equal(response.body.toString(), 'x');
    assert.ok(response.headers['x-service-time']);
  }
  assert.equal(warnings.filter((message) => message.includes('no tracer today')).length, 1);
});

// In a process of its own: the instrumentation replaces parts of node:http.
const INSTRUMENTED = `
const { HttpInstrumentation } = require('@opentelemetry/instrumentation-http');
const { registerInstrumentations } = require('@opentelemetry/instrumentation');
const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');
const api = require('@opentelemetry/api');
api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
const spans = new InMemorySpanExporter();
api.trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
registerInstrumentations({ instrumentations: [new HttpInstrumentation()] });
const http = require('node:http');
const express = require('express5');
const app = express();
app.use(require(${JSON.stringify(PACKAGE)}).express());
app.get('/users/:id', (req, res) => res.send('x'));
const server = http.createServer(app).listen(0, '127.0.0.1', () => {
  const headers = { 'x-request-start': 't=' + (Date.now() / 1000 - 1) };
  http.get({ port: server.address().port, path: '/users/7', headers, agent: false }, (response) => {
    response.resume().on('end', () => {
      const deadline = Date.now() + 10_000;
      (function look() {
        const finished = spans.getFinishedSpans();
        if (finished.length < 2 && Date.now() < deadline) return setTimeout(look, 5);
        console.log(JSON.stringify(finished.map(({ kind, attributes }) => ({ kind, attributes }))));
        server.close();
      })();
    });
  });
});
`;

test("OpenTelemetry's HTTP instrumentation: its span has the attributes", { skip }, async () => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['-e', INSTRUMENTED], { cwd: INSTALLED, timeout: 30_000 });
  const spans = JSON.parse(stdout);
  assert.deepEqual(spans.map(({ kind }) => kind).sort(), [1, 2]); // the server's and the client's
  const { attributes } = spans.find(({ kind }) => kind === 1);
  assert.equal(attributes['queueing.status'], 'ok');
  assert.ok(attributes['queueing.delay'] > 0.9);
  assert.ok(attributes['queueing.service_time'] > 0);
});

test('an app that sets no provider never loads the API', { skip }, async () => {
  const script = `
    const { wrap } = require(${JSON.stringify(PACKAGE)});
    const http = require('node:http');
    const req = new http.IncomingMessage(null);
    req.headers = { 'x-request-start': String(Date.now()) };
    const res = new http.ServerResponse(req);
    wrap((req, res) => res.writeHead(200))(req, res);
    const files = Object.keys(require.cache);
    console.log(res.hasHeader('x-service-time'), files.some((file) => file.includes('opentelemetry')));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], { cwd: INSTALLED, timeout: 30_000 });
  assert.equal(stdout, 'true false\n');
});
