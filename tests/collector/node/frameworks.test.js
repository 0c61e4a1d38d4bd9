'use strict';

// The adapters on the real frameworks.

const assert = require('node:assert/strict');
const http = require('node:http');
const test = require('node:test');

const { APPS, HOLD_MS } = require('./apps');
const { ManualClock, fetch, listen, occurrences, requireInstalled, serve, skip, sojourn } = require('./support');

const FRAMEWORKS = Object.keys(APPS).filter((name) => name !== 'http');

for (const name of FRAMEWORKS) {
  test(`${name}: measurements and routes`, { skip }, async (t) => {
    const port = await listen(t, await APPS[name]());
    const expected = { '/users/7': '/users/:id', '/hold': '/hold', '/stream': '/stream', '/own': '/own' };
    for (const [path, route] of Object.entries(expected)) {
      const response = await fetch(port, { path });
      assert.equal(response.status, 200);
      assert.equal(response.headers['x-route'], route);
      for (const header of ['x-queueing-delay', 'x-service-time', 'x-worker', 'x-route']) {
        assert.equal(occurrences(response.raw, header), 1, header);
      }
      assert.ok(Number(response.headers['x-queueing-delay']) >= 0.999);
      const service = Number(response.headers['x-service-time']);
      assert.ok(path === '/hold' ? service >= HOLD_MS / 1000 - 0.001 : service > 0);
    }
    assert.equal((await fetch(port, { path: '/users/7' })).body.toString(), 'user 7\n');
    assert.equal((await fetch(port, { path: '/stream' })).body.toString(), 'one two\n');
    const head = await fetch(port, { path: '/users/7', method: 'HEAD' });
    assert.ok(Number(head.headers['x-service-time']) > 0);
  });

  test(`${name}: errors and unknown paths`, { skip }, async (t) => {
    const port = await listen(t, await APPS[name]());
    for (const [path, status] of [
      ['/error', 500],
      ['/missing', 404],
      ['/nowhere', 404],
    ]) {
      const response = await fetch(port, { path });
      assert.equal(response.status, status);
      assert.ok(Number(response.headers['x-service-time']) > 0, path);
      assert.equal(response.headers['x-route'], path === '/nowhere' ? undefined : path);
    }
    const refused = await fetch(port, { headers: { 'X-Request-Start': 'junk' } });
    assert.equal(refused.headers['x-queueing-delay'], undefined);
  });

  test(`${name}: options`, { skip }, async (t) => {
    const clock = new ManualClock();
    let request;
    const options = {
      clock,
      serverTiming: true,
      route(each) {
        request = each;
        return undefined;
      },
    };
    const port = await listen(t, await APPS[name](options));
    const response = await fetch(port, { path: '/users/7', headers: { 'X-Request-Start': 't=1767225599.5' } });
    assert.equal(response.headers['x-queueing-delay'], '0.500000');
    assert.equal(response.headers['server-timing'], 'queue;dur=500.000, app;dur=0.000');
    assert.equal(response.headers['x-route'], '/users/:id');
    // The function gets what the framework passes to handlers: with the parameters of the route.
    assert.equal(request.params.id, '7');
  });

  test(`${name}: inside of another measurement`, { skip }, async (t) => {
    const inner = new ManualClock();
    const server = await APPS[name]({ clock: inner });
    const [handler] = server.listeners('request');
    const clock = new ManualClock();
    const port = await listen(t, http.createServer(sojourn.wrap(handler, { clock })));
    clock.advance(1_000_000);
    const response = await fetch(port, { path: '/users/7', headers: { 'X-Request-Start': 't=1767225599' } });
    assert.equal(response.headers['x-queueing-delay'], '2.000000');
    assert.equal(response.headers['x-route'], '/users/:id');
    assert.equal(occurrences(response.raw, 'x-service-time'), 1);
  });
}

for (const name of ['express4', 'express5']) {
  test(`${name}: routes by a regular expression and by several paths`, { skip }, async (t) => {
    const port = await listen(t, await APPS[name]());
    assert.equal((await fetch(port, { path: '/some' })).headers['x-route'], '/^\\/(?:any|some)$/');
    assert.equal((await fetch(port, { path: '/two' })).headers['x-route'], '/one,/two');
  });
}

for (const name of ['fastify4', 'fastify5']) {
  const tooOld = name === 'fastify5' && Number(process.versions.node.split('.')[0]) < 20 && 'Fastify 5 needs Node 20';
  test(`${name}: inject, which has no socket`, { skip: skip || tooOld }, async (t) => {
    const app = requireInstalled(name)();
    t.after(() => app.close());
    await app.register(sojourn.fastify);
    await app.register(sojourn.fastify); // a second time: the outer one measures
    app.get('/users/:id', async () => 'x');
    const before = sojourn.stats();
    const response = await app.inject({ url: '/users/7', headers: { 'x-request-start': `t=${Date.now()}` } });
    assert.equal(response.headers['x-route'], '/users/:id');
    assert.match(response.headers['x-service-time'], /^0\.\d{6}$/);
    const after = sojourn.stats();
    assert.equal(after.requests, before.requests + 1);
    assert.equal(after.requests_in_progress, before.requests_in_progress);
  });

  test(`${name}: an invalid option refuses the start`, { skip }, async () => {
    const app = requireInstalled(name)();
    app.register(sojourn.fastify, { maxAge: -1 });
    await assert.rejects(async () => app.ready(), RangeError);
  });
}

test('Connect: a middleware without a framework', async (t) => {
  const middleware = sojourn.express();
  const port = await serve(t, (req, res) => middleware(req, res, () => res.end('x')));
  const response = await fetch(port);
  assert.ok(Number(response.headers['x-service-time']) >= 0);
  assert.equal(response.headers['x-route'], undefined);
});
