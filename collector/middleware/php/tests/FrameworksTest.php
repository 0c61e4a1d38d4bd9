<?php

declare(strict_types=1);

namespace Sojourn\Middleware\Tests;

use Illuminate\Container\Container;
use Illuminate\Events\Dispatcher;
use Illuminate\Http\Request as LaravelRequest;
use Illuminate\Pipeline\Pipeline;
use Illuminate\Routing\Router;
use OpenTelemetry\API\Globals;
use PHPUnit\Framework\TestCase;
use Sojourn\Middleware\CurrentRequest;
use Sojourn\Middleware\LaravelMiddleware;
use Sojourn\Middleware\SymfonySubscriber;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Controller\ControllerResolver;
use Symfony\Component\HttpKernel\HttpKernel;
use Symfony\Component\HttpKernel\HttpKernelInterface;

/** The classes for Laravel and Symfony, in the routers and kernels of these frameworks. */
final class FrameworksTest extends TestCase
{
    protected function setUp(): void
    {
        Globals::reset();
    }

    public function testLaravelReportsRoute(): void
    {
        $response = $this->laravel('/users/7');
        self::assertSame('/users/{id}', $response->headers->get('X-Route'));
        self::assertSame('user 7', $response->getContent());
        $this->assertMeasured($response);
    }

    public function testLaravelReportsTheRootAsASlash(): void
    {
        self::assertSame('/', $this->laravel('/')->headers->get('X-Route'));
    }

    public function testLaravelExceptionPassesThrough(): void
    {
        $recorder = new Recorder();
        try {
            $this->laravel('/broken');
            self::fail('the exception did not arrive');
        } catch (\DomainException) {
            self::assertNull(CurrentRequest::measurement());
        }
        self::assertSame('DomainException', $recorder->spans()[0]['attributes']['error.type']);
    }

    public function testLaravelRequestHasASpan(): void
    {
        $recorder = new Recorder();
        $this->laravel('/users/7');
        [$span] = $recorder->spans();
        self::assertSame('GET /users/{id}', $span['name']);
        self::assertSame(200, $span['attributes']['http.response.status_code']);
        self::assertGreaterThan(99.0, $span['attributes']['queueing.delay']);
    }

    public function testSymfonyReportsNameOfRoute(): void
    {
        $response = $this->symfony(static fn (): Response => new Response('hello'));
        self::assertSame('user_show', $response->headers->get('X-Route'));
        self::assertSame('hello', $response->getContent());
        $this->assertMeasured($response);
    }

    public function testSymfonyMeasuresOnlyTheMainRequest(): void
    {
        $recorder = new Recorder();
        $kernel = null;
        $app = static function (Request $request) use (&$kernel): Response {
            $inner = Request::create('/inner');
            $inner->attributes->set('_controller', static fn (): Response => new Response('inner'));
            $response = $kernel->handle($inner, HttpKernelInterface::SUB_REQUEST);

            return new Response($response->headers->has('X-Worker') ? 'measured' : 'not measured');
        };
        self::assertSame('not measured', $this->symfony($app, $kernel)->getContent());
        self::assertCount(1, $recorder->spans());
        self::assertSame('GET user_show', $recorder->spans()[0]['name']);
    }

    public function testSymfonyExceptionEndsTheRequest(): void
    {
        $recorder = new Recorder();
        try {
            $this->symfony(static fn (): Response => throw new \DomainException('of the app'));
            self::fail('the exception did not arrive');
        } catch (\DomainException) {
            self::assertNull(CurrentRequest::measurement());
        }
        self::assertCount(1, $recorder->spans());
    }

    private function assertMeasured(Response $response): void
    {
        self::assertSame(100, (int) $response->headers->get('X-Queueing-Delay'));
        self::assertGreaterThan(0.0, (float) $response->headers->get('X-Service-Time'));
        self::assertSame((string) \getmypid(), $response->headers->get('X-Worker'));
        self::assertNull(CurrentRequest::measurement());
    }

    private function laravel(string $path): Response
    {
        if (!\class_exists(Router::class) || !\class_exists(Dispatcher::class)) {
            self::markTestSkipped('php-illuminate-routing and php-illuminate-events are not installed');
        }
        $container = new Container();
        $router = new Router(new Dispatcher($container), $container);
        $router->get('/users/{id}', static fn (string $id): string => "user {$id}");
        $router->get('/', static fn (): string => 'root');
        $router->get('/broken', static fn (): string => throw new \DomainException('of the app'));
        $request = LaravelRequest::create($path, 'GET', server: ['HTTP_X_REQUEST_START' => $this->stamp()]);

        return (new Pipeline($container))->send($request)->through([LaravelMiddleware::class])
            ->then(static fn (LaravelRequest $request): Response => $router->dispatch($request));
    }

    private function symfony(\Closure $controller, ?HttpKernel &$kernel = null): Response
    {
        if (!\class_exists(HttpKernel::class)) {
            self::markTestSkipped('php-symfony-http-kernel is not installed');
        }
        $events = new EventDispatcher();
        $events->addSubscriber(new SymfonySubscriber());
        $kernel = new HttpKernel($events, new ControllerResolver());
        $request = Request::create('/users/7', 'GET', server: ['HTTP_X_REQUEST_START' => $this->stamp()]);
        $request->attributes->add(['_route' => 'user_show', '_controller' => $controller]);

        return $kernel->handle($request);
    }

    private function stamp(): string
    {
        return \sprintf('t=%.6F', \microtime(true) - 100);
    }
}
