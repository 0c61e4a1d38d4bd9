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
        $values = ["1767225599\n", "\x001767225599", "1767225599\x00", "\xff\xfe1767225599", "1767225599\u{a0}"];
        foreach ($values as $value) {
            self::assertSame(Stamp::NOT_A_NUMBER, Stamp::parse($value), \bin2hex($value));
        }
        self::assertSame(Stamp::UNIT, Stamp::parse(\str_repeat('1', 1 << 20)));
        self::assertSame(Stamp::MISSING, Stamp::parse(\str_repeat(' ', 1 << 20)));
    }

    public function testAgreesWithRegularExpressionOnRandomText(): void
    {
        $valid = '/^(?:t=)?([1-9]\d{9}(?:\.\d{1,9})?|[1-9]\d{12}(?:\.\d{1,6})?|[1-9]\d{15}(?:\d{3})?)$/D';
        $pieces = ['t=', '.', ',', ' ', '0', '17', '1767225599', '877', '123456', "\xff", '-', 'e9'];
        \mt_srand(1);
        $accepted = 0;
        for ($text = 0; $text < 20_000; $text++) {
            $value = '';
            for ($count = \mt_rand(0, 5); $count > 0; $count--) {
                $value .= $pieces[\mt_rand(0, \count($pieces) - 1)];
            }
            $expected = null;
            if (\preg_match($valid, \trim($value, ' '), $match) === 1) {
                $digits = \str_replace('.', '', $match[1]);
                $expected = (int) \substr(\str_pad($digits, 16, '0'), 0, 16);
                $accepted++;
            }
            $stamp = Stamp::parse($value);
            self::assertSame($expected, \is_int($stamp) ? $stamp : null, \bin2hex($value));
        }
        self::assertGreaterThan(100, $accepted);
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
