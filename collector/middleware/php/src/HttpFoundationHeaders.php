<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/**
 * The headers of a response of Symfony or Laravel.
 *
 * @internal
 */
final class HttpFoundationHeaders
{
    /** @param \Symfony\Component\HttpFoundation\Response $response */
    public static function add(AppRequest $exchange, object $response): void
    {
        try {
            foreach ($exchange->headers() as $name => $value) {
                if ($value === null) {
                    $response->headers->remove($name);
                } else {
                    $response->headers->set($name, $value);
                }
            }
            $timing = $exchange->serverTiming();
            if ($timing !== '') {
                $response->headers->set(Measurement::SERVER_TIMING, $timing, false);
            }
        } catch (\Throwable $error) {
            Measurement::warn('a response has no measurements', $error);
        }
    }
}
