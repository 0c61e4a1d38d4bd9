<?php
// The lab's app for php-fpm: the same as app.py, with the middleware's auto_prepend.php (auto_prepend_file).
//
//   /sleep/<seconds>?stream=SECONDS&after=SECONDS&status=N&route=/NAME     holds the worker that long
//   /ready                                    answered without the headers of Sojourn
//
// after=SECONDS is work after fastcgi_finish_request(). Where LAB_WORKER_LOG names a file, each request has a line in it,
// in the form of worker_log.py.

const PIECES = 4;
$begin = microtime(true);

function plain(int $status, string $text): void
{
    http_response_code($status);
    header('Content-Type: text/plain');
    echo $text, "\n";
}

/** Send a body of as many bytes in four pieces over some seconds. */
function streamed(int $bytes, float $seconds): void
{
    for ($piece = 0; $piece < PIECES; $piece++) {
        if ($piece > 0) {
            usleep((int) round($seconds / (PIECES - 1) * 1e6));
        }
        echo str_repeat('x', intdiv($bytes, PIECES));
        flush();
    }
}

/** Write when the request held its worker. */
function held(string $file, string $route, float $begin, float $headers, float $answered): void
{
    $line = ['worker' => (string) getmypid(), 'id' => $_SERVER['HTTP_X_REQUEST_ID'] ?? '', 'route' => $route];
    $line += ['begin' => $begin, 'headers' => $headers, 'answered' => $answered, 'released' => microtime(true)];
    file_put_contents($file, json_encode($line) . "\n", FILE_APPEND);
}

$path = strtok($_SERVER['REQUEST_URI'] ?? '', '?');
if ($path === '/ready' || getenv('LAB_SILENT') === '1') {
    Sojourn\Middleware\CurrentRequest::ignore();
}
if ($path === '/ready') {
    plain(200, 'ready');
    return;
}
if (!str_starts_with($path, '/sleep/')) {
    plain(404, 'there is only /sleep/<seconds> and /ready');
    return;
}
$seconds = filter_var(substr($path, 7), FILTER_VALIDATE_FLOAT);
$status = filter_var($_GET['status'] ?? '200', FILTER_VALIDATE_INT);
$route = $_GET['route'] ?? '/sleep/{seconds}';
$stream = filter_var($_GET['stream'] ?? '0', FILTER_VALIDATE_FLOAT);
$after = filter_var($_GET['after'] ?? '0', FILTER_VALIDATE_FLOAT);
$bytes = filter_var($_GET['bytes'] ?? '4096', FILTER_VALIDATE_INT);
if ($seconds === false || $seconds < 0 || $seconds > 86400) {
    plain(400, 'seconds must be a number from 0 to 86400');
} elseif ($status === false || $status < 200 || $status > 599) {
    plain(400, 'status must be from 200 to 599');
} elseif (in_array(false, [$stream, $after, $bytes], true) || min($stream, $after, $bytes) < 0 || $bytes > 1 << 30) {
    plain(400, 'stream and after must be seconds, and bytes a whole number');
} elseif ($route !== '/sleep/{seconds}' && !preg_match('~^/[a-z0-9/_-]{1,60}$~D', $route)) {
    plain(400, "route must be a slash and a name: lower case letters, digits, '/', '_' and '-'");
} else {
    usleep((int) round($seconds * (float) (getenv('LAB_SLOWDOWN') ?: 1) * 1e6));
    Sojourn\Middleware\CurrentRequest::route($route);
    $headers = microtime(true);
    if ($stream > 0) {
        http_response_code($status);
        header('Content-Type: text/plain');
        streamed($bytes, $stream);
    } else {
        plain($status, sprintf('slept %g s', $seconds));
    }
    $answered = microtime(true);
    if ($after > 0) {
        fastcgi_finish_request();
        usleep((int) round($after * 1e6));
    }
    if (getenv('LAB_WORKER_LOG')) {
        held(getenv('LAB_WORKER_LOG'), $route, $begin, $headers, $answered);
    }
}
