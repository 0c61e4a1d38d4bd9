<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/**
 * The measurements of one request, and the response headers that carry them.
 *
 * Queueing delay is the time from the stamp to the start of the app, by the wall clocks of two machines. Service time
 * is the time from the start of the app to the response headers, by the monotonic clock.
 */
final class Measurement
{
    public const QUEUEING_DELAY = 'X-Queueing-Delay';
    public const SERVICE_TIME = 'X-Service-Time';
    public const WORKER = 'X-Worker';
    public const ROUTE = 'X-Route';
    public const SERVER_TIMING = 'Server-Timing';

    /** The span of the request, once there is one. */
    public ?Telemetry $telemetry = null;

    /** Whether the app refused the measurement of this request. */
    public bool $ignored = false;

    private ?string $route = null;

    private ?string $routeOfHeader = null;

    private ?int $serviceNs = null;

    /**
     * @param Options $options     of this request
     * @param Stamp   $stamp       of this request
     * @param string  $worker      the process that serves the request, or process and thread
     * @param int     $wallUs      start of the app, microseconds since the Unix epoch
     * @param int     $monotonicNs start of the app, nanoseconds of {@see hrtime()}
     */
    public function __construct(
        public readonly Options $options,
        public readonly Stamp $stamp,
        public readonly string $worker,
        public readonly int $wallUs,
        public readonly int $monotonicNs,
    ) {
    }

    /**
     * Start to measure a request whose app starts at the time of the two clocks.
     *
     * @param string $requestStart value of `X-Request-Start`, '' if missing
     * @param string $queueStart   value of `X-Queue-Start`, '' if missing
     */
    public static function begin(
        Options $options,
        string $requestStart,
        string $queueStart,
        int $wallUs,
        int $monotonicNs,
    ): self {
        $stamp = Stamp::read($requestStart, $queueStart, $wallUs, $options->maxAgeUs, $options->maxFutureUs);

        return new self($options, $stamp, self::workerName(\PHP_ZTS === 1), $wallUs, $monotonicNs);
    }

    /**
     * Return the name of what serves one request at a time: `1234`, or `1234.1240` with threads.
     *
     * PHP does not number its threads, so the second part is the kernel's thread ID (Linux); without /proc it is
     * omitted.
     */
    public static function workerName(bool $threads): string
    {
        $process = (string) \getmypid();
        $path = $threads ? @\readlink('/proc/thread-self') : false;
        if (!\is_string($path)) {
            return $process;
        }

        return $process . '.' . \substr($path, (int) \strrpos($path, '/') + 1);
    }

    /** Set the route's template, such as `/users/{id}`. An empty template is ignored. */
    public function route(string $template): void
    {
        if ($template !== '') {
            $this->route = $template;
        }
    }

    /** Set the value of the app's own `X-Route`: the header remains as it is, and the span has the same route. */
    public function routeOfHeader(string $value): void
    {
        $this->routeOfHeader = $value === '' ? null : $value;
    }

    /** Return the route's template, or else the app's own `X-Route`; null if unknown. */
    public function routeTemplate(): ?string
    {
        return $this->route ?? $this->routeOfHeader;
    }

    /** Set the end of the service time: the response headers leave now, in nanoseconds of {@see hrtime()}. */
    public function headersLeft(int $monotonicNs): void
    {
        $this->serviceNs = $monotonicNs - $this->monotonicNs;
    }

    /** Return the queueing delay in seconds, negative if the clocks disagree; null without a valid stamp. */
    public function queueingDelay(): ?float
    {
        return $this->stamp->microseconds === null ? null : ($this->wallUs - $this->stamp->microseconds) / 1e6;
    }

    /** Return the queueing delay less the clock offset, in seconds; null without a valid stamp. */
    public function correctedDelay(): ?float
    {
        $delay = $this->queueingDelay();

        return $delay === null ? null : $delay - $this->options->clockOffset;
    }

    /** Return the service time in seconds; null until the response headers leave. */
    public function serviceTime(): ?float
    {
        return $this->serviceNs === null ? null : $this->serviceNs / 1e9;
    }

    /**
     * Return the response headers by name; null for one that must be absent even if the app has set it.
     *
     * None for a request without a stamp, unless the option alwaysAnswer is set: no proxy removes them before the client.
     *
     * A route is only included if it is known, so that the app's own `X-Route` remains otherwise.
     *
     * @return array<string, string|null>
     */
    public function headers(): array
    {
        if ($this->stamp->reason === Stamp::MISSING && !$this->options->alwaysAnswer) {
            return [];
        }
        $delay = $this->queueingDelay();
        $headers = [
            self::QUEUEING_DELAY => $delay === null ? null : \sprintf('%.6F', $delay),
            self::SERVICE_TIME => $this->serviceNs === null ? null : \sprintf('%.6F', $this->serviceNs / 1e9),
            self::WORKER => $this->worker,
        ];
        if ($this->route !== null) {
            $headers[self::ROUTE] = self::printable($this->route);
        }

        return $headers;
    }

    /** Return the value of Server-Timing, in milliseconds; '' if nothing is known. A negative delay is omitted. */
    public function serverTiming(): string
    {
        $metrics = [];
        $delay = $this->queueingDelay();
        if ($delay !== null && $delay >= 0) {
            $metrics[] = \sprintf('queue;dur=%.3F', 1e3 * $delay);
        }
        if ($this->serviceNs !== null) {
            $metrics[] = \sprintf('app;dur=%.3F', $this->serviceNs / 1e6);
        }

        return \implode(', ', $metrics);
    }

    /**
     * Return whether telemetry is enabled and the app has loaded OpenTelemetry.
     *
     * A provider is set through one of these two classes, so without them there is none. The autoloader does not
     * search them: in an app without OpenTelemetry, each request would pay for the search.
     */
    public function usesOpenTelemetry(): bool
    {
        return $this->options->telemetry
            && (\class_exists('OpenTelemetry\Context\Context', false)
                || \class_exists('OpenTelemetry\API\Globals', false))
            && \class_exists('OpenTelemetry\API\Globals');
    }

    /** Log one warning of this package. */
    public static function warn(string $message, ?\Throwable $error = null): void
    {
        $cause = $error === null ? '' : ': ' . $error::class . ': ' . $error->getMessage();
        // A value from outside must not begin a new line in the log.
        \error_log('sojourn: ' . \preg_replace('/[\x00-\x1f\x7f]+/', ' ', $message . $cause));
    }

    /** A control character or a letter outside ASCII would break the header. */
    private static function printable(string $route): string
    {
        return (string) \preg_replace_callback(
            '/[^\x20-\x7e]/',
            static fn (array $match): string => \sprintf('%%%02X', \ord($match[0])),
            $route,
        );
    }
}
