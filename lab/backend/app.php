<?php
// The lab's app for php-fpm: the same as app.py, with the middleware's auto_prepend.php (auto_prepend_file).
//
//   /sleep/<seconds>?status=N&route=/NAME     holds the worker that long
//   /ready                                    answered without the headers of Sojourn

function plain(int $status, string $text): void
{
    http_response_code($status);
    header('Content-Type: text/plain');
    echo $text, "\n";
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
if ($seconds === false || $seconds < 0 || $seconds > 86400) {
    plain(400, 'seconds must be a number from 0 to 86400');
} elseif ($status === false || $status < 200 || $status > 599) {
    plain(400, 'status must be from 200 to 599');
} elseif ($route !== '/sleep/{seconds}' && !preg_match('~^/[a-z0-9/_-]{1,60}$~D', $route)) {
    plain(400, "route must be a slash and a name: lower case letters, digits, '/', '_' and '-'");
} else {
    usleep((int) round($seconds * (float) (getenv('LAB_SLOWDOWN') ?: 1) * 1e6));
    Sojourn\Middleware\CurrentRequest::route($route);
    plain($status, sprintf('slept %g s', $seconds));
}
