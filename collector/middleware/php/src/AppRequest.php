<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/**
 * The measurement of a request by a middleware inside the app, on a server that keeps the app in memory.
 *
 * No method throws: a failure is a warning in the log.
 *
 * @internal
 */
final class AppRequest
{
    private static ?Options $environment = null;

    private function __construct(
        public readonly Measurement $measurement,
        private readonly ?Measurement $previous,
    ) {
    }

    /**
     * Start to measure; null if auto_prepend.php measures this request already, or if that fails.
     *
     * @param Options|null            $options      default: those of the environment, which is read once per process
     * @param string                  $requestStart value of `X-Request-Start`, '' if missing
     * @param string                  $queueStart   value of `X-Queue-Start`, '' if missing
     * @param \Closure(): RequestInfo $info         called if a span is recorded
     * @param int|null                $wallUs       start of the app, µs since the Unix epoch; default: now
     * @param int|null                $monotonicNs  start of the app, nanoseconds of hrtime(); default: now
     */
    public static function begin(
        ?Options $options,
        string $requestStart,
        string $queueStart,
        \Closure $info,
        ?int $wallUs = null,
        ?int $monotonicNs = null,
    ): ?self {
        if (SapiRequest::current() !== null) {
            return null;
        }
        try {
            $options ??= self::$environment ??= Options::fromEnvironment();
            $measurement = Measurement::begin(
                $options,
                $requestStart,
                $queueStart,
                $wallUs ?? (int) \round(\microtime(true) * 1e6),
                $monotonicNs ?? \hrtime(true),
            );
        } catch (\Throwable $error) {
            Measurement::warn('a request is served unmeasured', $error);

            return null;
        }
        $request = new self($measurement, CurrentRequest::replace($measurement));
        if ($measurement->usesOpenTelemetry()) {
            $request->startSpan($info);
        }

        return $request;
    }

    /**
     * Return the response headers, as {@see Measurement::headers()}; the service time ends here.
     *
     * @return array<string, string|null>
     */
    public function headers(?int $monotonicNs = null): array
    {
        if ($this->measurement->ignored) {
            return [];
        }
        $this->measurement->headersLeft($monotonicNs ?? \hrtime(true));

        return $this->measurement->headers();
    }

    /** Return the value to add to Server-Timing; '' for none. */
    public function serverTiming(): string
    {
        $measurement = $this->measurement;

        return $measurement->options->serverTiming && !$measurement->ignored ? $measurement->serverTiming() : '';
    }

    /**
     * End the request with the response's status, or with the exception that ended it.
     *
     * @param string $route the app's own `X-Route`, used if no other route is known; '' for none
     */
    public function end(?int $status, ?\Throwable $exception = null, string $route = ''): void
    {
        CurrentRequest::replace($this->previous);
        $measurement = $this->measurement;
        try {
            $measurement->telemetry?->deactivate();
            if (!$measurement->ignored) {
                $measurement->routeOfHeader($route);
                $measurement->telemetry?->end($status, $exception);
            }
        } catch (\Throwable $error) {
            Measurement::warn('a span is not recorded', $error);
        }
    }

    /** @param \Closure(): RequestInfo $info */
    private function startSpan(\Closure $info): void
    {
        try {
            $this->measurement->telemetry = Telemetry::adopt($this->measurement, $info());
            if ($this->measurement->telemetry === null) {
                $outer = \OpenTelemetry\Context\Context::getCurrent();
                $this->measurement->telemetry = Telemetry::start($this->measurement, $info(), $outer);
                $this->measurement->telemetry?->activate();
            }
        } catch (\Throwable $error) {
            Measurement::warn('a span is not started', $error);
        }
    }
}
