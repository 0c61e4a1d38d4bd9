<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/** The options of a measurement. */
final class Options
{
    /** Limits above are refused: their microseconds would not fit in an integer. */
    private const LARGEST = 1e12;

    /** µs; an older stamp is stale. */
    public readonly int $maxAgeUs;

    /** µs; a stamp further ahead of this machine's clock is refused. */
    public readonly int $maxFutureUs;

    /**
     * @param float $maxAge       s; an older stamp is refused as `stale`
     * @param float $maxFuture    s; a stamp further ahead of this clock is refused as `future`
     * @param float $clockOffset  s by which this machine's clock is ahead of the proxy's; corrects the span and the
     *                            histogram, never the header
     * @param bool  $serverTiming whether responses get a Server-Timing header
     * @param bool  $telemetry    whether a span and the histogram are recorded if the app uses OpenTelemetry
     * @param bool  $alwaysAnswer whether the answer to a request without a stamp has the measurements, too
     *
     * @throws \InvalidArgumentException if a limit is not a finite number of seconds, zero or more, or the offset is
     *                                   not finite
     */
    public function __construct(
        float $maxAge = 3600.0,
        float $maxFuture = 10.0,
        public readonly float $clockOffset = 0.0,
        public readonly bool $serverTiming = false,
        public readonly bool $telemetry = true,
        public readonly bool $alwaysAnswer = false,
    ) {
        $this->maxAgeUs = self::microseconds('maxAge', $maxAge);
        $this->maxFutureUs = self::microseconds('maxFuture', $maxFuture);
        if (!\is_finite($clockOffset)) {
            throw new \InvalidArgumentException("clockOffset must be a finite number of seconds, not {$clockOffset}");
        }
    }

    /**
     * Read the environment variables SOJOURN_MAX_AGE, SOJOURN_MAX_FUTURE, SOJOURN_CLOCK_OFFSET,
     * SOJOURN_SERVER_TIMING, SOJOURN_TELEMETRY and SOJOURN_ALWAYS_ANSWER.
     *
     * An invalid value is logged and its default used. An empty value counts as unset. A client cannot set these
     * variables: its headers become variables that begin with `HTTP_`.
     */
    public static function fromEnvironment(): self
    {
        $invalid = [];
        $options = new self(
            self::seconds('SOJOURN_MAX_AGE', 0.0, 3600.0, $invalid),
            self::seconds('SOJOURN_MAX_FUTURE', 0.0, 10.0, $invalid),
            self::seconds('SOJOURN_CLOCK_OFFSET', -self::LARGEST, 0.0, $invalid),
            self::enabled('SOJOURN_SERVER_TIMING', false, $invalid),
            self::enabled('SOJOURN_TELEMETRY', true, $invalid),
            self::enabled('SOJOURN_ALWAYS_ANSWER', false, $invalid),
        );
        if ($invalid !== [] && self::firstWarning()) {
            Measurement::warn(\implode('; ', $invalid));
        }

        return $options;
    }

    /**
     * Return whether this process has not logged invalid values in the last two minutes (realpath_cache_ttl).
     *
     * Variables end with the request; PHP's cache of paths does not. No other code resolves this path. Without the
     * cache (open_basedir) every request logs its warning.
     */
    private static function firstWarning(): bool
    {
        $path = \dirname(__DIR__) . '/LICENSE';
        if (isset(\realpath_cache_get()[$path])) {
            return false;
        }
        @\realpath($path);

        return true;
    }

    /** @param list<string> $invalid */
    private static function seconds(string $name, float $least, float $default, array &$invalid): float
    {
        $value = \getenv($name);
        if ($value === false || $value === '') {
            return $default;
        }
        if (\is_numeric($value) && (float) $value >= $least && (float) $value <= self::LARGEST) {
            return (float) $value;
        }
        $kind = $least === 0.0 ? 'number of seconds, zero or more' : 'number of seconds';
        $invalid[] = "{$name} must be a {$kind}, not \"{$value}\"; {$default} is used";

        return $default;
    }

    /** @param list<string> $invalid */
    private static function enabled(string $name, bool $default, array &$invalid): bool
    {
        $value = \getenv($name);
        if ($value === false || $value === '') {
            return $default;
        }
        $enabled = match (\strtolower($value)) {
            'on', '1', 'true', 'yes' => true,
            'off', '0', 'false', 'no' => false,
            default => null,
        };
        if ($enabled !== null) {
            return $enabled;
        }
        $invalid[] = "{$name} must be on or off, not \"{$value}\"; " . ($default ? 'on' : 'off') . ' is used';

        return $default;
    }

    private static function microseconds(string $name, float $seconds): int
    {
        if (!($seconds >= 0.0 && $seconds <= self::LARGEST)) {
            throw new \InvalidArgumentException("{$name} must be a number of seconds from 0 to 1e12, not {$seconds}");
        }

        return (int) \round($seconds * 1e6);
    }
}
