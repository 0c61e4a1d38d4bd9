"""What spans and answers of the middleware hold of a request: no query, no address of a client, no other header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collector_support import eventually, fetch, gunicorn, served, uvicorn

SECRET = "s3cr3t-t0k3n"
HEADERS = {
    "X-Request-ID": "request-1",
    "Cookie": SECRET,
    "Authorization": f"Bearer {SECRET}",
    "Referer": f"https://shop.example/?{SECRET}",
    "User-Agent": SECRET,
    "X-Forwarded-For": "203.0.113.77",
    "Baggage": f"token={SECRET}",
}


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {value["key"]} if "key" in value else set().union(*(keys_of(each) for each in value.values()))
    return set().union(*(keys_of(each) for each in value)) if isinstance(value, list) else set()


@pytest.mark.parametrize(
    "command", [gunicorn("bare_app:application"), uvicorn("fastapi_app:app")], ids=["wsgi", "asgi"]
)
def test_a_span_holds_the_path_and_the_request_id(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    with served(command, tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, _):
        answer = fetch(port, f"/marked?token={SECRET}", HEADERS)
        eventually(lambda: file.exists() and file.read_text(), "the span")
    text = file.read_text()
    assert SECRET not in text
    assert "203.0.113.77" not in text
    names = keys_of([json.loads(line) for line in text.splitlines()])
    assert "url.path" in names
    assert not names & {"url.query", "url.full", "client.address", "network.peer.address", "user_agent.original"}
    assert {name for name in names if ".header." in name} == {"http.request.header.x-request-id"}
    assert SECRET not in str(answer.headers)
