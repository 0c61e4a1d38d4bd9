<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

use Nyholm\Psr7\Response;
use Nyholm\Psr7\ServerRequest;
use OpenTelemetry\API\Globals;
use PHPUnit\Framework\TestCase;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;
use Sojourn\Middleware\CurrentRequest;
use Sojourn\Middleware\Measurement;
use Sojourn\Middleware\Options;
use Sojourn\Middleware\Psr15Middleware;

final class Psr15MiddlewareTest extends TestCase
{
    private const NOW_US = 1_767_225_600_000_000;

    private int $monotonicNs = 1_000;

    protected function setUp(): void
    {
        if (!\class_exists(ServerRequest::class)) {
            self::markTestSkipped('php-nyholm-psr7 is not installed');
        }
        Globals::reset();
    }

    public function testAddsHeaders(): void
    {
        $response = $this->serve(['X-Request-Start' => 't=1767225599.5'], function (): ResponseInterface {
            $this->monotonicNs += 2_000_000;

            return new Response(201, ['X-Worker' => "the app's", 'X-Queueing-Delay' => '9'], 'body');
        });

        self::assertEquals(
            [
                'X-Worker' => [(string) \getmypid()],
                'X-Queueing-Delay' => ['0.500000'],
                'X-Service-Time' => ['0.002000'],
            ],
            $response->getHeaders(),
        );
        self::assertSame([201, 'body'], [$response->getStatusCode(), (string) $response->getBody()]);
    }

    public function testRefusedStampHasNoDelay(): void
    {
        $app = static fn (): ResponseInterface => new Response(200, ['X-Queueing-Delay' => '9']);
        foreach (['junk', ['t=1767225599.5', 't=1767225599.5'], ['', '1767225599']] as $stamp) {
            $response = $this->serve(['X-Request-Start' => $stamp, 'X-Queue-Start' => '1767225599'], $app);
            self::assertFalse($response->hasHeader('X-Queueing-Delay'));
            self::assertSame('0.000000', $response->getHeaderLine('X-Service-Time'));
        }
        $response = $this->serve(['X-Request-Start' => '', 'X-Queue-Start' => '1767225599'], $app);
        self::assertSame('1.000000', $response->getHeaderLine('X-Queueing-Delay'));
    }

    public function testLimitsAreOptions(): void
    {
        $app = static fn (): ResponseInterface => new Response();
        $stamp = ['X-Request-Start' => '1767225599'];
        self::assertFalse($this->serve($stamp, $app, new Options(maxAge: 0.5))->hasHeader('X-Queueing-Delay'));
        self::assertTrue($this->serve($stamp, $app, new Options(maxAge: 1))->hasHeader('X-Queueing-Delay'));
    }

    public function testServerTimingIsAddedToTheOneOfTheApp(): void
    {
        $app = static fn (): ResponseInterface => new Response(200, ['Server-Timing' => 'db;dur=1']);
        $stamp = ['X-Request-Start' => '1767225599'];
        self::assertSame(['db;dur=1'], $this->serve($stamp, $app)->getHeader('Server-Timing'));
        self::assertSame(
            ['db;dur=1', 'queue;dur=1000.000, app;dur=0.000'],
            $this->serve($stamp, $app, new Options(serverTiming: true))->getHeader('Server-Timing'),
        );
    }

    public function testRouteComesFromAttributeOptionCurrentRequestOrHeader(): void
    {
        $own = static fn (): ResponseInterface => new Response(200, ['X-Route' => '/own']);
        $attribute = static function (ServerRequestInterface $request) use ($own): ResponseInterface {
            $request->getAttribute(Measurement::class)->route('/attribute/{é}');

            return $own();
        };
        $current = static function () use ($own): ResponseInterface {
            CurrentRequest::route('/current');

            return $own();
        };
        $route = static fn (ServerRequestInterface $request): ?string => $request->getUri()->getPath() . '/{option}';
        $broken = static fn (): ?string => throw new \LogicException('no route');

        $stamp = ['X-Request-Start' => 'junk'];

        self::assertSame('/own', $this->serve($stamp, $own)->getHeaderLine('X-Route'));
        self::assertSame('/attribute/{%C3%A9}', $this->serve($stamp, $attribute)->getHeaderLine('X-Route'));
        self::assertSame('/current', $this->serve($stamp, $current)->getHeaderLine('X-Route'));
        self::assertSame('/a/{option}', $this->serve($stamp, $own, route: $route)->getHeaderLine('X-Route'));
        $log = (string) \tempnam(\sys_get_temp_dir(), 'sojourn');
        $before = \ini_set('error_log', $log);
        try {
            self::assertSame('/own', $this->serve($stamp, $own, route: $broken)->getHeaderLine('X-Route'));
            self::assertStringContainsString('LogicException: no route', (string) \file_get_contents($log));
        } finally {
            \ini_set('error_log', (string) $before);
            \unlink($log);
        }
    }

    public function testIgnoredRequestHasNoHeaders(): void
    {
        $response = $this->serve(['X-Request-Start' => '1767225599'], static function (): ResponseInterface {
            CurrentRequest::ignore();

            return new Response(200, ['X-Worker' => "the app's"]);
        }, new Options(serverTiming: true));
        self::assertSame(['X-Worker' => ["the app's"]], $response->getHeaders());
    }

    public function testOnlyTheOuterOfTwoMeasures(): void
    {
        $clock = fn (): array => [self::NOW_US, $this->monotonicNs += 1_000_000];
        $inner = self::handler(static fn (): ResponseInterface => new Response());
        $middle = self::handler(
            static fn (ServerRequestInterface $request): ResponseInterface =>
                (new Psr15Middleware(new Options(maxAge: 1), null, $clock))->process($request, $inner),
        );
        $request = new ServerRequest('GET', '/', ['X-Request-Start' => '1767225590']);
        $response = (new Psr15Middleware(new Options(), null, $clock))->process($request, $middle);
        self::assertSame('10.000000', $response->getHeaderLine('X-Queueing-Delay'));
        self::assertSame('0.001000', $response->getHeaderLine('X-Service-Time'));
    }

    public function testExceptionPassesThroughAndEndsTheRequest(): void
    {
        try {
            $this->serve([], static fn (): ResponseInterface => throw new \DomainException('of the app'));
            self::fail('the exception did not arrive');
        } catch (\DomainException $error) {
            self::assertSame('of the app', $error->getMessage());
        }
        self::assertNull(CurrentRequest::measurement());
    }

    public function testNothingIsCurrentOutsideOfARequest(): void
    {
        CurrentRequest::route('/nothing');
        CurrentRequest::ignore();
        self::assertNull(CurrentRequest::measurement());
        $response = $this->serve(['X-Request-Start' => 'junk'], static fn (): ResponseInterface => new Response());
        self::assertFalse($response->hasHeader('X-Route'));
        self::assertTrue($response->hasHeader('X-Worker'));
    }

    public function testClocksOfTheMachineByDefault(): void
    {
        $stamp = ['X-Request-Start' => \sprintf('t=%.6F', \microtime(true) - 100)];
        $handler = self::handler(static fn (): ResponseInterface => new Response());
        $response = (new Psr15Middleware())->process(new ServerRequest('GET', '/', $stamp), $handler);
        self::assertSame(100, (int) $response->getHeaderLine('X-Queueing-Delay'));
        self::assertGreaterThan(0, (float) $response->getHeaderLine('X-Service-Time'));
    }

    /** @param array<string, string|list<string>> $headers */
    private function serve(
        array $headers,
        callable $app,
        ?Options $options = null,
        ?callable $route = null,
    ): ResponseInterface {
        $middleware = new Psr15Middleware($options, $route, fn (): array => [self::NOW_US, $this->monotonicNs]);

        return $middleware->process(new ServerRequest('GET', '/a', $headers), self::handler($app));
    }

    private static function handler(callable $app): RequestHandlerInterface
    {
        return new class ($app) implements RequestHandlerInterface {
            public function __construct(private readonly mixed $app)
            {
            }

            public function handle(ServerRequestInterface $request): ResponseInterface
            {
                return ($this->app)($request);
            }
        };
    }
}
