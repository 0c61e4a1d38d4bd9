"""Every test here gets a real nginx, and every nginx is checked when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nginx_support import LOCATION, app_upstream, rows_of
from nginx_upstream import Answer, Upstream
from sojourn_lab.runtime.nginx import Nginx

Serve = Callable[..., Nginx]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts nginx: serve(server_text, http=…, files=…); several may run at once."""
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)
    started: list[Nginx] = []

    def start(server: str = LOCATION, **settings: object) -> Nginx:
        folder = tmp_path / f"run{len(started)}"
        nginx = Nginx(folder, server, access_log=folder / "access.jsonl", **settings)  # type: ignore[arg-type]
        started.append(nginx)
        return nginx.start()

    yield start
    for nginx in started:
        nginx.stop()
    for nginx in started:
        assert nginx.alerts() == []
        assert "no buffer space" not in nginx.error_log_text()
        rows_of(nginx.access_log)


@pytest.fixture
def upstream() -> Iterator[Callable[..., Upstream]]:
    """Starts an upstream with an answer; closed after the test, before nginx."""
    started: list[Upstream] = []

    def start(answer: Answer | None = None) -> Upstream:
        one = Upstream(answer) if answer else Upstream()
        started.append(one)
        return one

    yield start
    for one in started:
        one.close()


@pytest.fixture
def app(upstream: Callable[..., Upstream]) -> Upstream:
    """An upstream that says ok at once."""
    return upstream()


@pytest.fixture
def shop(serve: Serve, app: Upstream) -> Callable[..., Nginx]:
    """nginx in front of `app`: shop(server_text, http=more, trusted=text)."""

    def start(server: str = LOCATION, *, http: str = "", trusted: str = "", **settings: object) -> Nginx:
        files = {"trusted.conf": trusted} if trusted else {}
        return serve(server, http=app_upstream(app.address) + http, files=files, **settings)

    return start
