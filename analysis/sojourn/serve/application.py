"""The HTTP application of the page: its files, and what it asks of the requests."""

from __future__ import annotations

import functools
import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.formatting import rounded
from sojourn.present.drawing import vega_lite_version
from sojourn.present.page_libraries import built_libraries, save_libraries, saved_libraries
from sojourn.serve.comparison import compared
from sojourn.serve.guard import DATA, Guard
from sojourn.serve.lanes import lanes_of
from sojourn.serve.one_request import one_request
from sojourn.serve.replay import replayed
from sojourn.serve.rows import parquet_of
from sojourn.serve.session import Session, Sessions
from sojourn.serve.view import AREA, COLUMNS, SELECTION, command_of, figures, overview, whole

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
TRACE = "sojourn.pftrace"
INDEX, LIBRARY = "index.html", "vega.js"
BROWSER_WIDTHS = range(10, 4_001)

COMPUTING = threading.Lock()  # a replay or a comparison uses all processors

Answer = Callable[[Session, Request, Any], dict[str, Any] | bytes]


def application(sessions: Sessions, token: str) -> Guard:
    """Return the application.

    Args:
        sessions: the requests.
        token: that requests for data must have.
    """
    static = files("sojourn.serve") / "static"
    names = {file.name for file in static.iterdir() if file.name.rpartition(".")[2] in TYPES}

    async def file(request: Request) -> Response:
        name = request.path_params.get("name") or INDEX
        if name == LIBRARY:
            return Response(await run_in_threadpool(libraries), media_type=TYPES["js"])
        if name not in names:
            return PlainTextResponse("not found\n", HTTPStatus.NOT_FOUND)
        return Response((static / name).read_bytes(), media_type=TYPES[name.rpartition(".")[2]])

    routes = [
        Route(f"{DATA}{name}", _answering(sessions, answer), methods=["POST" if name in POSTED else "GET"])
        for name, answer in ANSWERS.items()
    ]
    page = Starlette(routes=[*routes, Route("/", file), Route("/{name}", file)])
    page.router.redirect_slashes = False
    return Guard(page, token)


@functools.cache
def libraries() -> str:
    """Return the script that draws charts."""
    version = vega_lite_version()
    script = saved_libraries(version)
    if script is None:
        script = built_libraries(version)
        save_libraries(version, script)
    return script


def _answering(sessions: Sessions, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        try:
            body = await request.json() if request.method == "POST" else None
            result = await run_in_threadpool(answer, sessions.current, request, body)
            if isinstance(result, bytes):
                return Response(result, media_type="application/vnd.apache.parquet")
            result = rounded(result)
            return JSONResponse({**result, "generation": sessions.generation, "follows": sessions.follows})
        except (ValueError, RecursionError):
            return JSONResponse({"error": "the body is no JSON"}, HTTPStatus.BAD_REQUEST)
        except ArgumentError as error:
            return JSONResponse({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except SojournError as error:  # an answer as well: these requests do not allow it
            return JSONResponse({"unavailable": str(error)})

    return respond


def _source(session: Session, _request: Request, _body: Any) -> dict[str, Any]:
    return session.source


def _view(session: Session, request: Request, _body: Any) -> dict[str, Any]:
    view = session.view(request.query_params)
    return {
        **overview(session.columns, view, _count(request)),
        "command": command_of("split", session.options, view),
    }


def _figures(session: Session, request: Request, _body: Any) -> dict[str, Any]:
    return figures(session.columns, session.view(request.query_params))


def _queue(session: Session, request: Request, _body: Any) -> dict[str, Any]:
    view = session.view(request.query_params)
    width, number = view.area.grid(_count(request))
    queue = session.queue_of(view).over_time(view.area.begin, width, number, view.where.get("upstream"))
    return {"from": view.area.begin, "width": width, **queue}


def _lanes(session: Session, request: Request, _body: Any) -> dict[str, Any]:
    view = session.view(request.query_params)
    command = command_of("timeline", session.options, view)
    return {**lanes_of(session.queue_of(view), view), "command": f"{command} --out {TRACE}" if command else ""}


def _request(session: Session, request: Request, _body: Any) -> dict[str, Any]:
    query = request.query_params
    number = whole(query.get("number", ""), "number", -1)
    arrival = whole(query["arrival"], "arrival", -1) if "arrival" in query else None
    return one_request(session, session.view(query), number, arrival)


def _comparison(session: Session, request: Request, _body: Any) -> dict[str, Any]:
    query = request.query_params
    with COMPUTING:
        return compared(session, session.view(query), session.view(query, SELECTION))


def _parquet(session: Session, request: Request, _body: Any) -> bytes:
    query = request.query_params
    return parquet_of(session, session.view(query, SELECTION if SELECTION[0] in query else AREA))


def _replay(session: Session, request: Request, body: Any) -> dict[str, Any]:
    with COMPUTING:
        return replayed(session, session.view(request.query_params), body)


def _count(request: Request) -> int:
    """Return the number of columns that the page has room for."""
    text = request.query_params.get("columns", "")
    return int(text) if text.isascii() and text.isdigit() and int(text[:9]) in BROWSER_WIDTHS else COLUMNS


ANSWERS: dict[str, Answer] = {
    "source": _source,
    "view": _view,
    "figures": _figures,
    "queue": _queue,
    "lanes": _lanes,
    "comparison": _comparison,
    "request": _request,
    "requests": _parquet,
    "replay": _replay,
}
"""Path below ``/api/`` -> what answers it."""
POSTED = frozenset(("replay",))
