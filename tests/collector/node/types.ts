// Compiled, not run: the types for the frameworks and for invalid options.

import express from 'express';
import * as http from 'node:http';
import * as http2 from 'node:http2';
import { trace, metrics } from '@opentelemetry/api';
import Fastify, { type FastifyRequest } from 'fastify5';
import Koa from 'koa';
import client from 'prom-client';
import * as sojourn from 'sojourn-middleware';
import {
  eventLoop,
  koa,
  measure,
  stats,
  statsHandler,
  wrap,
  type Exchange,
  type Options,
  type Stats,
} from 'sojourn-middleware';

const options: Options<http.IncomingMessage> = {
  maxAge: 60,
  maxFuture: 1,
  clockOffset: -0.5,
  route: (request) => request.url,
  serverTiming: true,
  telemetry: { tracerProvider: trace.getTracerProvider(), meterProvider: metrics.getMeterProvider() },
};

http.createServer(wrap((req, res) => void res.end(req.url), options));
http.createServer(wrap(async (req: http.IncomingMessage, res: http.ServerResponse) => void res.end(req.url)));
http2.createServer(wrap((req: http2.Http2ServerRequest, res: http2.Http2ServerResponse) => void res.end(req.url)));
http.createServer((req, res) => {
  const exchange: Exchange | null = measure(req, res);
  const delay: number | null | undefined = exchange?.queueingDelay;
  exchange?.run(() => res.end(String(delay)));
});
http.createServer(statsHandler());

const app = express();
app.use(sojourn.express({ route: (request: express.Request) => request.route?.path }));
http.createServer(app);

const fastify = Fastify();
fastify.register(sojourn.fastify);
fastify.register(sojourn.fastify, { maxAge: 60, route: (request: FastifyRequest) => request.routeOptions.url });

wrap(() => {}, { prometheus: true, service: 'shop', prometheusName: 'http_request_queue_duration_seconds' });
wrap(() => {}, { prometheus: client });
wrap(() => {}, { prometheus: client.register });
wrap(() => {}, { prometheus: new client.Registry() });

new Koa().use(koa()).use(koa({ telemetry: false }));

const state: Stats = stats();
const seconds: number = state.event_loop_delay.p99 + eventLoop().delay.max;
const kind: 'node' = state.kind;
export { kind, seconds };

// @ts-expect-error: a number of seconds
wrap(() => {}, { maxAge: '60' });
// @ts-expect-error: there is no such option
sojourn.express({ maxage: 60 });
// @ts-expect-error: a registry
sojourn.express({ prometheus: 'yes' });
// @ts-expect-error: a request and a response
measure(1, 2);
