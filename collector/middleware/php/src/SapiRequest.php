<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/**
 * The measurement of a request of PHP-FPM or mod_php, where one execution of PHP serves one request.
 *
 * Headers are added when PHP sends the app's headers. No method throws: a failure is a warning in the log.
 *
 * @internal started by auto_prepend.php
 */
final class SapiRequest
{
    private static ?self $current = null;

    private ?string $serverTiming = null;

    /** @param array<string, mixed> $server $_SERVER before the app can change it */
    private function __construct(
        private readonly Measurement $measurement,
        private readonly array $server,
    ) {
    }

    /** @param array<string, mixed> $server */
    public static function start(array $server, int $wallUs, int $monotonicNs): void
    {
        if (self::$current !== null) {
            return;
        }
        try {
            $measurement = Measurement::begin(
                Options::fromEnvironment(),
                (string) ($server['HTTP_X_REQUEST_START'] ?? ''),
                (string) ($server['HTTP_X_QUEUE_START'] ?? ''),
                $wallUs,
                $monotonicNs,
            );
            self::$current = new self($measurement, $server);
            CurrentRequest::replace($measurement);
            \header_register_callback(self::$current->headersLeave(...));
            \register_shutdown_function(self::$current->scriptEnds(...));
        } catch (\Throwable $error) {
            Measurement::warn('a request is served unmeasured', $error);
        }
    }

    /** Return the request that auto_prepend.php measures; null if there is none. */
    public static function current(): ?self
    {
        return self::$current;
    }

    /** Use the SERVER span that is active now, if any, instead of a new one at the end. */
    public function adoptSpan(): void
    {
        $measurement = $this->measurement;
        if ($measurement->telemetry !== null || $measurement->ignored || !self::usesOpenTelemetry($measurement)) {
            return;
        }
        try {
            $measurement->telemetry = Telemetry::adopt($measurement, RequestInfo::fromServer($this->server));
        } catch (\Throwable $error) {
            Measurement::warn('a span has no measurements', $error);
        }
    }

    /** PHP calls this before it sends the headers, unless the app has registered another callback. */
    private function headersLeave(): void
    {
        if ($this->measurement->ignored) {
            return;
        }
        try {
            $this->setHeaders();
            $this->adoptSpan();
            $this->measurement->telemetry?->describe();
        } catch (\Throwable $error) {
            Measurement::warn('a response has no measurements', $error);
        }
    }

    private function setHeaders(): void
    {
        $measurement = $this->measurement;
        $measurement->headersLeft(\hrtime(true));
        foreach ($measurement->headers() as $name => $value) {
            if ($value === null) {
                \header_remove($name);
            } else {
                \header("{$name}: {$value}");
            }
        }
        if ($measurement->options->serverTiming) {
            $this->setServerTiming($measurement->serverTiming());
        }
    }

    /** Add the value to the app's own; a value that was added before is replaced. */
    private function setServerTiming(string $value): void
    {
        if ($this->serverTiming !== null) {
            $others = self::sentHeaders(Measurement::SERVER_TIMING);
            \header_remove(Measurement::SERVER_TIMING);
            foreach ($others as $other) {
                if ($other !== $this->serverTiming) {
                    \header(Measurement::SERVER_TIMING . ": {$other}", false);
                }
            }
        }
        \header(Measurement::SERVER_TIMING . ": {$value}", false);
        $this->serverTiming = $value;
    }

    /**
     * PHP calls this first of the shutdown functions. It puts the rest behind the app's own ones, which may still
     * render an error page, and before those of OpenTelemetry's SDK, which does the same and is registered later.
     */
    private function scriptEnds(): void
    {
        \register_shutdown_function($this->requestEnds(...));
    }

    private function requestEnds(): void
    {
        if ($this->measurement->ignored) {
            return;
        }
        try {
            if (!\headers_sent()) {
                // The callback of the app, if there is one, has replaced this one; otherwise it still corrects the
                // service time when the output buffers are flushed.
                $this->setHeaders();
            }
            $this->recordSpan();
        } catch (\Throwable $error) {
            Measurement::warn('a span is not recorded', $error);
        }
    }

    private function recordSpan(): void
    {
        $measurement = $this->measurement;
        if (!self::usesOpenTelemetry($measurement)) {
            return;
        }
        $measurement->routeOfHeader(self::sentHeaders(Measurement::ROUTE)[0] ?? '');
        $request = RequestInfo::fromServer($this->server);
        $measurement->telemetry ??= Telemetry::adopt($measurement, $request)
            ?? Telemetry::start($measurement, $request);
        $status = \http_response_code();
        $measurement->telemetry?->end(\is_int($status) ? $status : null, self::fatalError());
    }

    /** Return whether a span can be recorded; its classes are then loaded. */
    private static function usesOpenTelemetry(Measurement $measurement): bool
    {
        if (!$measurement->usesOpenTelemetry()) {
            return false;
        }
        // Without Composer's autoloader; with it, these may already be loaded from another folder.
        \class_exists(RequestInfo::class, false) || require __DIR__ . '/RequestInfo.php';
        \class_exists(Telemetry::class, false) || require __DIR__ . '/Telemetry.php';

        return true;
    }

    /** Return the class or the message of the error that ended the script; null if none did. */
    private static function fatalError(): ?string
    {
        $error = \error_get_last();
        $fatal = \E_ERROR | \E_PARSE | \E_CORE_ERROR | \E_COMPILE_ERROR | \E_USER_ERROR | \E_RECOVERABLE_ERROR;

        return $error !== null && ($error['type'] & $fatal) !== 0 ? $error['message'] : null;
    }

    /** @return list<string> the values of a response header */
    private static function sentHeaders(string $name): array
    {
        $values = [];
        foreach (\headers_list() as $line) {
            [$other, $value] = \explode(':', $line, 2) + [1 => ''];
            if (\strcasecmp($other, $name) === 0) {
                $values[] = \trim($value);
            }
        }

        return $values;
    }
}
