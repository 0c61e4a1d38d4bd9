"""The directives of an nginx configuration that delay a request outside the app, by the phase of the request.

Sources: the documentation of ngx_http_core_module, ngx_http_proxy_module and the other modules of nginx 1.22.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sojourn.model.verdict import Directives
from sojourn.nginx.syntax import Directive, configuration

PASSES = ("proxy", "fastcgi", "uwsgi", "scgi", "grpc")
_ACCESS = ("auth_request", "access_by_lua", "access_by_lua_block", "access_by_lua_file", "rewrite_by_lua",
           "rewrite_by_lua_block", "rewrite_by_lua_file")  # fmt: skip
_LOCKS = tuple(f"{each}_cache_lock" for each in PASSES)
_UNBUFFERED_ANSWERS = tuple(f"{each}_buffering" for each in PASSES)
_UNBUFFERED_REQUESTS = tuple(f"{each}_request_buffering" for each in PASSES)


def _is_on(directive: Directive) -> bool:
    return directive.args[:1] == ["on"]


def _is_off(directive: Directive) -> bool:
    return directive.args[:1] == ["off"]


def _is_set(directive: Directive) -> bool:
    return directive.args[:1] not in ([], ["off"], ["0"])


def _delays(directive: Directive) -> bool:
    return "nodelay" not in directive.args and any(each.startswith("burst=") for each in directive.args)


def _has_variable(directive: Directive) -> bool:
    return any("$" in each for each in directive.args[:1])


# Phase -> (names, whether a directive of that name delays the phase).
_OF_PHASE: dict[str, tuple[tuple[tuple[str, ...], Callable[[Directive], bool]], ...]] = {
    "before": ((_ACCESS, _is_set), (("limit_req",), _delays), (_LOCKS, _is_on)),
    "after": (  # of a request without an attempt, all of it
        (_ACCESS, _is_set), (("limit_req",), _delays), (_LOCKS, _is_on), (("mirror", "slice", "limit_rate"), _is_set),
        (tuple(f"{each}_pass" for each in PASSES), _has_variable),
    ),
    "body": ((_UNBUFFERED_ANSWERS, _is_off),),
    "service": ((_UNBUFFERED_REQUESTS, _is_off),),
    "limited": ((("limit_req",), _delays),),
    "locked": ((_LOCKS, _is_on),),
}  # fmt: skip


def delaying_directives(path: Path) -> Directives:
    """Return the directives that delay requests outside the app.

    Args:
        path: the first file of the configuration.

    Returns:
        Phase -> the directives, each as "`name` (file:line)": ``before`` the proxy turns to the app, ``after`` its
        answer, the ``body`` and the ``service`` that a client may hold up; and ``limited`` and ``locked``, which delay
        before, after or both.

    Raises:
        CaptureError: a file cannot be read, or is not a configuration.
    """
    root, _ = configuration(path)
    return {
        phase: tuple(
            dict.fromkeys(
                f"`{each.name}` ({each.where})" for names, holds in kinds for each in root.all(*names) if holds(each)
            )
        )
        for phase, kinds in _OF_PHASE.items()
    }
