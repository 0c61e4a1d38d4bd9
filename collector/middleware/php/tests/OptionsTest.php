<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

use PHPUnit\Framework\TestCase;
use Sojourn\Middleware\Options;

final class OptionsTest extends TestCase
{
    private const NAMES = [
        'SOJOURN_MAX_AGE', 'SOJOURN_MAX_FUTURE', 'SOJOURN_CLOCK_OFFSET', 'SOJOURN_SERVER_TIMING', 'SOJOURN_TELEMETRY',
        'SOJOURN_ALWAYS_ANSWER',
    ];

    private string $log;

    private string|false $before;

    protected function setUp(): void
    {
        $this->log = (string) \tempnam(\sys_get_temp_dir(), 'sojourn');
        $this->before = \ini_set('error_log', $this->log);
        \clearstatcache(true);
    }

    protected function tearDown(): void
    {
        \array_map('putenv', self::NAMES);
        \ini_set('error_log', (string) $this->before);
        \unlink($this->log);
    }

    public function testDefaults(): void
    {
        $this->assertOptions([3_600_000_000, 10_000_000, 0.0, false, true, false], new Options());
        $this->assertOptions([3_600_000_000, 10_000_000, 0.0, false, true, false], Options::fromEnvironment());
        self::assertStringEqualsFile($this->log, '');
    }

    public function testReadsEnvironment(): void
    {
        \putenv('SOJOURN_MAX_AGE=60.5');
        \putenv('SOJOURN_MAX_FUTURE=0');
        \putenv('SOJOURN_CLOCK_OFFSET=-0.25');
        \putenv('SOJOURN_SERVER_TIMING=On');
        \putenv('SOJOURN_TELEMETRY=off');
        \putenv('SOJOURN_ALWAYS_ANSWER=on');
        $this->assertOptions([60_500_000, 0, -0.25, true, false, true], Options::fromEnvironment());
        self::assertStringEqualsFile($this->log, '');
    }

    public function testEmptyValuesCountAsUnset(): void
    {
        foreach (self::NAMES as $name) {
            \putenv("{$name}=");
        }
        $this->assertOptions([3_600_000_000, 10_000_000, 0.0, false, true, false], Options::fromEnvironment());
        self::assertStringEqualsFile($this->log, '');
    }

    public function testLogsInvalidValuesOnceAndUsesDefaults(): void
    {
        \putenv('SOJOURN_MAX_AGE=-1');
        \putenv('SOJOURN_MAX_FUTURE=1e13');
        \putenv("SOJOURN_CLOCK_OFFSET=a\nb");
        \putenv('SOJOURN_SERVER_TIMING=auto');
        \putenv('SOJOURN_TELEMETRY=perhaps');
        \putenv('SOJOURN_ALWAYS_ANSWER=sometimes');
        for ($request = 0; $request < 3; $request++) {
            $this->assertOptions([3_600_000_000, 10_000_000, 0.0, false, true, false], Options::fromEnvironment());
        }
        $lines = (array) \file($this->log);
        self::assertCount(1, $lines);
        foreach (self::NAMES as $name) {
            self::assertStringContainsString("{$name} must be", (string) $lines[0]);
        }
    }

    public static function invalid(): \Generator
    {
        foreach ([-0.001, \INF, \NAN, 1e13] as $seconds) {
            yield "maxAge {$seconds}" => [['maxAge' => $seconds]];
            yield "maxFuture {$seconds}" => [['maxFuture' => $seconds]];
        }
        yield 'clockOffset NAN' => [['clockOffset' => \NAN]];
        yield 'clockOffset INF' => [['clockOffset' => \INF]];
    }

    /**
     * @dataProvider invalid
     *
     * @param array<string, float> $arguments
     */
    public function testConstructorRefusesInvalidValues(array $arguments): void
    {
        $this->expectException(\InvalidArgumentException::class);
        new Options(...$arguments);
    }

    /** @param list<mixed> $expected */
    private function assertOptions(array $expected, Options $options): void
    {
        self::assertSame($expected, [
            $options->maxAgeUs,
            $options->maxFutureUs,
            $options->clockOffset,
            $options->serverTiming,
            $options->telemetry,
            $options->alwaysAnswer,
        ]);
    }
}
