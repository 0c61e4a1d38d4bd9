'use strict';

// How the headers get into a response, over real connections: all forms of writeHead, streams, errors, http2.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const http = require('node:http');
const http2 = require('node:http2');
const net = require('node:net');
const { Readable, pipeline } = require('node:stream');
const test = require('node:test');

const {
  ManualClock,
  eventually,
  fetch,
  listen,
  occurrences,
  requireInstalled,
  serve,
  skip,
  sojourn,
} = require('./support');

const MEASURED = ['x-queueing-delay', 'x-service-time', 'x-worker'];

function assertMeasured(response) {
  for (const name of MEASURED) assert.equal(occurrences(response.raw, name), 1, name);
  assert.match(response.headers['x-queueing-delay'], /^[0-9]+\.[0-9]{6}$/);
  assert.ok(Number(response.headers['x-queueing-delay']) >= 0.999);
  assert.match(response.headers['x-service-time'], /^[0-9]+\.[0-9]{6}$/);
  assert.equal(response.headers['x-worker'], String(process.pid));
}

/** Handlers that send headers in each way that Node has; each answers with status 201 and the header A: 1. */
const FORMS = {
  'setHeader and end': (res) => {
    res.statusCode = 201;
    res.setHeader('A', '1');
    res.end();
  },
  'setHeader and write': (res) => {
    res.statusCode = 201;
    res.setHeader('A', '1');
    res.write('x');
    res.end();
  },
  flushHeaders: (res) => {
    res.statusCode = 201;
    res.setHeader('A', '1');
    res.flushHeaders();
    res.end();
  },
  'writeHead(status)': (res) => {
    res.setHeader('A', '1');
    res.writeHead(201).end();
  },
  'writeHead(status, object)': (res) => res.writeHead(201, { A: '1' }).end(),
  'writeHead(status, undefined, object)': (res) => res.writeHead(201, undefined, { A: '1' }).end(),
  'writeHead(status, reason)': (res) => {
    res.setHeader('A', '1');
    res.writeHead(201, 'Well done').end();
  },
  'writeHead(status, reason, object)': (res) => res.writeHead(201, 'Well done', { A: '1' }).end(),
  'writeHead(status, list)': (res) => res.writeHead(201, ['A', '1', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2']).end(),
  'writeHead(status, reason, list)': (res) => res.writeHead(201, 'Well done', ['A', '1']).end(),
  'writeHead(status, pairs)': (res) =>
    res
      .writeHead(201, [
        ['A', '1'],
        ['Set-Cookie', 'a=1'],
        ['Set-Cookie', 'b=2'],
      ])
      .end(),
  'setHeader before writeHead(status, object)': (res) => {
    res.setHeader('A', 'replaced');
    res.setHeader('B', '2');
    res.writeHead(201, { a: '1' }).end();
  },
  'setHeader before writeHead(status, list)': (res) => {
    res.setHeader('B', '2');
    res.writeHead(201, ['A', '1']).end();
  },
};

for (const [name, send] of Object.entries(FORMS)) {
  test(`${name}: measured, and otherwise the same response`, async (t) => {
    const bare = await fetch(await serve(t, (req, res) => send(res)));
    const measured = await fetch(
      await serve(
        t,
        sojourn.wrap((req, res) => send(res)),
      ),
    );
    assertMeasured(measured);
    assert.equal(measured.status, 201);
    assert.equal(measured.headers.a, '1');
    for (const key of ['status', 'message']) assert.equal(measured[key], bare[key]);
    assert.deepEqual(measured.body, bare.body);
    const { date: _, ...others } = Object.fromEntries(
      Object.entries(measured.headers).filter(([key]) => !MEASURED.includes(key)),
    );
    const { date: __, ...expected } = bare.headers;
    assert.deepEqual(others, expected);
  });
}

for (const form of ['object', 'object after undefined', 'list', 'pairs', 'setHeader']) {
  test(`${form}: the app's own measurements are replaced in a copy, its other headers remain`, async (t) => {
    const own = { 'x-SERVICE-time': '9', 'X-Worker': 'app', 'x-queueing-delay': '9', 'X-Route': '/own', B: '2' };
    const headers = {
      object: Object.freeze({ ...own }),
      'object after undefined': Object.freeze({ ...own }),
      list: Object.freeze(Object.entries(own).flat()),
      pairs: Object.freeze(Object.entries(own).map((pair) => Object.freeze(pair))),
      setHeader: undefined,
    }[form];
    let route;
    const port = await serve(
      t,
      sojourn.wrap(
        (req, res) => {
          if (form === 'setHeader') for (const [name, value] of Object.entries(own)) res.setHeader(name, value);
          if (form === 'object after undefined') res.writeHead(200, undefined, headers);
          else res.writeHead(200, headers);
          res.end();
        },
        { clock: new ManualClock(), route: () => route },
      ),
    );
    // The stamp is refused: the app's own delay must not be taken for a measured one.
    const unknown = await fetch(port, { headers: { 'X-Request-Start': 'junk' } });
    assert.equal(unknown.headers['x-queueing-delay'], undefined);
    assert.equal(unknown.headers['x-service-time'], '0.000000');
    assert.equal(unknown.headers['x-worker'], String(process.pid));
    assert.equal(unknown.headers['x-route'], '/own');
    assert.equal(unknown.headers.b, '2');
    route = '/known';
    const known = await fetch(port, { headers: { 'X-Request-Start': 't=1767225599' } });
    assert.equal(known.headers['x-queueing-delay'], '1.000000');
    assert.equal(known.headers['x-route'], '/known');
    for (const name of [...MEASURED, 'x-route', 'b']) assert.equal(occurrences(known.raw, name), 1, name);
  });
}

for (const form of ['object', 'list', 'pairs', 'setHeader']) {
  test(`${form}: Server-Timing is added to the app's own`, async (t) => {
    const headers = {
      object: { 'server-timing': ['db;dur=1', 'cache'] },
      list: ['Server-Timing', 'db;dur=1', 'server-timing', 'cache'],
      pairs: [
        ['Server-Timing', 'db;dur=1'],
        ['server-timing', 'cache'],
      ],
    }[form];
    const clock = new ManualClock();
    const port = await serve(
      t,
      sojourn.wrap(
        (req, res) => {
          if (form === 'setHeader') res.setHeader('Server-Timing', ['db;dur=1', 'cache']);
          res.writeHead(200, headers);
          res.end();
        },
        { clock, serverTiming: true },
      ),
    );
    const response = await fetch(port, { headers: { 'X-Request-Start': 't=1767225599.5' } });
    assert.equal(response.headers['server-timing'], 'db;dur=1, cache, queue;dur=500.000, app;dur=0.000');
  });
}

test('a call of writeHead that throws is not the end: the next one is measured', async (t) => {
  const clock = new ManualClock();
  const port = await serve(
    t,
    sojourn.wrap(
      (req, res) => {
        res.setHeader('Server-Timing', 'db');
        res.setHeader('X-Route', '/first');
        assert.throws(() => res.writeHead(99999), RangeError);
        assert.throws(() => res.writeHead(200, { 'bad name': '1' }), TypeError);
        assert.throws(() => res.writeHead(200, ['name without a value']), TypeError);
        clock.advance(250_000);
        res.setHeader('X-Route', '/second');
        res.writeHead(500).end();
      },
      { clock, serverTiming: true },
    ),
  );
  const response = await fetch(port, { headers: { 'X-Request-Start': 'junk' } });
  assert.equal(response.status, 500);
  assert.equal(response.headers['x-service-time'], '0.250000');
  assert.equal(response.headers['server-timing'], 'db, app;dur=250.000');
  assert.equal(response.headers['x-route'], '/second');
});

test('the service time ends when the headers leave, not with the body', async (t) => {
  const clock = new ManualClock();
  const port = await serve(
    t,
    sojourn.wrap(
      (req, res) => {
        const exchange = sojourn.measure(req, res);
        assert.equal(exchange.serviceTime, null);
        clock.advance(100_000);
        res.write('a');
        clock.advance(900_000);
        assert.throws(() => res.writeHead(200), { code: 'ERR_HTTP_HEADERS_SENT' });
        assert.equal(exchange.serviceTime, 0.1);
        res.end('b');
      },
      { clock },
    ),
  );
  const response = await fetch(port);
  assert.equal(response.headers['x-service-time'], '0.100000');
  assert.equal(response.body.toString(), 'ab');
});

test('informational responses are not the response', async (t) => {
  const clock = new ManualClock();
  const server = http.createServer();
  const handler = sojourn.wrap(
    (req, res) => {
      res.writeContinue();
      res.writeProcessing();
      res.writeEarlyHints({ link: '</style.css>; rel=preload' });
      clock.advance(100_000);
      res.end('x');
    },
    { clock },
  );
  server.on('request', handler);
  const response = await fetch(await listen(t, server));
  assert.deepEqual(response.informational, [100, 102, 103]);
  assert.equal(response.headers['x-service-time'], '0.100000');
});

test('an informational status of writeHead is not measured', () => {
  const res = new http.ServerResponse(new http.IncomingMessage(null));
  sojourn.measure(res.req, res);
  res.writeHead(103, { A: '1' });
  assert.match(res._header, /^HTTP\/1.1 103 /);
  assert.doesNotMatch(res._header, /x-worker/i);
});

test('101 Switching Protocols is a response', async (t) => {
  const port = await serve(
    t,
    sojourn.wrap((req, res) => res.writeHead(101, { Upgrade: 'x', Connection: 'Upgrade' }).end()),
  );
  const headers = { Upgrade: 'x', Connection: 'Upgrade', 'X-Request-Start': String(Date.now()) };
  const request = http.get({ port, host: '127.0.0.1', agent: false, headers });
  const [response, socket] = await once(request, 'upgrade');
  socket.destroy();
  assert.equal(response.statusCode, 101);
  assert.match(response.headers['x-service-time'], /^0\.\d{6}$/);
});

test('responses without a body: HEAD, 204 and 304', async (t) => {
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      res.statusCode = req.method === 'HEAD' ? 200 : Number(req.url.slice(1));
      res.end();
    }),
  );
  for (const request of [{ method: 'HEAD' }, { path: '/204' }, { path: '/304' }]) {
    const response = await fetch(port, request);
    assertMeasured(response);
    assert.equal(response.body.length, 0);
  }
});

test('streams pass through unchanged', async (t) => {
  const chunks = Array.from({ length: 200 }, (_, index) => Buffer.alloc(4096, index));
  const port = await serve(
    t,
    sojourn.wrap((req, res) => pipeline(Readable.from(chunks), res, () => {})),
  );
  const response = await fetch(port);
  assertMeasured(response);
  assert.deepEqual(response.body, Buffer.concat(chunks));
});

test('an upload is answered with its own bytes', async (t) => {
  const port = await serve(
    t,
    sojourn.wrap((req, res) => pipeline(req, res, () => {})),
  );
  const body = Buffer.alloc(300_000, 'abc');
  const response = await fetch(port, { method: 'POST', body });
  assertMeasured(response);
  assert.deepEqual(response.body, body);
});

test('the outer of two middlewares measures', async (t) => {
  const [outer, inner] = [new ManualClock(), new ManualClock()];
  const innermost = sojourn.wrap(
    (req, res) => {
      outer.advance(250_000);
      assert.equal(sojourn.measure(req, res, { clock: inner }), exchange);
      res.end();
    },
    { clock: inner, route: () => '/inner' },
  );
  let exchange;
  const port = await serve(t, (req, res) => {
    exchange = sojourn.measure(req, res, { clock: outer });
    outer.advance(1_000_000);
    innermost(req, res);
  });
  const before = sojourn.stats().requests;
  const response = await fetch(port, { headers: { 'X-Request-Start': 't=1767225599' } });
  assertMeasured(response);
  assert.equal(response.headers['x-service-time'], '1.250000');
  assert.equal(response.headers['x-route'], undefined);
  assert.equal(sojourn.stats().requests, before + 1);
  assert.deepEqual([exchange.queueingDelay, exchange.serviceTime, exchange.stampStatus], [1, 1.25, 'ok']);
});

test('a response that has begun already remains unchanged', async (t) => {
  const port = await serve(t, (req, res) => {
    res.write('x');
    assert.equal(sojourn.measure(req, res), null);
    res.end();
  });
  assert.equal((await fetch(port)).headers['x-service-time'], undefined);
});

test('a failure of the measurement is one warning, and not an error of the request', async (t) => {
  const warnings = [];
  const keep = (warning) => warnings.push(warning);
  process.on('warning', keep);
  t.after(() => process.off('warning', keep));
  const port = await serve(
    t,
    sojourn.wrap((req, res) => res.end('x'), {
      route: () => {
        throw new Error('no route today');
      },
    }),
  );
  for (const _ of [1, 2]) assertMeasured(await fetch(port));
  const broken = await serve(t, (req, res) => {
    assert.equal(sojourn.measure(req, res, { maxAge: 'x' }), null);
    res.end('x');
  });
  assert.equal((await fetch(broken)).status, 200);
  const stopped = await serve(
    t,
    sojourn.wrap((req, res) => res.end('x'), {
      clock: {
        wallMicros: () => 0,
        monotonicMicros() {
          throw new Error('no clock today');
        },
      },
    }),
  );
  assert.equal((await fetch(stopped)).body.toString(), 'x');
  const messages = warnings.filter(({ name }) => name === 'SojournWarning').map(({ message }) => message);
  assert.equal(messages.filter((message) => message.includes('no route today')).length, 1);
  assert.ok(messages.some((message) => message.includes('maxAge must be a number of seconds, not x')));
});

test('the app changes its own request after the stamp was read', async (t) => {
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      req.headers['x-request-start'] = 'junk';
      res.end();
    }),
  );
  assertMeasured(await fetch(port));
});

test('an error of the handler is the same error for the server', async (t) => {
  const error = new Error('of the app');
  const thrown = sojourn.wrap(() => {
    throw error;
  });
  const rejected = sojourn.wrap(async () => {
    throw error;
  });
  const seen = [];
  const port = await serve(t, async (req, res) => {
    try {
      await (req.url === '/thrown' ? thrown : rejected)(req, res);
    } catch (each) {
      seen.push(each);
    }
    res.end();
  });
  for (const path of ['/thrown', '/rejected']) assertMeasured(await fetch(port, { path }));
  assert.deepEqual(seen, [error, error]);
});

test('wrap keeps `this` and further arguments', async (t) => {
  const server = http.createServer();
  let self;
  server.on(
    'request',
    sojourn.wrap(function handler(req, res) {
      self = this;
      res.end();
    }),
  );
  await fetch(await listen(t, server));
  assert.equal(self, server);
  const wrapped = sojourn.wrap((req, res, next) => next());
  const res = new http.ServerResponse(new http.IncomingMessage(null));
  assert.equal(
    wrapped(res.req, res, () => 'next'),
    'next',
  );
});

test('requests in progress end with the response, or with the connection', async (t) => {
  const waiting = [];
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      if (req.url === '/now') res.end();
      else waiting.push(res);
    }),
  );
  const before = sojourn.stats();
  const inProgress = () => sojourn.stats().requests_in_progress - before.requests_in_progress;
  const client = net.connect(port, '127.0.0.1');
  const line = (path) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
  client.write(line('/first'));
  await eventually(() => inProgress() === 1, 'the first request');
  waiting[0].end('x');
  await eventually(() => inProgress() === 0, 'the end of the first request');
  // Three of one connection: the second one's response cannot be sent before the first one's.
  client.write(line('/a') + line('/now') + line('/b'));
  await eventually(() => waiting.length === 3, 'three requests');
  assert.equal(inProgress(), 3);
  client.destroy();
  await eventually(() => inProgress() === 0, 'the end of a connection');
  assert.equal(sojourn.stats().requests, before.requests + 4);
});

test('a request whose body was read ends with its connection', async (t) => {
  let read = 0;
  const port = await serve(
    t,
    sojourn.wrap(async (req) => {
      for await (const chunk of req) read += chunk.length;
      read += 100;
    }),
  );
  const before = sojourn.stats().requests_in_progress;
  const client = net.connect(port, '127.0.0.1');
  client.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello');
  await eventually(() => read === 105, 'the body');
  assert.equal(sojourn.stats().requests_in_progress, before + 1);
  client.destroy();
  await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the connection');
});

test('invalid options are refused at once', () => {
  const handler = () => {};
  for (const options of [{ maxAge: -1 }, { maxFuture: -0.1 }]) {
    assert.throws(() => sojourn.wrap(handler, options), RangeError);
  }
  for (const options of [
    { maxAge: NaN },
    { maxAge: '3600' },
    { maxFuture: Infinity },
    { clockOffset: null },
    { route: '/users' },
    { serverTiming: 1 },
    { telemetry: null },
    { maxage: 1 },
    'x',
  ]) {
    assert.throws(() => sojourn.express(options), TypeError);
    assert.throws(() => sojourn.koa(options), TypeError);
  }
  assert.throws(() => sojourn.wrap(undefined), TypeError);
});

async function fetchHttp2(t, handler, headers = {}) {
  const port = await listen(t, http2.createServer(handler));
  const client = http2.connect(`http://127.0.0.1:${port}`);
  try {
    const request = client.request({ ':path': '/users', 'x-request-start': `t=${Date.now() / 1000 - 1}`, ...headers });
    const informational = [];
    request.on('headers', (info) => informational.push(info[':status']));
    const [response] = await once(request, 'response');
    let body = '';
    for await (const chunk of request) body += chunk;
    return { headers: response, body, informational };
  } finally {
    client.close();
    await once(client, 'close');
  }
}

const FORMS_2 = {
  end: (res) => res.end('x'),
  write: (res) => {
    res.write('x');
    res.end();
  },
  flushHeaders: (res) => {
    res.flushHeaders();
    res.end('x');
  },
  'writeHead with an object': (res) => {
    res.writeContinue();
    res.writeHead(200, { A: '1', 'X-Worker': 'own' });
    res.end('x');
  },
  'writeHead with a list': (res) => {
    res.writeHead(200, ['A', '1']);
    res.end('x');
  },
};

for (const [name, send] of Object.entries(FORMS_2)) {
  test(`http2: ${name}`, async (t) => {
    const before = sojourn.stats().requests_in_progress;
    const { headers, body, informational } = await fetchHttp2(
      t,
      sojourn.wrap((req, res) => send(res)),
    );
    assert.equal(headers[':status'], 200);
    assert.equal(body, 'x');
    assert.equal(headers['x-worker'], String(process.pid));
    assert.match(headers['x-queueing-delay'], /^[01]\.\d{6}$/);
    assert.match(headers['x-service-time'], /^0\.\d{6}$/);
    if (name.includes('writeHead')) assert.equal(headers.a, '1');
    assert.deepEqual(informational, name.includes('object') ? [100] : []);
    await eventually(() => sojourn.stats().requests_in_progress === before, 'the end of the request');
  });
}

test('http2: a repeated stamp is refused', async (t) => {
  let exchange;
  const handler = (req, res) => {
    exchange = sojourn.measure(req, res);
    res.end();
  };
  const { headers } = await fetchHttp2(t, handler, { 'x-request-start': ['t=1767225599', 't=1767225599'] });
  assert.equal(exchange.stamp, 'list');
  assert.equal(headers['x-queueing-delay'], undefined);
});

test('compression, which replaces write, end and writeHead', { skip }, async (t) => {
  const compress = requireInstalled('compression')({ threshold: 0 });
  const port = await serve(
    t,
    sojourn.wrap((req, res) => {
      compress(req, res, () => {
        res.setHeader('Content-Type', 'text/plain');
        res.end('a'.repeat(10_000));
      });
    }),
  );
  const response = await fetch(port, { headers: { 'Accept-Encoding': 'gzip' } });
  assertMeasured(response);
  assert.equal(response.headers['content-encoding'], 'gzip');
  assert.equal(require('node:zlib').gunzipSync(response.body).length, 10_000);
});

test('on-headers around and inside of the measurement', { skip }, async (t) => {
  const onHeaders = requireInstalled('on-headers');
  for (const first of ['on-headers', 'sojourn']) {
    const order = {
      'on-headers': (req, res) => onHeaders(res, () => res.setHeader('X-Late', '1')),
      sojourn: (req, res) => sojourn.measure(req, res),
    };
    const second = first === 'sojourn' ? 'on-headers' : 'sojourn';
    const port = await serve(t, (req, res) => {
      order[first](req, res);
      order[second](req, res);
      res.writeHead(200, { B: '2' });
      res.end('x');
    });
    const response = await fetch(port);
    assertMeasured(response);
    assert.equal(response.headers['x-late'], '1');
    assert.equal(response.headers.b, '2');
  }
});
