"""The route template for Django: ``"sojourn_middleware.django.tell_route"``, last in MIDDLEWARE.

Django resolves the route deep inside, where neither WSGI nor ASGI can see it. This function only passes the
name on; the middleware around the whole application measures.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction


def tell_route(get_response: Callable[[Any], Any]) -> Callable[[Any], Any] | Callable[[Any], Awaitable[Any]]:
    """Return a Django middleware, synchronous or asynchronous like the wrapped one."""
    if iscoroutinefunction(get_response):

        async def with_route_async(request: Any) -> Any:
            response = await get_response(request)
            _tell(request)
            return response

        return with_route_async

    def with_route(request: Any) -> Any:
        response = get_response(request)
        _tell(request)
        return response

    return with_route


tell_route.sync_capable = True  # type: ignore[attr-defined]  # Django asks the function for these.
tell_route.async_capable = True  # type: ignore[attr-defined]


def _tell(request: Any) -> None:
    match = request.resolver_match
    if match is not None:
        # Under WSGI request.META is the environ itself; under ASGI only the scope reaches the outside.
        outer = getattr(request, "scope", request.META)
        outer["sojourn.route"] = "/" + match.route.removeprefix("^").removeprefix("/")
