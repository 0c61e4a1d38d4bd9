<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/**
 * Measures every request of a PSR-15 app: for servers that keep the app in memory, around everything else.
 *
 * Where auto_prepend.php measures the request already, only the request attribute is added. The attribute
 * `Sojourn\Middleware\Measurement` holds the {@see Measurement}, to report the route:
 *
 *     $request->getAttribute(Measurement::class)?->route('/users/{id}');
 */
final class Psr15Middleware implements MiddlewareInterface
{
    /** @var null|\Closure(ServerRequestInterface, ResponseInterface): ?string */
    private readonly ?\Closure $route;

    /**
     * @param Options|null                                                      $options default: the environment's
     * @param null|callable(ServerRequestInterface, ResponseInterface): ?string $route   returns the route's template,
     *                                                                                   or null if it is unknown
     * @param null|\Closure(): array{int, int}                                  $clock   returns microseconds since the
     *                                                                                   Unix epoch and nanoseconds of
     *                                                                                   hrtime(); for tests
     */
    public function __construct(
        private readonly ?Options $options = null,
        ?callable $route = null,
        private readonly ?\Closure $clock = null,
    ) {
        $this->route = $route === null ? null : $route(...);
    }

    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        if ($request->getAttribute(Measurement::class) !== null) {
            return $handler->handle($request);
        }
        [$wallUs, $monotonicNs] = $this->clock === null ? [null, null] : ($this->clock)();
        $exchange = AppRequest::begin(
            $this->options,
            \implode(',', $request->getHeader('X-Request-Start')),
            \implode(',', $request->getHeader('X-Queue-Start')),
            static fn (): RequestInfo => RequestInfo::fromPsr7($request),
            $wallUs,
            $monotonicNs,
        );
        if ($exchange === null) {
            return $handler->handle($request->withAttribute(Measurement::class, CurrentRequest::measurement()));
        }
        try {
            $response = $handler->handle($request->withAttribute(Measurement::class, $exchange->measurement));
        } catch (\Throwable $error) {
            $exchange->end(null, $error);

            throw $error;
        }
        $measured = $this->measured($request, $response, $exchange);
        $exchange->end($response->getStatusCode(), null, $response->getHeaderLine(Measurement::ROUTE));

        return $measured;
    }

    private function measured(
        ServerRequestInterface $request,
        ResponseInterface $response,
        AppRequest $exchange,
    ): ResponseInterface {
        $measured = $response;
        try {
            $exchange->measurement->route($this->route === null ? '' : ($this->route)($request, $response) ?? '');
        } catch (\Throwable $error) {
            Measurement::warn('the route of a request is unknown', $error);
        }
        try {
            foreach ($exchange->headers($this->clock === null ? null : ($this->clock)()[1]) as $name => $value) {
                $measured = $value === null ? $measured->withoutHeader($name) : $measured->withHeader($name, $value);
            }
            $timing = $exchange->serverTiming();

            return $timing === '' ? $measured : $measured->withAddedHeader(Measurement::SERVER_TIMING, $timing);
        } catch (\Throwable $error) {
            Measurement::warn('a response has no measurements', $error);

            return $response;
        }
    }
}
