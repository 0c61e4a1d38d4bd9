<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

use OpenTelemetry\API\Globals;
use OpenTelemetry\API\Trace\SpanKind;
use PHPUnit\Framework\TestCase;
use Sojourn\Middleware\Measurement;
use Sojourn\Middleware\Options;
use Sojourn\Middleware\RequestInfo;
use Sojourn\Middleware\Telemetry;

final class TelemetryTest extends TestCase
{
    private const TRACE = '0af7651916cd43dd8448eb211c80319c';
    private const CALLER = 'b7ad6b7169203331';

    private Recorder $recorder;

    private int $nowUs;

    protected function setUp(): void
    {
        $this->recorder = new Recorder();
        $this->nowUs = (int) (\microtime(true) * 1e6);
    }

    protected function tearDown(): void
    {
        Globals::reset();
    }

    public function testSpanHasAttributesTimesAndParent(): void
    {
        $measurement = $this->measurement($this->nowUs - 500_000, new Options(clockOffset: 0.125));
        $measurement->route('/users/{id}');
        $measurement->headersLeft($measurement->monotonicNs + 250_000_000);
        $this->record($measurement, [
            'REQUEST_METHOD' => 'POST', 'REQUEST_URI' => '/users/7?token=secret', 'SERVER_PROTOCOL' => 'HTTP/1.1',
            'HTTP_HOST' => 'shop.example:8080', 'HTTPS' => 'on', 'HTTP_X_REQUEST_ID' => 'abc',
            'HTTP_TRACEPARENT' => '00-' . self::TRACE . '-' . self::CALLER . '-01',
        ], 201);

        [$span] = $this->recorder->spans();
        self::assertSame(['POST /users/{id}', SpanKind::KIND_SERVER], [$span['name'], $span['kind']]);
        self::assertSame([self::TRACE, self::CALLER], [$span['trace'], $span['parent']]);
        self::assertSame($this->nowUs * 1000, $span['start']);
        self::assertGreaterThanOrEqual($span['start'], $span['end']);
        self::assertEquals([
            'http.request.method' => 'POST', 'url.path' => '/users/7', 'url.scheme' => 'https',
            'network.protocol.version' => '1.1', 'server.address' => 'shop.example', 'server.port' => 8080,
            'http.request.header.x-request-id' => ['abc'], 'http.route' => '/users/{id}',
            'http.response.status_code' => 201, 'queueing.delay' => 0.375, 'queueing.delay.raw' => 0.5,
            'queueing.clock_offset' => 0.125, 'queueing.service_time' => 0.25,
            'queueing.worker' => (string) \getmypid(), 'queueing.status' => 'ok',
        ], $span['attributes']);
        self::assertEquals(
            [['http.proxy.request.started', ($this->nowUs - 500_000) * 1000, []]],
            $span['events'],
        );
        self::assertSame('Unset', $span['status']);
        self::assertEquals([['queueing.delay', 's', 0.375, [
            'http.request.method' => 'POST', 'http.route' => '/users/{id}', 'http.response.status_code' => 201,
        ]]], $this->recorder->delays());
    }

    public function testUnknownValuesAreOmitted(): void
    {
        $this->record($this->measurement(null), ['REQUEST_METHOD' => 'BREW', 'REQUEST_URI' => '/'], null);

        [$span] = $this->recorder->spans();
        self::assertSame(['HTTP', \str_repeat('0', 16)], [$span['name'], $span['parent']]);
        self::assertEquals([
            'http.request.method' => '_OTHER', 'http.request.method_original' => 'BREW', 'url.path' => '/',
            'url.scheme' => 'http', 'queueing.clock_offset' => 0.0, 'queueing.worker' => (string) \getmypid(),
            'queueing.status' => 'missing',
        ], $span['attributes']);
        self::assertSame([[], []], [$span['events'], $this->recorder->delays()]);
    }

    public function testNegativeDelayIsInSpanButNotInHistogram(): void
    {
        $this->record($this->measurement($this->nowUs + 500_000), ['REQUEST_METHOD' => 'GET'], 200);

        self::assertSame(-0.5, $this->recorder->spans()[0]['attributes']['queueing.delay']);
        self::assertSame([], $this->recorder->delays());
    }

    public function testServerErrorIsAnError(): void
    {
        $this->record($this->measurement(null), ['REQUEST_METHOD' => 'GET'], 503);
        $this->record($this->measurement(null), ['REQUEST_METHOD' => 'GET'], 404);

        [$failed, $missing] = $this->recorder->spans();
        self::assertSame(['503', 'Error'], [$failed['attributes']['error.type'], $failed['status']]);
        self::assertSame('Unset', $missing['status']);
        self::assertArrayNotHasKey('error.type', $missing['attributes']);
    }

    public function testExceptionsAndFatalErrorsAreEvents(): void
    {
        $this->record($this->measurement(null), [], null, new \DomainException('of the app'));
        $fatal = "Uncaught App\\Broken: no: item in /srv/a b/app.php:4\nStack trace:\n#0 {main}\n  thrown";
        $this->record($this->measurement(null), [], 500, $fatal);
        $this->record($this->measurement(null), [], 500, 'Allowed memory size of 2097152 bytes exhausted');

        $described = \array_map(static fn (array $span): array => [
            $span['attributes']['error.type'],
            $span['events'][0][2]['exception.type'],
            $span['events'][0][2]['exception.message'],
            $span['status'],
        ], $this->recorder->spans());
        self::assertSame([
            ['DomainException', 'DomainException', 'of the app', 'Error'],
            ['App\\Broken', 'App\\Broken', 'App\\Broken: no: item', 'Error'],
            ['fatal_error', 'fatal_error', 'Allowed memory size of 2097152 bytes exhausted', 'Error'],
        ], $described);
    }

    public function testActiveSpanOfTheAppGetsTheAttributes(): void
    {
        $span = $this->span(SpanKind::KIND_SERVER);
        $scope = $span->storeInContext(\OpenTelemetry\Context\Context::getRoot())->activate();
        $measurement = $this->measurement($this->nowUs - 1_000_000);
        $telemetry = Telemetry::adopt($measurement, RequestInfo::fromServer(['REQUEST_METHOD' => 'GET']));
        $scope->detach();
        self::assertNotNull($telemetry);
        $telemetry->end(200, null);
        $span->end();

        [$recorded] = $this->recorder->spans();
        self::assertSame('of the app', $recorded['name']);
        self::assertSame([1.0, 'ok'], [
            $recorded['attributes']['queueing.delay'], $recorded['attributes']['queueing.status'],
        ]);
        self::assertSame('http.proxy.request.started', $recorded['events'][0][0]);
        self::assertCount(1, $this->recorder->delays());
    }

    public function testOtherSpansAreNotAdopted(): void
    {
        $info = RequestInfo::fromServer(['REQUEST_METHOD' => 'GET']);
        self::assertNull(Telemetry::adopt($this->measurement(null), $info));
        $internal = $this->span(SpanKind::KIND_INTERNAL);
        $scope = $internal->storeInContext(\OpenTelemetry\Context\Context::getRoot())->activate();
        self::assertNull(Telemetry::adopt($this->measurement(null), $info));
        $scope->detach();
    }

    public function testNothingIsRecordedWithoutAProvider(): void
    {
        Globals::reset();
        self::assertNull(Telemetry::start($this->measurement(null), RequestInfo::fromServer([])));
    }

    /** @dataProvider targets */
    public function testPathHasNoQuery(string $target, string $path): void
    {
        self::assertSame($path, RequestInfo::fromServer(['REQUEST_URI' => $target])->path);
    }

    /** @return list<array{string, string}> */
    public static function targets(): array
    {
        return [
            ['/a%20b?c=/d', '/a%20b'],
            ['http://host:80/a?b', '/a'],
            ['http://host', '/'],
            ['*', '*'],
            ['//a//b', '//a//b'],
        ];
    }

    /** @dataProvider hosts */
    public function testServerAddressComesFromHost(string $host, string $address, ?int $port): void
    {
        $server = ['HTTP_HOST' => $host, 'SERVER_NAME' => 'own', 'SERVER_PORT' => '80'];
        self::assertSame([$address, $port], RequestInfo::fromServer($server)->serverAddress());
    }

    /** @return list<array{string, string, int|null}> */
    public static function hosts(): array
    {
        return [
            ['shop', 'shop', null],
            ['shop:81', 'shop', 81],
            ['[::1]:81', '::1', 81],
            ['[::1]', '::1', null],
            ['', 'own', 80],
        ];
    }

    private function measurement(?int $stampUs, Options $options = new Options()): Measurement
    {
        return Measurement::begin($options, (string) $stampUs, '', $this->nowUs, \hrtime(true));
    }

    /** @param array<string, mixed> $server */
    private function record(
        Measurement $measurement,
        array $server,
        ?int $status,
        \Throwable|string|null $error = null,
    ): void {
        $telemetry = Telemetry::start($measurement, RequestInfo::fromServer($server));
        self::assertNotNull($telemetry);
        $telemetry->end($status, $error);
    }

    private function span(int $kind): \OpenTelemetry\API\Trace\SpanInterface
    {
        return Globals::tracerProvider()->getTracer('app')->spanBuilder('of the app')->setSpanKind($kind)->startSpan();
    }
}
