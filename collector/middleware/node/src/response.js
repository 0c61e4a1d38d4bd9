'use strict';

// The response headers with the measurements. All ways to send headers end in res.writeHead: of http, where a write, an
// end and flushHeaders call it, and of the compatibility API of http2. Informational responses (100, 102, 103) do not.

const { warnOnce } = require('./warning');

const DELAY = 'X-Queueing-Delay';
const SERVICE = 'X-Service-Time';
const WORKER = 'X-Worker';
const ROUTE = 'X-Route';
const TIMING = 'Server-Timing';

// Lower-case names of the app's headers that the middleware replaces: by whether it knows the route, and whether it
// adds to Server-Timing.
const [MEASURED, WITH_ROUTE, WITH_TIMING, WITH_BOTH] = [[], [ROUTE], [TIMING], [ROUTE, TIMING]].map(
  (more) => new Set([DELAY, SERVICE, WORKER, ...more].map((name) => name.toLowerCase())),
);

const [NONE, TIMING_ONLY] = [[], [TIMING.toLowerCase()]].map((names) => new Set(names));

const SWITCHING_PROTOCOLS = 101;

const EVENT_STREAM = /^\s*text\/event-stream\s*(;|$)/i;

/** Add the headers of the exchange to its response when they leave. */
function measureResponse(res, exchange) {
  const writeHead = res.writeHead;
  res.writeHead = function measuredWriteHead(...args) {
    const status = args[0] | 0;
    if (exchange.status !== null || this.headersSent || (status < 200 && status !== SWITCHING_PROTOCOLS)) {
      return writeHead.apply(this, args);
    }
    let measured = args;
    let outlasts = status === SWITCHING_PROTOCOLS;
    try {
      exchange.headersLeave();
      outlasts ||= hasEvents(this, args);
      measured = withMeasurements(this, args, exchange);
    } catch (error) {
      warnOnce('a response leaves without its measurements', error);
    }
    // If it throws, the headers have not left: the app may call it again.
    const result = writeHead.apply(this, measured);
    exchange.headersLeft(status, outlasts);
    return result;
  };
}

/** Return the headers of writeHead(status[, reason][, headers]); null if there are none. */
function headersOf(args) {
  const headers = typeof args[1] === 'string' ? args[2] : (args[2] ?? args[1]);
  return typeof headers === 'object' && headers !== null ? headers : null;
}

/** Return whether the response of a call of writeHead is a stream of server-sent events. */
function hasEvents(res, args) {
  const headers = headersOf(args);
  const type = headers === null ? res.getHeader('Content-Type') : new AppHeaders(res, headers).value('Content-Type');
  return type !== undefined && EVENT_STREAM.test(String(type));
}

/** Return the arguments of writeHead(status[, reason][, headers]) with the measurements; the app's object is copied. */
function withMeasurements(res, args, exchange) {
  const hasReason = typeof args[1] === 'string';
  const headers = headersOf(args);
  if (headers === null) {
    setMeasurements(res, exchange);
    return args;
  }
  // They are added to the app's argument, not by setHeader: if headers come from both, Node 18 keeps only the last one of
  // a repeated name.
  const app = new AppHeaders(res, headers);
  // Headers set before writeHead and not named by it leave, too.
  removeUnknownDelay(res, exchange);
  const replaced = replacedNames(exchange);
  const added = measurements(exchange, app);
  const copy = app.copyWith(replaced, added);
  return hasReason ? [args[0], args[1], copy] : [args[0], copy];
}

/** A delay of the app is not that of the request. */
function removeUnknownDelay(res, exchange) {
  if (exchange.answers && exchange.delayMicros === null && res.hasHeader(DELAY)) res.removeHeader(DELAY);
}

function setMeasurements(res, exchange) {
  removeUnknownDelay(res, exchange);
  const added = measurements(exchange, new AppHeaders(res, {}));
  for (let index = 0; index < added.length; index += 2) res.setHeader(added[index], added[index + 1]);
}

function replacedNames(exchange) {
  if (!exchange.answers) return exchange.settings.serverTiming ? TIMING_ONLY : NONE;
  if (exchange.settings.serverTiming) return exchange.route === null ? WITH_TIMING : WITH_BOTH;
  return exchange.route === null ? MEASURED : WITH_ROUTE;
}

/** Return names and values to add, in turn. */
function measurements(exchange, app) {
  const added = [];
  const { answers } = exchange;
  if (answers && exchange.delayMicros !== null) added.push(DELAY, (exchange.delayMicros / 1e6).toFixed(6));
  if (answers) added.push(SERVICE, (exchange.serviceMicros / 1e6).toFixed(6), WORKER, exchange.worker);
  if (exchange.route !== null) {
    if (answers) added.push(ROUTE, exchange.route);
  } else {
    const own = app.value(ROUTE);
    if (own !== undefined) exchange.route = String(own);
  }
  if (exchange.settings.serverTiming) {
    let own = app.value(TIMING);
    // After a call of writeHead that threw, the response still has the value of that call.
    if (own !== undefined && own === exchange.timing.sent) own = exchange.timing.own;
    const sent = [...(own === undefined ? [] : [own].flat()), serverTiming(exchange)].join(', ');
    exchange.timing = { own, sent };
    added.push(TIMING, sent);
  }
  return added;
}

/** Return the value of Server-Timing, in milliseconds; an unknown or negative delay is left out. */
function serverTiming(exchange) {
  const service = `app;dur=${(exchange.serviceMicros / 1e3).toFixed(3)}`;
  const delay = exchange.delayMicros;
  return delay === null || delay < 0 ? service : `queue;dur=${(delay / 1e3).toFixed(3)}, ${service}`;
}

/** The headers of a call of writeHead: an object, names and values in turn, or pairs. */
class AppHeaders {
  constructor(res, headers) {
    this.res = res;
    this.headers = headers;
    this.isList = Array.isArray(headers);
    this.isPairs = this.isList && Array.isArray(headers[0]);
    if (this.isList && !this.isPairs && headers.length % 2 !== 0) {
      throw new TypeError('the headers of writeHead are a list with a name without a value');
    }
  }

  /** Return the value or values that leave under this name: of writeHead, or else those set before; or undefined. */
  value(name) {
    const wanted = name.toLowerCase();
    const values = [];
    this.forEach((key, value) => {
      if (String(key).toLowerCase() === wanted) values.push(...(Array.isArray(value) ? value : [value]));
    });
    if (values.length === 0) return this.res.getHeader(name);
    return values.length === 1 ? values[0] : values;
  }

  forEach(visit) {
    const { headers } = this;
    if (!this.isList) {
      for (const key of Object.keys(headers)) visit(key, headers[key]);
    } else if (this.isPairs) {
      for (const [key, value] of headers) visit(key, value);
    } else {
      for (let index = 0; index < headers.length; index += 2) visit(headers[index], headers[index + 1]);
    }
  }

  /** Return a copy of the same form: without the replaced headers, and with the added ones. */
  copyWith(replaced, added) {
    if (!this.isList) {
      const copy = { ...this.headers };
      for (const key of Object.keys(copy)) if (replaced.has(key.toLowerCase())) delete copy[key];
      for (let index = 0; index < added.length; index += 2) copy[added[index]] = added[index + 1];
      return copy;
    }
    const copy = [];
    const add = this.isPairs ? (key, value) => copy.push([key, value]) : (key, value) => copy.push(key, value);
    this.forEach((key, value) => {
      if (!replaced.has(String(key).toLowerCase())) add(key, value);
    });
    for (let index = 0; index < added.length; index += 2) add(added[index], added[index + 1]);
    return copy;
  }
}

module.exports = { measureResponse };
