'use strict';

// The template of a request's route, such as /users/:id, if the framework provides it; otherwise undefined.

/** Return the route that Express has matched: the path of the mounts, then the route's own. Also for a bare request. */
function expressRoute(request) {
  const path = request.route?.path;
  if (path === undefined) return undefined;
  const prefix = typeof request.baseUrl === 'string' ? request.baseUrl : '';
  // A regular expression appears as its source, several paths of one route as a list.
  return prefix + (Array.isArray(path) ? path.map(String).join(',') : String(path));
}

/** Return the route that Fastify has matched. */
function fastifyRoute(request) {
  return request.routeOptions?.url;
}

/** Return the route that a router of Koa (@koa/router, koa-router) has matched. */
function koaRoute(ctx) {
  const route = ctx._matchedRoute;
  return route === undefined ? undefined : String(route);
}

const PRINTABLE = /^[\x20-\x7e]*$/;

/** Return the text with bytes outside printable ASCII as %XX: they would break a header. */
function printable(text) {
  if (PRINTABLE.test(text)) return text;
  let escaped = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    escaped +=
      byte >= 0x20 && byte <= 0x7e ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return escaped;
}

module.exports = { expressRoute, fastifyRoute, koaRoute, printable };
