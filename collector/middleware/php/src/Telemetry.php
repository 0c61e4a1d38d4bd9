<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

use OpenTelemetry\API\Globals;
use OpenTelemetry\API\Metrics\HistogramInterface;
use OpenTelemetry\API\Metrics\MeterProviderInterface;
use OpenTelemetry\API\Metrics\Noop\NoopMeterProvider;
use OpenTelemetry\API\Trace\LocalRootSpan;
use OpenTelemetry\API\Trace\NoopTracerProvider;
use OpenTelemetry\API\Trace\Propagation\TraceContextPropagator;
use OpenTelemetry\API\Trace\Span;
use OpenTelemetry\API\Trace\SpanInterface;
use OpenTelemetry\API\Trace\SpanKind;
use OpenTelemetry\API\Trace\StatusCode;
use OpenTelemetry\Context\Context;
use OpenTelemetry\Context\ContextInterface;
use OpenTelemetry\Context\ScopeInterface;

/**
 * The SERVER span of one request and its value in the histogram `queueing.delay`.
 *
 * Loaded only in an app that has loaded OpenTelemetry's API. Methods throw what the API throws; callers log it.
 *
 * @internal
 */
final class Telemetry
{
    private const SCOPE = 'sojourn/middleware';

    /** The event whose timestamp is the proxy's stamp. */
    private const STAMP_EVENT = 'http.proxy.request.started';

    private const HISTOGRAM = 'queueing.delay';

    /**
     * Seconds. The boundaries of `http.server.request.duration`, finer below 5 ms, for healthy queues, and wider above
     * 10 s, for overloaded ones.
     */
    private const BUCKETS = [
        0.0005, 0.001, 0.0025,
        0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
        15.0, 30.0, 60.0, 120.0,
    ];

    private const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'];

    private static ?MeterProviderInterface $meters = null;

    private static ?HistogramInterface $histogram = null;

    private ?ScopeInterface $scope = null;

    /** @param bool $own whether the span was started here, and so ends here */
    private function __construct(
        private readonly Measurement $measurement,
        private readonly RequestInfo $request,
        private readonly SpanInterface $span,
        private readonly ContextInterface $context,
        private readonly bool $own,
    ) {
    }

    /**
     * Return the SERVER span that is active, with the attributes that are known; null if there is none.
     *
     * Such a span comes from automatic instrumentation or from the app itself.
     */
    public static function adopt(Measurement $measurement, RequestInfo $request): ?self
    {
        $context = Context::getCurrent();
        $span = Span::fromContext($context);
        if (\class_exists(LocalRootSpan::class)) {
            $root = LocalRootSpan::fromContext($context);
            $span = $root->getContext()->isValid() ? $root : $span;
        }
        if (!$span->getContext()->isValid() || $span->getContext()->isRemote()) {
            return null;
        }
        // The API has no kind; the spans of its SDK do.
        if (\method_exists($span, 'getKind') && $span->getKind() !== SpanKind::KIND_SERVER) {
            return null;
        }
        $telemetry = new self($measurement, $request, $span, $context, false);
        $telemetry->addStamp();
        $telemetry->describe();

        return $telemetry;
    }

    /** Start a span at the start of the app; null if the app has set no provider. */
    public static function start(
        Measurement $measurement,
        RequestInfo $request,
        ?ContextInterface $outer = null,
    ): ?self {
        $tracers = Globals::tracerProvider();
        if ($tracers instanceof NoopTracerProvider && Globals::meterProvider() instanceof NoopMeterProvider) {
            return null;
        }
        $parent = self::parent($request, $outer ?? Context::getRoot());
        $span = $tracers->getTracer(self::SCOPE)
            ->spanBuilder(self::spanName($request->method, null))
            ->setParent($parent)
            ->setSpanKind(SpanKind::KIND_SERVER)
            ->setStartTimestamp($measurement->wallUs * 1000)
            ->setAttributes(self::firstAttributes($request))
            ->startSpan();
        $telemetry = new self($measurement, $request, $span, $span->storeInContext($parent), true);
        $telemetry->addStamp();

        return $telemetry;
    }

    /** Make the span current: the app's own spans become its children. */
    public function activate(): void
    {
        $this->scope = $this->context->activate();
    }

    /** Make the previous span current again. */
    public function deactivate(): void
    {
        $this->scope?->detach();
        $this->scope = null;
    }

    /** Set the measurements that are known by now; nothing if the span has ended. */
    public function describe(): void
    {
        if (!$this->span->isRecording()) {
            return;
        }
        $measurement = $this->measurement;
        $requestId = $this->request->header('x-request-id');
        $this->span->setAttributes(self::known([
            'queueing.status' => $measurement->stamp->status(),
            'queueing.clock_offset' => $measurement->options->clockOffset,
            'queueing.worker' => $measurement->worker,
            'queueing.delay' => $measurement->correctedDelay(),
            'queueing.delay.raw' => $measurement->queueingDelay(),
            'queueing.service_time' => $measurement->serviceTime(),
            'http.route' => $measurement->routeTemplate(),
            'http.request.header.x-request-id' => $requestId === null || $requestId === '' ? null : [$requestId],
        ]));
    }

    /**
     * End the request: set the measurements, end the span if it was started here, and record the delay.
     *
     * @param int|null               $status response status; null if there was no response
     * @param \Throwable|string|null $error  exception, or the message of the fatal error that ended the script
     */
    public function end(?int $status, \Throwable|string|null $error): void
    {
        $this->describe();
        if ($this->own) {
            $this->endSpan($status, $error);
        }
        $this->recordDelay($status);
    }

    private function endSpan(?int $status, \Throwable|string|null $error): void
    {
        [$type, $message] = self::describeError($status, $error);
        $span = $this->span;
        $span->updateName(self::spanName($this->request->method, $this->measurement->routeTemplate()));
        $span->setAttributes(self::known(['http.response.status_code' => $status, 'error.type' => $type]));
        if ($error instanceof \Throwable) {
            $span->recordException($error);
        } elseif ($error !== null) {
            $span->addEvent('exception', ['exception.type' => $type, 'exception.message' => $message]);
        }
        if ($type !== null) {
            $span->setStatus(StatusCode::STATUS_ERROR, $message);
        }
        // The end by the monotonic clock, so that a step of the wall clock does not change the duration.
        $span->end($this->measurement->wallUs * 1000 + \hrtime(true) - $this->measurement->monotonicNs);
    }

    private function recordDelay(?int $status): void
    {
        $delay = $this->measurement->correctedDelay();
        // A negative delay is a difference of two clocks: a histogram has no bucket for it.
        if ($delay === null || $delay < 0) {
            return;
        }
        self::histogram()->record($delay, self::known([
            'http.request.method' => self::knownMethod($this->request->method),
            'http.route' => $this->measurement->routeTemplate(),
            'http.response.status_code' => $status,
        ]), $this->context);
    }

    private function addStamp(): void
    {
        $stamp = $this->measurement->stamp->microseconds;
        if ($stamp !== null && $this->span->isRecording()) {
            $this->span->addEvent(self::STAMP_EVENT, [], $stamp * 1000);
        }
    }

    /** Return the context of the caller: from `traceparent`, or what the propagators of the app read. */
    private static function parent(RequestInfo $request, ContextInterface $outer): ContextInterface
    {
        $propagator = Globals::propagator();
        if ($propagator->fields() === [] && \getenv('OTEL_PROPAGATORS') !== 'none') {
            // An app that sets only a tracer provider leaves a propagator that reads nothing.
            $propagator = TraceContextPropagator::getInstance();
        }
        $carrier = [];
        foreach ($propagator->fields() as $field) {
            $value = $request->header(\strtolower($field));
            if ($value !== null) {
                $carrier[$field] = $value;
            }
        }

        return $propagator->extract($carrier, null, $outer);
    }

    /** @return array<string, mixed> the attributes that a sampler can use */
    private static function firstAttributes(RequestInfo $request): array
    {
        [$address, $port] = $request->serverAddress();
        $method = self::knownMethod($request->method);

        return self::known([
            'http.request.method' => $method,
            'http.request.method_original' => $method === '_OTHER' ? $request->method : null,
            'url.path' => $request->path,
            'url.scheme' => $request->scheme,
            'network.protocol.version' => $request->protocolVersion === '' ? null : $request->protocolVersion,
            'server.address' => $address === '' ? null : $address,
            'server.port' => $port,
        ]);
    }

    /** @return array{string|null, string|null} value of `error.type`, and a description; null without an error */
    private static function describeError(?int $status, \Throwable|string|null $error): array
    {
        if ($error instanceof \Throwable) {
            return [$error::class, $error::class . ': ' . $error->getMessage()];
        }
        if ($error !== null) {
            $line = \explode("\n", $error, 2)[0];
            if (\preg_match('/^Uncaught ([\w\\\\]+)(?:: (.*))? in .+:\d+$/', $line, $match) === 1) {
                return [$match[1], $match[1] . ': ' . ($match[2] ?? '')];
            }

            return ['fatal_error', $line];
        }

        return [$status !== null && $status >= 500 ? (string) $status : null, null];
    }

    private static function histogram(): HistogramInterface
    {
        $meters = Globals::meterProvider();
        if (self::$histogram === null || self::$meters !== $meters) {
            self::$meters = $meters;
            self::$histogram = $meters->getMeter(self::SCOPE)->createHistogram(
                self::HISTOGRAM,
                's',
                "Time from the proxy's stamp to the start of the app",
                ['ExplicitBucketBoundaries' => self::BUCKETS],
            );
        }

        return self::$histogram;
    }

    /** Return `GET /users/{id}`; the method alone if the route is unknown, never the raw path. */
    private static function spanName(string $method, ?string $route): string
    {
        $name = self::knownMethod($method) === '_OTHER' ? 'HTTP' : $method;

        return $route === null ? $name : "{$name} {$route}";
    }

    /** A client can send any method, and no value may create a time series. */
    private static function knownMethod(string $method): string
    {
        return \in_array($method, self::METHODS, true) ? $method : '_OTHER';
    }

    /**
     * @param array<string, mixed> $attributes
     *
     * @return array<string, mixed> without unknown values
     */
    private static function known(array $attributes): array
    {
        return \array_filter($attributes, static fn (mixed $value): bool => $value !== null);
    }
}
