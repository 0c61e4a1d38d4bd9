"""The template of a request's route, such as ``/users/{id}``, if the framework provides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def route_of_environ(environ: Mapping[str, Any]) -> str | None:
    """Return the value that the app set as ``sojourn.route``, or the route that Flask matched.

    Werkzeug leaves its request in the environ, and Flask's request knows the rule; nothing is imported for
    this.
    """
    route = environ.get("sojourn.route")
    if route:
        return str(route)
    rule = getattr(environ.get("werkzeug.request"), "url_rule", None)
    template = getattr(rule, "rule", None)
    return str(template) if template else None


def route_of_scope(scope: Mapping[str, Any], outer_root_path: str) -> str | None:
    """Return the value that the app set as ``sojourn.route``, or the template that Starlette or FastAPI matched.

    A mounted application knows its routes without the prefix of the mount; the prefix is what the root path
    gained since the middleware saw the request with `outer_root_path`.
    """
    routes = scope.get("sojourn.route")
    if routes:
        return str(routes)
    route = scope.get("route")
    template = getattr(route, "path", None)
    # FastAPI keeps the route as its router declared it, and the path with all prefixes beside it.
    own = scope.get("fastapi")
    included = own.get("effective_route_context") if isinstance(own, Mapping) else None
    if included is not None and getattr(included, "original_route", None) is route:
        template = getattr(included, "path", template)
    if not isinstance(template, str):
        return None
    root_path = str(scope.get("root_path") or "")
    prefix = root_path[len(outer_root_path) :] if root_path.startswith(outer_root_path) else ""
    return prefix + template or None
