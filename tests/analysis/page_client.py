"""A client of a served page, with its token; nothing goes over a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sojourn.serve.application import application
from sojourn.serve.guard import HEADER
from sojourn.serve.session import Session, Sessions
from sojourn.serve.view import Options
from sojourn.sources.opening import open_sources
from starlette.testclient import TestClient

TOKEN = "a token of the tests"
ADDRESS = "http://127.0.0.1:8080"


EXAMPLES = Path(__file__).parents[2] / "docs/examples"
SHOP, SPANS = str(EXAMPLES / "shop.jsonl.gz"), str(EXAMPLES / "shop-spans.jsonl.gz")
COLUMNS = ("request_id", "remote_addr", "connection")


def session_of(*sources: str, spans: tuple[str, ...] = (), columns: tuple[str, ...] = COLUMNS) -> Session:
    """Return the session of sources, as the command makes it."""
    with open_sources(sources, spans=spans, columns=columns) as requests:
        reading = tuple(word for each in spans for word in ("--spans", each))
        return Session.of(requests, Options(sources, reading))


class PageClient:
    """Asks a page for data.

    Attributes:
        http: sends requests without a token.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.http = TestClient(application(sessions, TOKEN), base_url=ADDRESS)

    def close(self) -> None:
        """Close the client."""
        self.http.close()

    def get(self, name: str, **query: Any) -> dict[str, Any]:
        """Return an answer; ``from_`` is the parameter ``from``."""
        answer = self.raw(name, **query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def refusal(self, name: str, **query: Any) -> str:
        """Return the reason why there is no answer."""
        answer = self.raw(name, **query)
        assert answer.status_code == 200, answer.text
        assert list(answer.json()) == ["unavailable"]
        return str(answer.json()["unavailable"])

    def error(self, name: str, **query: Any) -> str:
        """Return what is wrong with a parameter."""
        answer = self.raw(name, **query)
        assert answer.status_code == 400, answer.text
        return str(answer.json()["error"])

    def raw(self, name: str, body: Any = None, **query: Any) -> Any:
        """Return the response; with a ``body`` it is sent."""
        parameters = {key.rstrip("_"): value for key, value in query.items()}
        headers = {HEADER: TOKEN}
        if body is None:
            return self.http.get(f"/api/{name}", params=parameters, headers=headers)
        return self.http.post(f"/api/{name}", params=parameters, headers=headers, json=body)
