'use strict';

// Histograms of the queueing delay and the service time, counters of negative delays, the requests in progress, and the
// delay of the event loop, in the app's registry of prom-client. An app that does not want them never loads it. A failure to record is one warning,
// never an error of the request.

const { EVENT_LOOP_DELAY, delayQuantiles, startMonitor } = require('./event_loop');
const { packageOfApp } = require('./optional');
const { warnOnce } = require('./warning');

/** The default name of the delay's histogram. */
const DELAY = 'sojourn_queueing_delay_seconds';

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

// Seconds; those of every exporter of Sojourn.
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

const REQUEST = ['service', 'route', 'status_class'];

const SERVICE_TIME = {
  kind: 'Histogram',
  name: 'sojourn_service_time_seconds',
  help: "Time from the app's start to its response headers.",
  labelNames: REQUEST,
  buckets: BUCKETS,
};

const NEGATIVE = {
  kind: 'Counter',
  name: 'sojourn_negative_queueing_delays_total',
  help: 'Requests whose queueing delay was negative: the clocks differ, or one changed.',
  labelNames: ['service'],
};

const NEGATIVE_SECONDS = {
  kind: 'Counter',
  name: 'sojourn_negative_queueing_delay_seconds_total',
  help: 'Sum of the negative queueing delays, without sign; histogram sum less this is the exact sum.',
  labelNames: ['service'],
};

const MOST_ROUTES = 100;
const OTHER = 'other';

// On a registry: its requests in progress by service, shared by all middleware that records there, also of several copies
// of this package in one process.
const IN_PROGRESS = Symbol.for('sojourn-middleware.requests-in-progress');

/** The routes that a registry has, shared by all middleware that records there. */
const routesOf = new WeakMap();

let loaded;

/** Return prom-client; null, after a warning, if it cannot be loaded. */
function loadClient() {
  if (loaded === undefined) {
    try {
      loaded = packageOfApp('prom-client', () => require('prom-client'));
    } catch (error) {
      loaded = null;
      warnOnce('metrics are not recorded, because prom-client cannot be loaded', error);
    }
  }
  return loaded;
}

function isModule(value) {
  return typeof value.Histogram === 'function' && isRegistry(value.register);
}

function isRegistry(value) {
  return typeof value?.getSingleMetric === 'function' && typeof value.registerMetric === 'function';
}

/**
 * Return what records requests in a registry; null if the option is off, or prom-client is not installed.
 *
 * @param {boolean | object} target the option: true for the default registry, a registry, or the module of prom-client
 * @param {string | undefined} service the option; the environment names it otherwise
 * @param {string} delayName name of the delay's histogram
 * @throws {TypeError} for an invalid option
 */
function prometheusOf(target = false, service = process.env.OTEL_SERVICE_NAME ?? '', delayName = DELAY) {
  const isObject = typeof target === 'object' && target !== null;
  if (typeof target !== 'boolean' && !(isObject && (isModule(target) || isRegistry(target)))) {
    throw new TypeError('prometheus must be a boolean, a registry of prom-client, or prom-client itself');
  }
  if (typeof service !== 'string') throw new TypeError(`service must be a text, not ${String(service)}`);
  if (typeof delayName !== 'string' || !METRIC_NAME.test(delayName)) {
    throw new TypeError(`prometheusName must be a name of a metric, such as ${DELAY}, not ${String(delayName)}`);
  }
  if (target === false) return null;
  const client = isObject && isModule(target) ? target : loadClient();
  if (client === null) return null;
  return new Prometheus(client, isObject && isRegistry(target) ? target : client.register, service, delayName);
}

/** Return the definition of the gauge that reads the event loop of this thread when the registry is collected. */
function eventLoopGauge(service) {
  return {
    kind: 'Gauge',
    name: EVENT_LOOP_DELAY.name,
    help: EVENT_LOOP_DELAY.help,
    labelNames: ['service', 'quantile'],
    aggregator: 'max', // over the processes of a cluster
    collect() {
      try {
        for (const [quantile, seconds] of delayQuantiles()) this.set({ service, quantile }, seconds);
      } catch (error) {
        warnOnce('the delay of the event loop is not recorded', error);
      }
    },
  };
}

/** Return the definition of the gauge that reads the requests in progress, by service, when the registry is collected. */
function inProgressGauge(requests) {
  return {
    kind: 'Gauge',
    name: 'sojourn_requests_in_progress',
    help: 'Requests that the app has started and not finished, without WebSockets and server-sent events.',
    labelNames: ['service'],
    collect() {
      for (const [service, number] of requests) this.set({ service }, number);
    },
  };
}

/** The metrics of one middleware. Several ones with the same registry have the same metrics. */
class Prometheus {
  constructor(client, registry, service, delayName) {
    this.client = client;
    this.registry = registry;
    this.service = service;
    this.delay = {
      kind: 'Histogram',
      name: delayName,
      help: 'Time that requests waited for a worker; negative values count in the lowest bucket, and not in the sum.',
      labelNames: REQUEST,
      buckets: BUCKETS,
    };
    registry[IN_PROGRESS] ??= new Map();
    this.requests = registry[IN_PROGRESS];
    if (!this.requests.has(service)) this.requests.set(service, 0);
    this.inProgress = inProgressGauge(this.requests);
    this.eventLoop = eventLoopGauge(service);
    startMonitor();
    if (!routesOf.has(registry)) routesOf.set(registry, new Set());
    this.routes = routesOf.get(registry);
    // The registry describes the metrics, and a rate of the counters has its first value, before the first request.
    this.attempt(this.delay, () => {});
    this.attempt(SERVICE_TIME, () => {});
    this.attempt(this.inProgress, () => {});
    this.attempt(this.eventLoop, () => {});
    this.count(NEGATIVE, 0);
    this.count(NEGATIVE_SECONDS, 0);
  }

  /** Add 1 to the requests in progress at the start of a request, and -1 at its end. Never throws. */
  addInProgress(requests) {
    this.requests.set(this.service, this.requests.get(this.service) + requests);
    if (requests > 0) this.attempt(this.inProgress, () => {});
  }

  /** Record a request whose headers have left, or that has ended without any. Never throws. */
  record(exchange) {
    const { delayMicros, route, serviceTime, settings, status } = exchange;
    const labels = {
      service: this.service,
      route: this.routeLabel(route),
      status_class: status === null || status > 599 ? '' : `${Math.floor(status / 100)}xx`,
    };
    if (delayMicros !== null) {
      const delay = (delayMicros - settings.clockOffsetMicros) / 1e6;
      // The sum of a histogram must not decrease: the counters have what the clocks disagree by.
      this.observe(this.delay, labels, Math.max(delay, 0));
      if (delay < 0) {
        this.count(NEGATIVE, 1);
        this.count(NEGATIVE_SECONDS, -delay);
      }
    }
    if (serviceTime !== null) this.observe(SERVICE_TIME, labels, serviceTime);
    this.attempt(this.eventLoop, () => {});
  }

  /** Return the value of the label: a client can cause many routes, and may not cause many time series. */
  routeLabel(route) {
    if (route === null) return '';
    if (!this.routes.has(route)) {
      if (this.routes.size >= MOST_ROUTES) return OTHER;
      this.routes.add(route);
    }
    return route;
  }

  observe(definition, labels, seconds) {
    this.attempt(definition, (histogram) => histogram.observe(labels, seconds));
  }

  count(definition, value) {
    this.attempt(definition, (counter) => counter.inc({ service: this.service }, value));
  }

  /** Call a function with a metric, which the registry has already, unless it is new or the app has cleared it. */
  attempt({ kind, ...configuration }, use) {
    const { client, registry } = this;
    try {
      const metric =
        registry.getSingleMetric(configuration.name) ?? new client[kind]({ ...configuration, registers: [registry] });
      use(metric);
    } catch (error) {
      warnOnce(`the metric ${configuration.name} is not recorded`, error);
    }
  }
}

module.exports = { prometheusOf };
