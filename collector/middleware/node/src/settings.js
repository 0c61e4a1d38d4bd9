'use strict';

const systemClock = require('./clock');
const { prometheusOf } = require('./prometheus');
const { Telemetry } = require('./telemetry');

const NAMES = new Set([
  ...['maxAge', 'maxFuture', 'clockOffset', 'route', 'serverTiming', 'alwaysAnswer', 'telemetry'],
  ...['prometheus', 'service', 'prometheusName', 'clock'],
]);

function seconds(name, value, least) {
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new TypeError(`${name} must be a number of seconds, not ${String(value)}`);
  }
  if (value < least) throw new RangeError(`${name} must be a number of seconds, zero or more, not ${value}`);
  return value;
}

/** The options of a middleware, checked. */
class Settings {
  constructor(options = {}) {
    if (options === null || typeof options !== 'object') {
      throw new TypeError(`options must be an object, not ${String(options)}`);
    }
    for (const name of Object.keys(options)) {
      if (!NAMES.has(name)) throw new TypeError(`there is no option ${name}; the options are ${[...NAMES].join(', ')}`);
    }
    const { maxAge = 3600, maxFuture = 10, clockOffset = 0, route, serverTiming = false, telemetry, clock } = options;
    const { alwaysAnswer = false } = options;
    this.maxAgeMicros = Math.round(seconds('maxAge', maxAge, 0) * 1e6);
    this.maxFutureMicros = Math.round(seconds('maxFuture', maxFuture, 0) * 1e6);
    this.clockOffset = seconds('clockOffset', clockOffset, -Infinity);
    this.clockOffsetMicros = Math.round(this.clockOffset * 1e6);
    if (route !== undefined && route !== null && typeof route !== 'function') {
      throw new TypeError('route must be a function from the request to its route');
    }
    this.route = route ?? null;
    if (typeof serverTiming !== 'boolean') throw new TypeError('serverTiming must be true or false');
    this.serverTiming = serverTiming;
    if (typeof alwaysAnswer !== 'boolean') throw new TypeError('alwaysAnswer must be true or false');
    this.alwaysAnswer = alwaysAnswer;
    if (
      telemetry !== undefined &&
      typeof telemetry !== 'boolean' &&
      (telemetry === null || typeof telemetry !== 'object')
    ) {
      throw new TypeError('telemetry must be a boolean, or an object with tracerProvider, meterProvider or both');
    }
    this.telemetry = telemetry === false ? null : new Telemetry(typeof telemetry === 'object' ? telemetry : undefined);
    this.prometheus = prometheusOf(options.prometheus, options.service, options.prometheusName);
    this.clock = clock ?? systemClock;
  }
}

const known = new WeakMap();
let standard = null;

/** Return the checked options. One object is checked once: `measure` gets it again with each request. */
function settingsOf(options) {
  if (options === undefined) return (standard ??= new Settings());
  let settings = known.get(options);
  if (settings === undefined) {
    settings = new Settings(options);
    known.set(options, settings);
  }
  return settings;
}

module.exports = { settingsOf };
