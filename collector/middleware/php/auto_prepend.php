<?php

/*
 * Measures every request of PHP-FPM, FPM/FastCGI or Apache's mod_php without a change of the app. In the pool:
 *
 *     php_admin_value[auto_prepend_file] = /path/to/sojourn/auto_prepend.php
 *
 * Needs no autoloader. Settings are environment variables, described in README.md. A server that keeps the app in
 * memory (FrankenPHP's worker mode, RoadRunner, Swoole) runs this file once and not per request: use Psr15Middleware.
 *
 * The syntax of this file is that of PHP 7.1, so that an older PHP logs a warning instead of failing.
 */

namespace Sojourn\Middleware;

// A closure, because the variables of this file would be globals of the app.
(static function () {
    $monotonicNs = \function_exists('hrtime') ? \hrtime(true) : 0;
    $wallUs = (int) \round(\microtime(true) * 1e6);
    if (\in_array(\PHP_SAPI, ['cli', 'phpdbg', 'embed'], true) || isset($_SERVER['FRANKENPHP_WORKER'])) {
        return;
    }
    if (\PHP_VERSION_ID < 80100 || \PHP_INT_SIZE < 8) {
        \error_log('sojourn: auto_prepend.php needs a 64-bit PHP 8.1 or later; requests are served unmeasured');

        return;
    }
    require_once __DIR__ . '/src/Stamp.php';
    require_once __DIR__ . '/src/Options.php';
    require_once __DIR__ . '/src/Measurement.php';
    require_once __DIR__ . '/src/CurrentRequest.php';
    require_once __DIR__ . '/src/SapiRequest.php';
    SapiRequest::start($_SERVER, $wallUs, $monotonicNs);
})();
