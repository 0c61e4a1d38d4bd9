<?php

declare(strict_types=1);

namespace Sojourn\Middleware;

use Symfony\Component\EventDispatcher\EventSubscriberInterface;
use Symfony\Component\HttpKernel\Event\FinishRequestEvent;
use Symfony\Component\HttpKernel\Event\RequestEvent;
use Symfony\Component\HttpKernel\Event\ResponseEvent;

/**
 * Reports the name of Symfony's route, and measures the request where auto_prepend.php does not.
 *
 * The name and not the path, because Symfony compiles its routes for a search by path and would have to read all of
 * their configuration to return the template.
 */
final class SymfonySubscriber implements EventSubscriberInterface
{
    /** @var null|\WeakMap<object, AppRequest> */
    private ?\WeakMap $exchanges = null;

    /** @return array<string, array{string, int}> */
    public static function getSubscribedEvents(): array
    {
        return [
            'kernel.request' => ['onRequest', 8192],
            'kernel.response' => ['onResponse', -8192],
            'kernel.finish_request' => ['onFinish', -8192],
        ];
    }

    public function onRequest(RequestEvent $event): void
    {
        if (!$event->isMainRequest()) {
            return;
        }
        $request = $event->getRequest();
        $exchange = AppRequest::begin(
            null,
            \implode(',', $request->headers->all('X-Request-Start')),
            \implode(',', $request->headers->all('X-Queue-Start')),
            static fn (): RequestInfo => RequestInfo::fromHttpFoundation($request),
        );
        if ($exchange !== null) {
            $this->exchanges ??= new \WeakMap();
            $this->exchanges[$request] = $exchange;
        }
    }

    public function onResponse(ResponseEvent $event): void
    {
        if (!$event->isMainRequest()) {
            return;
        }
        $route = $event->getRequest()->attributes->get('_route');
        if (\is_string($route)) {
            CurrentRequest::route($route);
        }
        $exchange = $this->exchanges[$event->getRequest()] ?? null;
        if ($exchange !== null) {
            unset($this->exchanges[$event->getRequest()]);
            $response = $event->getResponse();
            HttpFoundationHeaders::add($exchange, $response);
            $exchange->end($response->getStatusCode(), null, (string) $response->headers->get(Measurement::ROUTE));
        }
    }

    /** End a request without a response: its exception leaves the kernel. */
    public function onFinish(FinishRequestEvent $event): void
    {
        $exchange = $this->exchanges[$event->getRequest()] ?? null;
        if ($exchange !== null) {
            unset($this->exchanges[$event->getRequest()]);
            $exchange->end(null);
        }
    }
}
