/// <reference types="node" />

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';

/** A request of `http`, `https`, or the compatibility API of `http2`. */
export type Request = IncomingMessage | Http2ServerRequest;

/** A response of `http`, `https`, or the compatibility API of `http2`. */
export type Response = ServerResponse | Http2ServerResponse;

/** A provider of OpenTelemetry: `TracerProvider` of its API. */
export interface TracerProvider {
  getTracer(name: string, version?: string): object;
}

/** A provider of OpenTelemetry: `MeterProvider` of its API. */
export interface MeterProvider {
  getMeter(name: string, version?: string): object;
}

/** Where spans and the histogram are sent. Exactly these providers are used instead of the global ones. */
export interface TelemetryProviders {
  tracerProvider?: TracerProvider;
  meterProvider?: MeterProvider;
}

/** A registry of prom-client. */
export interface PrometheusRegistry {
  getSingleMetric(name: string): any;
  registerMetric(metric: any): void;
}

/** prom-client, as `require('prom-client')` returns it; its default registry is used. */
export interface PrometheusClient {
  register: PrometheusRegistry;
  Histogram: new (configuration: any) => any;
  Counter: new (configuration: any) => any;
  Gauge: new (configuration: any) => any;
}

/** Two clocks, in microseconds. For tests. */
export interface Clock {
  /** Return the wall clock: whole microseconds since the Unix epoch. */
  wallMicros(): number;
  /** Return microseconds since an arbitrary instant. */
  monotonicMicros(): number;
}

/** Options of every middleware. `R` is what the framework passes to its handlers. */
export interface Options<R = any> {
  /** Seconds; an older stamp is refused as `stale`. Default: 3600. */
  maxAge?: number;
  /** Seconds; a stamp further ahead of this machine's clock is refused as `future`. Default: 10. */
  maxFuture?: number;
  /**
   * Seconds by which this machine's clock is ahead of the proxy's. Corrects the span and the histogram, never the
   * header. Default: 0.
   */
  clockOffset?: number;
  /**
   * Return the route's template, or undefined to use the framework's. Called when the response headers leave, with what
   * the framework passes to its handlers: the request, or the context of Koa.
   */
  route?: (request: R) => string | null | undefined;
  /** Whether responses have a `Server-Timing` header, which browsers show. Default: false. */
  serverTiming?: boolean;
  /** Whether the answer to a request without a stamp has the measurements, too. Default: false. */
  alwaysAnswer?: boolean;
  /** `false` for headers only; `true`, the default, for OpenTelemetry's global providers, if the app has set any. */
  telemetry?: boolean | TelemetryProviders;
  /**
   * Where histograms of queueing delay and service time, and the delay of the event loop, go, for Prometheus: prom-client,
   * one of its registries, or `true` for its default registry. Without prom-client there is one process warning. Default: false.
   */
  prometheus?: boolean | PrometheusRegistry | PrometheusClient;
  /** Value of the label `service` in these metrics. Default: the environment's `OTEL_SERVICE_NAME`, or empty. */
  service?: string;
  /** Name of the queueing delay's histogram. Default: `sojourn_queueing_delay_seconds`. */
  prometheusName?: string;
  /** For tests. */
  clock?: Clock;
}

/** The measurements of one request. */
export interface Exchange {
  /** Seconds from the stamp to the start of the app, by the wall clock; null without a valid stamp. */
  readonly queueingDelay: number | null;
  /** Seconds from the start of the app to the response headers; null while they have not left. */
  readonly serviceTime: number | null;
  /** What serves the request: the process, `1234`, or process and thread, `1234.2`. */
  readonly worker: string;
  /** The route's template, known when the headers have left; null if unknown. */
  readonly route: string | null;
  /** Whether the stamp was valid, and if not, why. */
  readonly stampStatus: 'ok' | 'missing' | 'unparsable' | 'future' | 'stale';
  /** Call a function with the request's span as the active one, and return its result. Without a span, only call it. */
  run<T>(callback: () => T): T;
}

/**
 * Measure one request: call it first, once per request. The headers are added when the response headers leave.
 *
 * Never throws. Returns the exchange of the outer middleware if the request is measured already, and null, with one
 * process warning, if it cannot be measured.
 */
export function measure(req: Request, res: Response, options?: Options<Request>): Exchange | null;

/**
 * Return a request handler for `createServer` that measures each request of another handler.
 *
 * @throws {TypeError | RangeError} for an invalid option
 */
export function wrap<H extends (req: any, res: any, ...others: any[]) => any>(
  handler: H,
  options?: Options<Parameters<H>[0]>,
): H;

/**
 * Return a middleware for Express and Connect: `app.use(express())`, before all others.
 *
 * @throws {TypeError | RangeError} for an invalid option
 */
export function express(options?: Options): (req: any, res: any, next: (error?: any) => void) => void;

/** Plugin for Fastify 4.10 and later: `app.register(fastify, options)`, before all others. An invalid option throws. */
export function fastify(instance: any, options: Options, done: (error?: Error) => void): void;

/**
 * Return a middleware for Koa: `app.use(koa())`, before all others.
 *
 * @throws {TypeError | RangeError} for an invalid option
 */
export function koa(options?: Options): (ctx: any, next: () => Promise<any>) => Promise<any>;

/** Delays of the event loop, in seconds: how much later than due a timer of 20 ms ran. */
export interface EventLoopDelay {
  p50: number;
  p99: number;
  max: number;
  mean: number;
}

/** The event loop of this thread in the last 30 to 60 s. */
export interface EventLoop {
  delay: EventLoopDelay;
  /** Share of the time in which the event loop was not idle, from 0 to 1. */
  utilisation: number;
  /** Length of the window in seconds. The first minute after the first call has a shorter one. */
  window: number;
}

/** Return the delays and the utilisation of the event loop. The first call starts the measurement. */
export function eventLoop(): EventLoop;

/** The state of this process or worker thread, as `statsHandler` sends it. */
export interface Stats {
  /** Version of this format. */
  sojourn: 1;
  kind: 'node';
  pid: number;
  /** As in `X-Worker`. */
  worker: string;
  /** Measured requests with a response that has not ended, without WebSockets and server-sent events. */
  requests_in_progress: number;
  /** Measured requests since the start of the process. */
  requests: number;
  /** Seconds, in the last 30 to 60 s. */
  event_loop_delay: EventLoopDelay;
  /** From 0 to 1, in the last 30 to 60 s. */
  event_loop_utilisation: number;
  /** Seconds since the start of the process. */
  uptime: number;
}

/** Return the state of this process or worker thread. The first call starts the measurement of the event loop. */
export function stats(): Stats;

/** Return a request handler that answers GET and HEAD with `stats()` as JSON. Starts to measure the event loop. */
export function statsHandler(): (req: any, res: any) => void;
