'use strict';

// The tables that all packages share, over real connections.

const assert = require('node:assert/strict');
const http = require('node:http');
const test = require('node:test');

const { ManualClock, NOW_US, eventually, listen, raw, requireInstalled, skip, sojourn, table } = require('./support');

const STAMPS = table('request_start.json');
const ANSWERS = table('answer_headers.json');
const METRICS = table('prometheus.json');

function headersOf(response) {
  const lines = response.split('\r\n\r\n', 1)[0].split('\r\n').slice(1);
  return lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]);
}

function valueOf(headers, name) {
  const values = headers.filter(([key]) => key.toLowerCase() === name.toLowerCase()).map(([, value]) => value);
  assert.ok(values.length < 2, `${name} is repeated`);
  return values[0];
}

test('request_start.json', async (t) => {
  assert.equal(STAMPS.now_us, NOW_US);
  let options;
  let exchange;
  const port = await listen(
    t,
    http.createServer((req, res) => {
      exchange = sojourn.measure(req, res, options);
      res.end();
    }),
  );
  for (const each of STAMPS.cases) {
    await t.test(each.name, async () => {
      options = { clock: new ManualClock() };
      if ('max_age' in each) options.maxAge = each.max_age;
      if ('max_future' in each) options.maxFuture = each.max_future;
      const lines = [['Host', 'x'], ['Connection', 'close'], ...each.headers];
      const request = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('');
      const headers = headersOf(await raw(port, `GET / HTTP/1.1\r\n${request}\r\n`));
      assert.equal(exchange.stamp, each.start_us ?? each.reason);
      const delay = 'start_us' in each ? ((NOW_US - each.start_us) / 1e6).toFixed(6) : undefined;
      assert.equal(valueOf(headers, 'X-Queueing-Delay'), delay);
    });
  }
});

test('answer_headers.json', async (t) => {
  let options;
  let clock;
  let service;
  const port = await listen(
    t,
    http.createServer((req, res) => {
      sojourn.measure(req, res, options);
      clock.advance(service);
      res.end();
    }),
  );
  for (const each of ANSWERS.cases) {
    await t.test(each.name, async () => {
      clock = new ManualClock(ANSWERS.now_ns / 1000);
      service = each.service_ns / 1000;
      const stamp = each.stamp === null ? '' : `X-Request-Start: ${each.stamp}\r\n`;
      const request = `GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${stamp}\r\n`;
      const expected = { ...each.headers };
      if ('X-Worker' in expected) expected['X-Worker'] = String(process.pid);
      const alwaysAnswer = each.always_answer ?? false;

      options = { clock, route: () => each.route, alwaysAnswer };
      const headers = headersOf(await raw(port, request));
      for (const name of ['X-Queueing-Delay', 'X-Service-Time', 'X-Worker', 'X-Route']) {
        assert.equal(valueOf(headers, name), expected[name], name);
      }
      assert.equal(valueOf(headers, 'Server-Timing'), undefined);

      clock = new ManualClock(ANSWERS.now_ns / 1000);
      options = { clock, serverTiming: true, alwaysAnswer };
      assert.equal(valueOf(headersOf(await raw(port, request)), 'Server-Timing'), each.server_timing);
    });
  }
});

/** The entries of a list; a repeated one has each number of its range instead of the `#` in its route. */
function unrolled(entries) {
  return entries.flatMap((entry) => {
    if (entry.repeat === undefined) return [entry];
    const [first, last] = entry.repeat;
    const numbers = Array.from({ length: last - first + 1 }, (_, index) => String(first + index));
    const text = JSON.stringify({ ...entry, repeat: undefined });
    return numbers.map((number) => JSON.parse(text.replace('#', number)));
  });
}

/** What a registry of prom-client has, in the form of the table: sorted lists of histograms, counters and gauges. */
async function exported(registry) {
  const metrics = await registry.getMetricsAsJSON();
  const histograms = [];
  for (const { name, values } of metrics.filter(({ type }) => type === 'histogram')) {
    const series = new Map();
    for (const { labels, metricName, value } of values) {
      const { le, ...own } = labels;
      const key = JSON.stringify(own);
      if (!series.has(key)) series.set(key, { name, labels: own, bounds: [], buckets: [] });
      const point = series.get(key);
      if (metricName === `${name}_sum`) point.sum = value;
      if (metricName !== `${name}_bucket`) continue;
      point.bounds.push(le);
      point.buckets.push(value);
    }
    histograms.push(...series.values());
  }
  const [counters, gauges] = ['counter', 'gauge'].map((kind) =>
    metrics
      .filter(({ name, type }) => type === kind && name !== 'sojourn_event_loop_delay_seconds')
      .flatMap(({ name, values }) => values.map(({ labels, value }) => ({ name, labels, value }))),
  );
  return { histograms: sorted(histograms), counters: sorted(counters), gauges: sorted(gauges) };
}

function sorted(entries) {
  const keyOf = ({ name, labels }) => [name, labels.service, labels.route, labels.status_class].join('\n');
  return [...entries].sort((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
}

test('prometheus.json', { skip }, async (t) => {
  const { Registry } = requireInstalled('prom-client');
  const clock = new ManualClock();
  let current;
  let options;
  const port = await listen(
    t,
    http.createServer((req, res) => {
      sojourn.measure(req, res, options);
      clock.advance(current.service_ns / 1000);
      res.writeHead(current.status).end();
    }),
  );
  for (const each of METRICS.cases) {
    await t.test(each.name, async () => {
      const registry = new Registry();
      const { clock_offset: clockOffset, prometheus_name: prometheusName, service } = each.options ?? {};
      options = { prometheus: registry, clockOffset, prometheusName, service, clock, route: () => current.route };
      const environment = process.env.OTEL_SERVICE_NAME;
      delete process.env.OTEL_SERVICE_NAME;
      Object.assign(process.env, each.environment);
      try {
        sojourn.express(options); // made before the first request
      } finally {
        delete process.env.OTEL_SERVICE_NAME;
        if (environment !== undefined) process.env.OTEL_SERVICE_NAME = environment;
      }
      for (current of unrolled(each.requests)) {
        clock.wall = METRICS.now_ns / 1000;
        const stamp = current.stamp === null ? '' : `X-Request-Start: ${current.stamp}\r\n`;
        await raw(port, `GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${stamp}\r\n`);
      }
      await eventually(() => sojourn.stats().requests_in_progress === 0, 'the end of the requests');
      const { histograms, counters, gauges } = await exported(registry);
      const expected = sorted(unrolled(each.histograms));
      const ids = (entries) => entries.map(({ name, labels, buckets }) => ({ name, labels, buckets }));
      assert.deepEqual(ids(histograms), ids(expected));
      for (const [index, { bounds, sum }] of histograms.entries()) {
        assert.deepEqual(bounds, [...METRICS.bounds, '+Inf']);
        assert.ok(Math.abs(sum - expected[index].sum) < 1e-9, `${sum} is not ${expected[index].sum}`);
      }
      assert.deepEqual(counters, sorted(each.counters));
      assert.deepEqual(gauges, sorted(each.gauges));
    });
  }
  await t.test('help texts and kinds', async () => {
    const registry = new Registry();
    sojourn.express({ prometheus: registry });
    const metrics = (await registry.getMetricsAsJSON()).map(({ name, type, help }) => ({ name, kind: type, help }));
    const byName = (one, other) => (one.name < other.name ? -1 : 1);
    const inside = METRICS.inside.metrics.filter(({ packages }) => packages.includes('node'));
    const described = [...METRICS.metrics, METRICS.in_progress, ...inside].map(({ name, kind, help }) => ({ name, kind, help }));
    assert.deepEqual(metrics.sort(byName), described.sort(byName));
  });
});
