<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

use Psr\Http\Message\ServerRequestInterface;

/**
 * The properties of a request that its span has.
 *
 * @internal
 */
final class RequestInfo
{
    /**
     * @param string                    $method          as it was sent
     * @param string                    $path            percent-encoded, without the query
     * @param string                    $scheme          `http` or `https`, as the server sees it
     * @param string                    $protocolVersion `1.1`, `2`, …; '' if unknown
     * @param string                    $serverName      address at which the server listens; '' if unknown
     * @param int|null                  $serverPort      likewise; null if unknown
     * @param \Closure(string): ?string $header          returns a request header by its lower-case name
     */
    public function __construct(
        public readonly string $method,
        public readonly string $path,
        public readonly string $scheme,
        public readonly string $protocolVersion,
        private readonly string $serverName,
        private readonly ?int $serverPort,
        private readonly \Closure $header,
    ) {
    }

    /** @param array<string, mixed> $server as in `$_SERVER` */
    public static function fromServer(array $server): self
    {
        $https = \strtolower((string) ($server['HTTPS'] ?? ''));
        $port = (string) ($server['SERVER_PORT'] ?? '');
        $target = \explode('?', (string) ($server['REQUEST_URI'] ?? $server['SCRIPT_NAME'] ?? '/'), 2)[0];
        $absolute = \preg_match('~^[a-z][a-z0-9+.-]*://[^/]*(.*)$~i', $target, $match) === 1;

        return new self(
            (string) ($server['REQUEST_METHOD'] ?? ''),
            $absolute ? ($match[1] === '' ? '/' : $match[1]) : $target,
            $https === '' || $https === 'off' ? 'http' : 'https',
            \explode('/', (string) ($server['SERVER_PROTOCOL'] ?? ''), 2)[1] ?? '',
            (string) ($server['SERVER_NAME'] ?? ''),
            \preg_match('/^\d+$/D', $port) === 1 ? (int) $port : null,
            static function (string $name) use ($server): ?string {
                $value = $server['HTTP_' . \strtoupper(\strtr($name, '-', '_'))] ?? null;

                return $value === null ? null : (string) $value;
            },
        );
    }

    public static function fromPsr7(ServerRequestInterface $request): self
    {
        $uri = $request->getUri();
        $path = $uri->getPath();

        return new self(
            $request->getMethod(),
            $path === '' ? '/' : $path,
            $uri->getScheme() === 'https' ? 'https' : 'http',
            $request->getProtocolVersion(),
            $uri->getHost(),
            $uri->getPort(),
            static fn (string $name): ?string => $request->hasHeader($name) ? $request->getHeaderLine($name) : null,
        );
    }

    /**
     * Return the properties of a request of Symfony or Laravel.
     *
     * @param \Symfony\Component\HttpFoundation\Request $request
     */
    public static function fromHttpFoundation(object $request): self
    {
        $info = self::fromServer($request->server->all());

        return new self(
            $request->getRealMethod(),
            $info->path,
            $info->scheme,
            $info->protocolVersion,
            $info->serverName,
            $info->serverPort,
            static fn (string $name): ?string => $request->headers->get($name),
        );
    }

    /** Return the value of a request header by its lower-case name; null if missing. */
    public function header(string $name): ?string
    {
        return ($this->header)($name);
    }

    /** @return array{string, int|null} host and port of the Host header, or else of the server */
    public function serverAddress(): array
    {
        $host = $this->header('host') ?? '';
        if ($host === '') {
            return [$this->serverName, $this->serverPort];
        }
        if (\preg_match('/^(.*[^:]):(\d{1,5})$/D', $host, $match) === 1) {
            return [\trim($match[1], '[]'), (int) $match[2]];
        }

        return [\trim($host, '[]'), null];
    }
}
