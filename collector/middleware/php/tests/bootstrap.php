<?php

declare(strict_types=1);

/*
 * The package's own classes, and those of the packages that the tests use if they are installed: by Composer, or by
 * Debian below /usr/share/php. PSR-15's two interfaces are declared by hand where no package has them.
 */

\spl_autoload_register(static function (string $class): void {
    $folders = [
        'Sojourn\\Middleware\\Tests\\' => __DIR__ . '/',
        'Sojourn\\Middleware\\' => \dirname(__DIR__) . '/src/',
    ];
    foreach ($folders as $prefix => $folder) {
        if (\str_starts_with($class, $prefix)) {
            $file = $folder . \strtr(\substr($class, \strlen($prefix)), '\\', '/') . '.php';
            if (\is_file($file)) {
                require $file;
            }

            return;
        }
    }
});
$composer = \dirname(__DIR__) . '/vendor/autoload.php';
$debian = [
    'Psr/Http/Message', 'Nyholm/Psr7', 'Symfony/Component/HttpKernel', 'Illuminate/Routing', 'Illuminate/Events',
];
$autoloaders = \is_file($composer)
    ? [$composer]
    : \array_map(static fn (string $package): string => "/usr/share/php/{$package}/autoload.php", $debian);
foreach (\array_filter($autoloaders, 'is_file') as $autoloader) {
    require_once $autoloader;
}
if (!\interface_exists(Psr\Http\Server\MiddlewareInterface::class)) {
    require __DIR__ . '/psr15.php';
}
// The real API if it is installed, else the part of it that the package calls.
if (!\interface_exists(OpenTelemetry\API\Trace\SpanInterface::class)) {
    require __DIR__ . '/opentelemetry.php';
}
