<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

use PHPUnit\Framework\TestCase;
use Sojourn\Middleware\Measurement;
use Sojourn\Middleware\Options;
use Sojourn\Middleware\Stamp;

final class MeasurementTest extends TestCase
{
    private const NOW_US = 1_767_225_600_000_000;

    public static function cases(): \Generator
    {
        return Vectors::cases('answer_headers');
    }

    /**
     * @dataProvider cases
     *
     * @param array<string, mixed> $case
     */
    public function testAnswersTable(array $case): void
    {
        $table = Vectors::table('answer_headers');
        $nowUs = \intdiv($table['now_ns'], 1000);
        $options = new Options(alwaysAnswer: $case['always_answer'] ?? false);
        $stamp = Stamp::read($case['stamp'] ?? '', '', $nowUs, 3_600_000_000, 10_000_000);
        $measurement = new Measurement($options, $stamp, $table['worker'], $nowUs, 5);
        $measurement->route($case['route'] ?? '');
        $measurement->headersLeft(5 + $case['service_ns']);

        $headers = \array_filter($measurement->headers(), static fn (?string $value): bool => $value !== null);
        self::assertSame($case['headers'], $headers);
        self::assertSame($case['server_timing'], $measurement->serverTiming());
    }

    public function testUnknownDelayRemovesHeaderOfApp(): void
    {
        $measurement = Measurement::begin(new Options(), 'junk', '', self::NOW_US, 0);
        self::assertArrayHasKey(Measurement::QUEUEING_DELAY, $measurement->headers());
        self::assertNull($measurement->headers()[Measurement::QUEUEING_DELAY]);
    }

    public function testClockOffsetCorrectsDelayAndNotHeader(): void
    {
        $measurement = Measurement::begin(new Options(clockOffset: 0.25), '1767225599', '', self::NOW_US, 0);
        self::assertSame(1.0, $measurement->queueingDelay());
        self::assertSame(0.75, $measurement->correctedDelay());
        self::assertSame('1.000000', $measurement->headers()[Measurement::QUEUEING_DELAY]);
    }

    public function testWorkerIsProcessAndThread(): void
    {
        $process = (string) \getmypid();
        self::assertSame($process, Measurement::workerName(false));
        if (!\is_link('/proc/thread-self')) {
            self::markTestSkipped('/proc/thread-self is missing: no thread can be named');
        }
        // The first thread has the ID of its process.
        self::assertSame("{$process}.{$process}", Measurement::workerName(true));
    }
}
