'use strict';

// A span and a histogram value for each request, the requests in progress, and the delay of the event loop, in the names
// of OpenTelemetry. A process that has set no provider never loads its API. A failure to record is one warning, never an error of the request.

const { EVENT_LOOP_DELAY, delayQuantiles, startMonitor } = require('./event_loop');
const { packageOfApp } = require('./optional');
const {
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
} = require('./semantics');
const { warnOnce } = require('./warning');

// Where every copy of the API of this major version keeps what the app has set.
const GLOBAL = Symbol.for('opentelemetry.js.api.1');

// The key under which @opentelemetry/core keeps the SERVER span of an HTTP instrumentation in the context. Inside of a
// middleware of Express the active span can be one of the middleware.
const RPC_METADATA = 'OpenTelemetry SDK Context Key RPC_METADATA';

let loaded = null;

/** Providers that have the delay of the event loop. */
const observedSources = new WeakSet();

function loadApi() {
  loaded ??= packageOfApp('@opentelemetry/api', () => require('@opentelemetry/api'));
  return loaded;
}

/** Return a time of OpenTelemetry: seconds and nanoseconds since the Unix epoch. */
function hrTime(micros) {
  const seconds = Math.floor(micros / 1e6);
  return [seconds, Math.round((micros - seconds * 1e6) * 1e3)];
}

/** Where spans and measurements are sent: to the app's global providers, or to exactly those that the options name. */
class Telemetry {
  constructor(providers) {
    this.providers = providers ?? null;
    this.tracing = { source: undefined, tracer: null };
    this.metering = { source: undefined, histogram: null, inProgress: null };
  }

  /** Return the record of one request, or null if nothing is recorded. */
  start(exchange, res) {
    const sources = this.providers ?? globalThis[GLOBAL];
    if (sources === undefined) return null;
    const traces = this.providers === null ? sources.trace : sources.tracerProvider;
    const metrics = this.providers === null ? sources.metrics : sources.meterProvider;
    if (traces === undefined && metrics === undefined) return null;
    try {
      const api = loadApi();
      return new Recording(api, this.tracer(api, traces), this.meters(api, metrics), exchange, res);
    } catch (error) {
      warnOnce('spans and delays are not recorded', error);
      return null;
    }
  }

  // An app can set its providers late, or others: the instruments belong to one provider.
  tracer(api, source) {
    if (this.tracing.source !== source) {
      const provider = this.providers === null ? api.trace : source;
      this.tracing = { source, tracer: source === undefined ? null : provider.getTracer(SCOPE) };
    }
    return this.tracing.tracer;
  }

  meters(api, source) {
    if (this.metering.source !== source) {
      const provider = this.providers === null ? api.metrics : source;
      const meter = source === undefined ? null : provider.getMeter(SCOPE);
      const histogram = meter?.createHistogram(HISTOGRAM, {
        unit: 's',
        description: "Time from the proxy's stamp to the start of the app",
        advice: { explicitBucketBoundaries: BUCKETS },
      });
      this.metering = { source, histogram: histogram ?? null, inProgress: meter === null ? null : activeRequests(meter) };
      if (meter !== null) observeEventLoop(meter, source);
    }
    return this.metering;
  }
}

/** Return the instrument of the requests in progress; null if the meter has none. */
function activeRequests(meter) {
  try {
    const description = 'Number of active HTTP server requests';
    return meter.createUpDownCounter(ACTIVE_REQUESTS, { unit: '{request}', description });
  } catch (error) {
    warnOnce('the requests in progress are not counted', error);
    return null;
  }
}

/** Report the delay of the event loop at each collection, once per provider: it is that of the thread. */
function observeEventLoop(meter, source) {
  if (observedSources.has(source)) return;
  observedSources.add(source);
  try {
    const description = EVENT_LOOP_DELAY.help.slice(0, -1);
    meter.createObservableGauge(EVENT_LOOP_DELAY.otelName, { unit: 's', description }).addCallback((result) => {
      for (const [quantile, seconds] of delayQuantiles()) result.observe(seconds, { 'queueing.quantile': quantile });
    });
    startMonitor();
  } catch (error) {
    warnOnce('the delay of the event loop is not recorded', error);
  }
}

/** Return the span that the request has already, from automatic instrumentation; undefined if there is none. */
function instrumentedSpan(api, context) {
  const metadata = context.getValue(api.createContextKey(RPC_METADATA));
  const span = metadata?.span ?? api.trace.getSpan(context);
  if (span === undefined) return undefined;
  const { isRemote } = span.spanContext();
  // One that a sampler has dropped records nothing, but the request has it.
  const isLocal = !isRemote && api.isSpanContextValid(span.spanContext());
  return span.isRecording() || isLocal ? span : undefined;
}

/** What is recorded about one request. No method throws. */
class Recording {
  constructor(api, tracer, { histogram, inProgress }, exchange, res) {
    this.api = api;
    this.histogram = histogram;
    this.inProgress = inProgress;
    // A handler can change the request.
    this.inProgressAttributes = inProgress === null ? null : inProgressAttributes(exchange.req);
    this.exchange = exchange;
    this.context = api.context.active();
    this.span = instrumentedSpan(api, this.context) ?? null;
    /** Whether the span was started by this package. */
    this.own = false;
    if (this.span === null && tracer !== null) {
      this.own = true;
      const { req } = exchange;
      const parent = api.propagation.extract(this.context, req.headers);
      const attributes = firstAttributes(exchange);
      const startTime = hrTime(exchange.startWallMicros);
      const kind = api.SpanKind.SERVER;
      this.span = tracer.startSpan(spanName(req.method, null), { kind, attributes, startTime }, parent);
      this.context = api.trace.setSpan(parent, this.span);
      // Listeners for the body and for the end of the response run with the span, too.
      api.context.bind(this.context, req);
      api.context.bind(this.context, res);
    }
    if (this.span?.isRecording()) {
      this.span.setAttributes(queueingAttributes(exchange));
      if (typeof exchange.stamp === 'number') this.span.addEvent(STAMP_EVENT, {}, hrTime(exchange.stamp));
    }
  }

  /** Call a function with the span as the active one. */
  run(callback) {
    return this.api.context.with(this.context, callback);
  }

  /** Add 1 to the requests in progress at the start of a request, and -1 at its end. */
  addInProgress(requests) {
    try {
      this.inProgress?.add(requests, this.inProgressAttributes, this.context);
    } catch (error) {
      warnOnce('the requests in progress could not be counted', error);
    }
  }

  /** Instrumentation may end its span before this package sees the end of the response. */
  headersLeft() {
    try {
      this.span?.setAttribute('queueing.service_time', this.exchange.serviceTime);
    } catch (error) {
      warnOnce('a span could not be recorded', error);
    }
  }

  end() {
    try {
      if (this.own) this.endSpan();
      this.recordDelay();
    } catch (error) {
      warnOnce('a span could not be recorded', error);
    }
  }

  endSpan() {
    const { api, exchange, span } = this;
    const { error, req, route, settings, startMicros, startWallMicros, status } = exchange;
    if (span.isRecording()) {
      span.updateName(spanName(req.method, route));
      if (route !== null) span.setAttribute('http.route', route);
      if (status !== null) span.setAttribute('http.response.status_code', status);
      const type = errorType(exchange);
      if (type !== undefined) {
        span.setAttribute('error.type', type);
        if (error instanceof Error) span.recordException(error);
        span.setStatus({ code: api.SpanStatusCode.ERROR, message: error instanceof Error ? error.message : undefined });
      }
    }
    // The end by the monotonic clock, so that a step of the wall clock cannot change the duration.
    span.end(hrTime(startWallMicros + settings.clock.monotonicMicros() - startMicros));
  }

  recordDelay() {
    const { queueingDelay, req, route, settings, status } = this.exchange;
    if (this.histogram === null || queueingDelay === null) return;
    const delay = queueingDelay - settings.clockOffset;
    // The clocks disagree: the buckets and the sum of a histogram have no place for a negative delay.
    if (delay < 0) return;
    const attributes = { 'http.request.method': knownMethod(req.method) };
    if (route !== null) attributes['http.route'] = route;
    if (status !== null) attributes['http.response.status_code'] = status;
    this.histogram.record(delay, attributes, this.context);
  }
}

module.exports = { Telemetry };
