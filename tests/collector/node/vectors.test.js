'use strict';

// The tables that all packages share, over real connections.

const assert = require('node:assert/strict');
const http = require('node:http');
const test = require('node:test');

const { ManualClock, NOW_US, listen, raw, sojourn, table } = require('./support');

const STAMPS = table('request_start.json');
const ANSWERS = table('answer_headers.json');

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
      const expected = { ...each.headers, 'X-Worker': String(process.pid) };

      options = { clock, route: () => each.route };
      const headers = headersOf(await raw(port, request));
      for (const name of ['X-Queueing-Delay', 'X-Service-Time', 'X-Worker', 'X-Route']) {
        assert.equal(valueOf(headers, name), expected[name], name);
      }
      assert.equal(valueOf(headers, 'Server-Timing'), undefined);

      clock = new ManualClock(ANSWERS.now_ns / 1000);
      options = { clock, serverTiming: true };
      assert.equal(valueOf(headersOf(await raw(port, request)), 'Server-Timing'), each.server_timing);
    });
  }
});
