<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/**
 * The instant at which the proxy built its request to the app, or the reason why there is none.
 *
 * The number of digits before the point defines the unit; the prefix `t=` has no meaning. A value that does not fit
 * exactly is refused.
 */
final class Stamp
{
    public const MISSING = 'missing';
    public const LIST = 'list';
    public const NOT_A_NUMBER = 'not_a_number';
    public const UNIT = 'unit';
    public const FUTURE = 'future';
    public const STALE = 'stale';

    /** Digits before the point => largest number of digits after it. Sixteen digits are microseconds. */
    private const FRACTIONS = [10 => 9, 13 => 6, 16 => 0, 19 => 0];

    /**
     * @param int|null    $microseconds since the Unix epoch, floored; null if the stamp is refused
     * @param string|null $reason       one of the constants; null if the stamp is valid
     */
    private function __construct(
        public readonly ?int $microseconds,
        public readonly ?string $reason,
    ) {
    }

    /**
     * Read the stamp of a request.
     *
     * `X-Queue-Start` is read only if `X-Request-Start` is missing or blank: a client can send any header that the
     * proxy does not set, so it must not replace a refused one. A stamp exactly at a limit is valid.
     *
     * @param string $requestStart value of `X-Request-Start`, repeated headers joined with a comma; '' if missing
     * @param string $queueStart   value of `X-Queue-Start`, likewise
     * @param int    $nowUs        microseconds since the Unix epoch
     * @param int    $maxAgeUs     an older stamp is stale, µs
     * @param int    $maxFutureUs  a stamp further ahead of now is refused, µs
     */
    public static function read(
        string $requestStart,
        string $queueStart,
        int $nowUs,
        int $maxAgeUs,
        int $maxFutureUs,
    ): self {
        $stamp = self::parse($requestStart);
        if ($stamp === self::MISSING) {
            $stamp = self::parse($queueStart);
        }
        if (\is_string($stamp)) {
            return new self(null, $stamp);
        }
        if ($stamp > $nowUs + $maxFutureUs) {
            return new self(null, self::FUTURE);
        }

        return $stamp < $nowUs - $maxAgeUs ? new self(null, self::STALE) : new self($stamp, null);
    }

    /**
     * Return microseconds since the Unix epoch, floored, or the reason why the value is not a stamp.
     *
     * The age is not judged.
     */
    public static function parse(string $value): int|string
    {
        $value = \trim($value, " \t");
        if ($value === '') {
            return self::MISSING;
        }
        // A proxy that appends instead of replacing joins two stamps, and either could be the client's.
        if (\str_contains($value, ',')) {
            return self::LIST;
        }
        $start = \str_starts_with($value, 't=') ? 2 : 0;
        $digits = \strspn($value, '0123456789', $start);
        $end = $start + $digits;
        $decimals = 0;
        if ($digits > 0 && ($value[$end] ?? '') === '.') {
            $decimals = \strspn($value, '0123456789', $end + 1);
            $end += $decimals > 0 ? 1 + $decimals : 0;
        }
        if ($digits === 0 || $end !== \strlen($value)) {
            return self::NOT_A_NUMBER;
        }
        if ($value[$start] === '0' || $decimals > (self::FRACTIONS[$digits] ?? -1)) {
            return self::UNIT;
        }
        $number = \substr($value, $start, $digits) . ($decimals > 0 ? \substr($value, $start + $digits + 1) : '');

        return (int) \substr(\str_pad($number, 16, '0'), 0, 16);
    }

    /** Return the span attribute `queueing.status`: ok, missing, unparsable, future or stale. */
    public function status(): string
    {
        return match ($this->reason) {
            null => 'ok',
            self::LIST, self::NOT_A_NUMBER, self::UNIT => 'unparsable',
            default => $this->reason,
        };
    }
}
