'use strict';

const { begin, exchangeOf } = require('./exchange');
const { expressRoute, fastifyRoute, koaRoute } = require('./route');
const { settingsOf } = require('./settings');

/** See index.d.ts. */
function wrap(handler, options) {
  if (typeof handler !== 'function') throw new TypeError('wrap needs a request handler: wrap((req, res) => …)');
  const settings = settingsOf(options);
  return function measured(req, res, ...others) {
    const exchange = begin(settings, req, res);
    if (exchange === null) return handler.call(this, req, res, ...others);
    return exchange.run(() => handler.call(this, req, res, ...others));
  };
}

/** See index.d.ts. */
function express(options) {
  const settings = settingsOf(options);
  return function sojourn(req, res, next) {
    const exchange = begin(settings, req, res, req, expressRoute);
    if (exchange === null) next();
    else exchange.run(next);
  };
}

/** See index.d.ts. */
function fastify(instance, options, done) {
  // Fastify's own options of `register` are not for the plugin.
  const { prefix: _prefix, logLevel: _level, logSerializers: _serializers, ...own } = options;
  let settings;
  try {
    settings = settingsOf(own);
  } catch (error) {
    done(error);
    return;
  }
  instance.addHook('onRequest', function sojourn(request, reply, next) {
    const exchange = begin(settings, request.raw, reply.raw, request, fastifyRoute);
    if (exchange === null) next();
    else exchange.run(next);
  });
  instance.addHook('onError', function sojourn(request, reply, error, next) {
    exchangeOf(reply.raw)?.fail(error);
    next();
  });
  done();
}

// The hooks are for the instance that registers the plugin, not for a context of the plugin's own.
fastify[Symbol.for('skip-override')] = true;
fastify[Symbol.for('fastify.display-name')] = 'sojourn-middleware';
fastify[Symbol.for('plugin-meta')] = { name: 'sojourn-middleware', fastify: '>=4.10' };

/** See index.d.ts. */
function koa(options) {
  const settings = settingsOf(options);
  return function sojourn(ctx, next) {
    const exchange = begin(settings, ctx.req, ctx.res, ctx, koaRoute);
    return exchange === null ? next() : exchange.run(next);
  };
}

module.exports = { express, fastify, koa, wrap };
