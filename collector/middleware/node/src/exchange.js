'use strict';

const { printable, expressRoute } = require('./route');
const { measureResponse } = require('./response');
const { settingsOf } = require('./settings');
const { readStamp, stampStatus } = require('./stamp');
const { warnOnce } = require('./warning');
const { workerName } = require('./worker');

// On the response while its request is measured, so that a second, inner middleware does not measure it again. Several
// copies of this package in one process have the same symbol.
const MEASURED = Symbol.for('sojourn-middleware.exchange');

const NO_TIMING = Object.freeze({ own: undefined, sent: undefined });

/** Requests measured by this process: all, and those in progress. */
const counts = { total: 0, inProgress: 0 };

/** One request and its response, from the start of the app to the end of the response. */
class Exchange {
  constructor(settings, req, request, readRoute) {
    const { clock } = settings;
    this.settings = settings;
    this.req = req;
    /** What the framework passes to its handlers. */
    this.request = request;
    this.readRoute = readRoute;
    this.startWallMicros = clock.wallMicros();
    this.startMicros = clock.monotonicMicros();
    this.stamp = readStamp(req.headers, this.startWallMicros, settings.maxAgeMicros, settings.maxFutureMicros);
    this.delayMicros = typeof this.stamp === 'number' ? this.startWallMicros - this.stamp : null;
    this.serviceMicros = null;
    this.status = null;
    this.route = null;
    this.error = undefined;
    this.timing = NO_TIMING;
    this.worker = workerName();
    this.span = null;
    this.finished = false;
    /** Whether the request counts among those in progress. */
    this.inProgress = false;
  }

  get queueingDelay() {
    return this.delayMicros === null ? null : this.delayMicros / 1e6;
  }

  get serviceTime() {
    return this.status === null || this.serviceMicros === null ? null : this.serviceMicros / 1e6;
  }

  /**
   * Whether the response has the measurements: the request has a stamp, valid or not, or the option says so. Without a
   * stamp there is no proxy that removes them before the client.
   */
  get answers() {
    return this.settings.alwaysAnswer || this.stamp !== 'missing';
  }

  get stampStatus() {
    return stampStatus(this.stamp);
  }

  run(callback) {
    if (this.span === null || !this.span.own) return callback();
    let result;
    try {
      result = this.span.run(callback);
    } catch (error) {
      this.fail(error);
      throw error;
    }
    if (!(result instanceof Promise)) return result;
    return result.then(undefined, (error) => {
      this.fail(error);
      throw error;
    });
  }

  /** Keep the error of the app for the span. */
  fail(error) {
    this.error ??= error ?? new Error('the app failed without an error');
  }

  /** End the service time now and read the route. */
  headersLeave() {
    this.serviceMicros = this.settings.clock.monotonicMicros() - this.startMicros;
    this.route = null;
    let route;
    try {
      route = this.settings.route?.(this.request) || this.readRoute(this.request);
    } catch (error) {
      warnOnce('the route of a request could not be read', error);
    }
    if (route) this.route = printable(String(route));
  }

  /**
   * @param {number} status of the response
   * @param {boolean} outlasts whether the response lasts until its client leaves: another protocol, or server-sent events
   */
  headersLeft(status, outlasts) {
    this.status = status;
    if (outlasts) this.leave();
    this.span?.headersLeft();
    if (!this.finished) this.settings.prometheus?.record(this);
  }

  /** Count the request among those in progress. */
  enter() {
    this.inProgress = true;
    counts.inProgress += 1;
    this.settings.prometheus?.addInProgress(1);
    this.span?.addInProgress(1);
  }

  /** Count it among those in progress no longer. Only the first call counts. */
  leave() {
    if (!this.inProgress) return;
    this.inProgress = false;
    counts.inProgress -= 1;
    this.settings.prometheus?.addInProgress(-1);
    this.span?.addInProgress(-1);
  }

  /** The response has ended, or its connection. Only the first call counts. */
  finish() {
    if (this.finished) return;
    this.finished = true;
    this.leave();
    this.span?.end();
    // With headers, it has been recorded when they left.
    if (this.status === null) this.settings.prometheus?.record(this);
  }
}

/**
 * Begin to measure a request. Never throws for a reason of the measurement.
 *
 * @returns {Exchange | null} null if it is not measured, or another middleware measures it already
 */
function begin(settings, req, res, request = req, readRoute = expressRoute) {
  try {
    const outer = res[MEASURED];
    if (outer !== undefined) {
      // Only the inner middleware gets the object with the framework's route.
      if (readRoute !== expressRoute) outer.readRoute = () => readRoute(request);
      return null;
    }
    if (res.headersSent) {
      warnOnce('a request is not measured, because its response headers have left already');
      return null;
    }
    const exchange = new Exchange(settings, req, request, readRoute);
    measureResponse(res, exchange);
    const finish = () => exchange.finish();
    res.once('finish', finish);
    res.once('close', finish);
    // A response that waits behind another one of its connection has no event if the client closes the connection.
    req.once('close', () => {
      if (req.socket?.destroyed === true) exchange.finish();
    });
    counts.total += 1;
    res[MEASURED] = exchange;
    exchange.span = settings.telemetry?.start(exchange, res) ?? null;
    exchange.enter();
    return exchange;
  } catch (error) {
    warnOnce('a request is not measured', error);
    return null;
  }
}

/** Return the exchange of a response; undefined if it is not measured. */
function exchangeOf(res) {
  return res[MEASURED];
}

/** See index.d.ts. */
function measure(req, res, options) {
  try {
    return begin(settingsOf(options), req, res) ?? exchangeOf(res) ?? null;
  } catch (error) {
    warnOnce('a request is not measured', error);
    return null;
  }
}

module.exports = { begin, counts, exchangeOf, measure };
