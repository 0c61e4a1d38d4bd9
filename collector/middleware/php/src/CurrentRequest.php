<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

/**
 * The app's access to the measurement of the request that it serves.
 *
 * Every method does nothing if the request is not measured, so an app can call them unconditionally. On a server with
 * coroutines use the request attribute of {@see Psr15Middleware} instead: several requests are current there.
 */
final class CurrentRequest
{
    private static ?Measurement $measurement = null;

    /** Set the template of the route, such as `/users/{id}`: the header `X-Route`, and `http.route` of the span. */
    public static function route(string $template): void
    {
        $measurement = self::$measurement;
        if ($measurement !== null) {
            $measurement->route($template);
            // The span of automatic instrumentation may have ended when the headers leave.
            SapiRequest::current()?->adoptSpan();
        }
    }

    /** Send the response of this request without measurements, and record no span. */
    public static function ignore(): void
    {
        if (self::$measurement !== null) {
            self::$measurement->ignored = true;
        }
    }

    /** Return the measurement of this request; null if it is not measured. */
    public static function measurement(): ?Measurement
    {
        return self::$measurement;
    }

    /**
     * Make a measurement the current one, and return the previous one.
     *
     * @internal
     */
    public static function replace(?Measurement $measurement): ?Measurement
    {
        $previous = self::$measurement;
        self::$measurement = $measurement;

        return $previous;
    }
}
