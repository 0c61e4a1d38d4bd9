'use strict';

// The same small app on each framework. Each maker takes the options of the middleware and resolves to an http server.
//
//   /hold          holds the event loop for 150 ms, as a large JSON.parse does
//   /users/:id     a route with a parameter, in a router of its own; its handler awaits, then calls `hooks.user`
//   /stream        a body of two chunks
//   /own           a route that the app names itself
//   /error         the handler throws
//   /missing       the handler throws an error with the status 404
//   other paths    no route

const http = require('node:http');
const { Readable } = require('node:stream');

const { requireInstalled, sojourn } = require('./support');

const HOLD_MS = 150;
const hooks = { user() {} };
const cell = new Int32Array(new SharedArrayBuffer(4));

async function user(id) {
  await new Promise((resolve) => setImmediate(resolve));
  hooks.user();
  return `user ${id}\n`;
}

function hold() {
  Atomics.wait(cell, 0, 0, HOLD_MS);
  return 'held\n';
}

function chunks() {
  return Readable.from([Buffer.from('one '), Buffer.from('two\n')]);
}

function missing() {
  return Object.assign(new Error('there is no such thing'), { status: 404, statusCode: 404, expose: true });
}

async function plain(options = {}) {
  const handler = (req, res) => {
    if (req.url === '/hold') return res.end(hold());
    if (req.url === '/stream') return chunks().pipe(res);
    if (req.url === '/own') return res.writeHead(200, { 'X-Route': '/own/{name}' }).end('own\n');
    if (req.url === '/error' || req.url === '/missing') res.statusCode = req.url === '/error' ? 500 : 404;
    return res.end('hello\n');
  };
  return http.createServer(sojourn.wrap(handler, options));
}

function express(name) {
  return async (options) => {
    const make = requireInstalled(name);
    const app = make();
    app.set('env', 'test'); // it does not log the errors of the app
    app.use(sojourn.express(options));
    const users = make.Router();
    users.get('/:id', async (req, res) => res.send(await user(req.params.id)));
    app.use('/users', users);
    app.get('/hold', (req, res) => res.send(hold()));
    app.get('/stream', (req, res) => chunks().pipe(res));
    app.get('/own', (req, res) => res.set('X-Route', '/replaced').send('own\n'));
    app.get(/^\/(?:any|some)$/, (req, res) => res.send('any\n'));
    app.get(['/one', '/two'], (req, res) => res.send('one\n'));
    app.get('/error', () => {
      throw new Error('of the app');
    });
    app.get('/missing', () => {
      throw missing();
    });
    return http.createServer(app);
  };
}

function fastify(name) {
  return async (options) => {
    const app = requireInstalled(name)({ forceCloseConnections: true });
    app.register(sojourn.fastify, options);
    app.register(
      async (users) => {
        users.get('/:id', (request) => user(request.params.id));
        users.post('/:id', (request) => user(request.params.id));
      },
      { prefix: '/users' },
    );
    app.get('/hold', (request, reply) => reply.send(hold()));
    app.get('/stream', (request, reply) => reply.send(chunks()));
    app.get('/own', async (request, reply) => reply.header('X-Route', '/replaced').send('own\n'));
    app.get('/error', async () => {
      throw new Error('of the app');
    });
    app.get('/missing', async () => {
      throw missing();
    });
    await app.ready();
    return app.server;
  };
}

function koa(name) {
  return async (options) => {
    const Koa = requireInstalled(name);
    const Router = requireInstalled('@koa/router');
    const app = new Koa();
    app.silent = true;
    app.use(sojourn.koa(options));
    const users = new Router({ prefix: '/users' });
    users.get('/:id', async (ctx) => {
      ctx.body = await user(ctx.params.id);
    });
    const router = new Router();
    router.get('/hold', (ctx) => {
      ctx.body = hold();
    });
    router.get('/stream', (ctx) => {
      ctx.body = chunks();
    });
    router.get('/own', (ctx) => {
      ctx.set('X-Route', '/replaced');
      ctx.body = 'own\n';
    });
    router.get('/error', async () => {
      throw new Error('of the app');
    });
    router.get('/missing', async () => {
      throw missing();
    });
    app.use(users.routes());
    app.use(router.routes());
    return http.createServer(app.callback());
  };
}

const APPS = {
  http: plain,
  express4: express('express4'),
  express5: express('express5'),
  fastify4: fastify('fastify4'),
  fastify5: fastify('fastify5'),
  koa2: koa('koa2'),
  koa3: koa('koa3'),
};

module.exports = { APPS, HOLD_MS, hooks };

if (require.main === module) {
  // node apps.js NAME PORT
  const [name, port] = process.argv.slice(2);
  APPS[name]().then((server) => server.listen(Number(port), '127.0.0.1'));
}
