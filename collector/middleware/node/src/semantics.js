'use strict';

// The attributes of a span: OpenTelemetry's stable HTTP attributes, and Sojourn's under `queueing.`.

const { printable } = require('./route');

/** The instrumentation scope. */
const SCOPE = 'sojourn-middleware';

/** The event whose time is the proxy's stamp. */
const STAMP_EVENT = 'http.proxy.request.started';

const HISTOGRAM = 'queueing.delay';

const ACTIVE_REQUESTS = 'http.server.active_requests';

// Seconds. The boundaries of http.server.request.duration, finer below 5 ms, for healthy queues, and wider above 10 s,
// for overloaded ones.
const BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 15, 30, 60, 120,
];

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY']);

/** Return 'GET /users/:id'; the method alone if the route is unknown, never the raw path. */
function spanName(method, route) {
  const name = METHODS.has(method) ? method : 'HTTP';
  return route === null ? name : `${name} ${route}`;
}

/** Return the method, or '_OTHER': a client can send any text, and no text may create a time series. */
function knownMethod(method) {
  return METHODS.has(method) ? method : '_OTHER';
}

/** Return the path of a request target without the query: '/a' for '/a?b' and for 'http://host/a?b'. */
function pathOf(target) {
  const origin = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i.exec(target);
  const path = (origin === null ? target : target.slice(origin[0].length)).split(/[?#]/, 1)[0];
  return printable(path) || '/';
}

/** Return the host and the port of the Host header, or else the address at which the server listens. */
function serverOf(req) {
  const host = req.headers[':authority'] ?? req.headers.host;
  if (!host) return [req.socket?.localAddress, req.socket?.localPort];
  const match = /^(.*[^:]):(\d{1,5})$/.exec(host);
  const bare = (name) => name.replace(/^\[|\]$/g, '');
  return match === null ? [bare(host), undefined] : [bare(match[1]), Number(match[2])];
}

function schemeOf(req) {
  return req.socket?.encrypted ? 'https' : 'http';
}

/** Return the attributes of the number of requests in progress. */
function inProgressAttributes(req) {
  return { 'http.request.method': knownMethod(req.method), 'url.scheme': schemeOf(req) };
}

/** Return the attributes known at the start of the request, for a sampler. */
function firstAttributes(exchange) {
  const { req } = exchange;
  const attributes = {
    'http.request.method': knownMethod(req.method),
    'url.path': pathOf(req.originalUrl ?? req.url),
    'url.scheme': schemeOf(req),
    'network.protocol.version': req.httpVersion === '2.0' ? '2' : req.httpVersion,
  };
  if (!METHODS.has(req.method)) attributes['http.request.method_original'] = req.method;
  const [address, port] = serverOf(req);
  if (address) attributes['server.address'] = address;
  if (port !== undefined) attributes['server.port'] = port;
  return attributes;
}

/** Return Sojourn's attributes known at the start of the request; times in seconds. */
function queueingAttributes(exchange) {
  const attributes = {
    'queueing.status': exchange.stampStatus,
    'queueing.clock_offset': exchange.settings.clockOffset,
    'queueing.worker': exchange.worker,
  };
  const delay = exchange.queueingDelay;
  if (delay !== null) {
    attributes['queueing.delay'] = delay - exchange.settings.clockOffset;
    attributes['queueing.delay.raw'] = delay;
  }
  const requestId = exchange.req.headers['x-request-id'];
  if (requestId) attributes['http.request.header.x-request-id'] = [requestId];
  return attributes;
}

/** Return the class of the app's error, or the status from 500 on; undefined if the response is no server error. */
function errorType(exchange) {
  const { error, status } = exchange;
  // A framework answers an error with status 404 by throwing it; that is the client's error.
  if (status !== null && status < 500) return undefined;
  if (error !== undefined) return error instanceof Error ? error.name : typeof error;
  return status === null ? undefined : String(status);
}

module.exports = {
  ACTIVE_REQUESTS,
  BUCKETS,
  HISTOGRAM,
  SCOPE,
  STAMP_EVENT,
  errorType,
  firstAttributes,
  inProgressAttributes,
  knownMethod,
  queueingAttributes,
  spanName,
};
