<?php
// Sojourn's answer headers for PHP, before the app:  php_admin_value[auto_prepend_file] = /path/sojourn.php
// Queueing delay: from the proxy's stamp to this line. Service time: from this line until the headers are sent.

(function (): void {
    $started = hrtime(true);
    $now = (int) round(microtime(true) * 1e6);

    // Seconds, milliseconds, microseconds or nanoseconds: the number of digits decides, the prefix t= says nothing.
    // A doubled, unreadable, old or future stamp is refused, never guessed.
    $form = '/^(?:t=)?([1-9]\d{9}(?:\.\d{1,9})?|[1-9]\d{12}(?:\.\d{1,6})?|[1-9]\d{15}(?:\d{3})?)$/D';
    $stamp = null;
    if (preg_match($form, $_SERVER['HTTP_X_REQUEST_START'] ?? '', $match)) {
        $us = (int) substr(str_pad(str_replace('.', '', $match[1]), 16, '0'), 0, 16);
        $stamp = $us > $now + 10_000_000 || $us < $now - 3_600_000_000 ? null : $us;
    }

    header_register_callback(function () use ($started, $now, $stamp): void {
        if ($stamp !== null) {
            header(sprintf('X-Queueing-Delay: %.6F', ($now - $stamp) / 1e6));
        }
        header(sprintf('X-Service-Time: %.6F', (hrtime(true) - $started) / 1e9));
        header('X-Worker: ' . getmypid());
    });
})();
