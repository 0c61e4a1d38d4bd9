<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/**
 * Reports the route of Laravel, and measures the request where auto_prepend.php does not (Octane).
 *
 * A global middleware, before all others. Loads no class of Laravel.
 */
final class LaravelMiddleware
{
    /**
     * @param \Illuminate\Http\Request $request
     *
     * @return \Symfony\Component\HttpFoundation\Response
     */
    public function handle(object $request, \Closure $next): mixed
    {
        $exchange = AppRequest::begin(
            null,
            \implode(',', $request->headers->all('X-Request-Start')),
            \implode(',', $request->headers->all('X-Queue-Start')),
            static fn (): RequestInfo => RequestInfo::fromHttpFoundation($request),
        );
        try {
            $response = $next($request);
        } catch (\Throwable $error) {
            $exchange?->end(null, $error);

            throw $error;
        }
        $route = $request->route();
        // Lumen's is an array, without the template.
        if (\is_object($route) && \method_exists($route, 'uri')) {
            CurrentRequest::route('/' . \ltrim((string) $route->uri(), '/'));
        }
        if ($exchange !== null) {
            HttpFoundationHeaders::add($exchange, $response);
            $exchange->end($response->getStatusCode(), null, (string) $response->headers->get(Measurement::ROUTE));
        }

        return $response;
    }
}
