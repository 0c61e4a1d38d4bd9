<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

use PHPUnit\Framework\TestCase;
use Sojourn\Middleware\Stamp;

final class StampTest extends TestCase
{
    public static function cases(): \Generator
    {
        return Vectors::cases('request_start');
    }

    /**
     * @dataProvider cases
     *
     * @param array<string, mixed> $case
     */
    public function testReadsTable(array $case): void
    {
        $stamp = Stamp::read(
            Vectors::joined($case['headers'], 'X-Request-Start'),
            Vectors::joined($case['headers'], 'X-Queue-Start'),
            Vectors::table('request_start')['now_us'],
            (int) \round(1e6 * ($case['max_age'] ?? 3600.0)),
            (int) \round(1e6 * ($case['max_future'] ?? 10.0)),
        );

        self::assertSame($case['start_us'] ?? null, $stamp->microseconds);
        self::assertSame($case['reason'] ?? null, $stamp->reason);
    }

    public function testRefusesHostileBytes(): void
    {
        foreach (["1767225599\n", "\x001767225599", "1767225599\x00", "\xff\xfe1767225599", "1767225599\u{a0}"] as $value) {
            self::assertSame(Stamp::NOT_A_NUMBER, Stamp::parse($value), \bin2hex($value));
        }
        self::assertSame(Stamp::UNIT, Stamp::parse(\str_repeat('1', 1 << 20)));
        self::assertSame(Stamp::MISSING, Stamp::parse(\str_repeat(' ', 1 << 20)));
    }

    public function testNamesStatus(): void
    {
        $now = 1_767_225_600_000_000;
        $status = static fn (string $value): string => Stamp::read($value, '', $now, 1, 1)->status();

        self::assertSame('ok', $status('1767225600'));
        self::assertSame('missing', $status(''));
        self::assertSame('unparsable', $status('1,2'));
        self::assertSame('unparsable', $status('now'));
        self::assertSame('unparsable', $status('12'));
        self::assertSame('future', $status('1767225601'));
        self::assertSame('stale', $status('1767225599'));
    }
}
