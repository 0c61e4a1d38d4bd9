"""The page answers itself only: hosts, origins, the token, methods, sizes and names of files."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from page_client import ADDRESS, TOKEN, PageClient
from sojourn.serve.guard import HEADER, LARGEST, Guard, new_token

GOOD = {HEADER: TOKEN}


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "localhost", "[::1]:9000", "127.0.0.1"])
def test_answers_loopback_hosts_on_any_port(page: PageClient, host: str) -> None:
    assert page.http.get("/api/source", headers={**GOOD, "Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example:8080", "",
        "127.0.0.2:8080",
        "evil.example#localhost:1", "localhost:8080@evil.example", "LOCALHOST.", "10.0.0.1:8080",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/main.js", "/api/source"])
def test_refuses_other_hosts_even_with_the_token(page: PageClient, host: str, path: str) -> None:
    answer = page.http.get(path, headers={**GOOD, "Host": host})
    assert answer.status_code == 421
    assert "names" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8080"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_refuses_other_origins_even_with_the_token(page: PageClient, headers: dict[str, str], method: str) -> None:
    path = "/api/source" if method == "GET" else "/api/replay"
    assert page.http.request(method, path, headers={**GOOD, **headers}).status_code == 403


def test_answers_its_own_origin(page: PageClient) -> None:
    headers = {**GOOD, "Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
    assert page.http.get("/api/source", headers=headers).status_code == 200


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "é"])
@pytest.mark.parametrize("name", ["source", "view", "figures", "queue", "lanes", "request", "requests", "nothing"])
def test_refuses_data_without_the_token(page: PageClient, token: str | None, name: str) -> None:
    headers = {} if token is None else {HEADER: token.encode()}
    answer = page.http.get(f"/api/{name}", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert "shop" not in answer.text


def test_token_in_an_address_gives_no_data(page: PageClient) -> None:
    assert page.http.get("/api/source", params={"token": TOKEN}).status_code == 401


def test_tokens_are_long_and_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 32


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_refuses_other_methods(page: PageClient, method: str) -> None:
    assert page.http.request(method, "/api/source", headers=GOOD).status_code == 405


def test_data_is_read_by_get_and_replays_by_post_only(page: PageClient) -> None:
    assert page.http.post("/api/source", headers=GOOD).status_code == 405
    assert page.http.get("/api/replay", headers=GOOD).status_code == 405


def test_refuses_a_large_body(page: PageClient) -> None:
    assert page.http.post("/api/replay", headers=GOOD, content=b" " * (LARGEST + 1)).status_code == 413
    assert page.http.post("/api/replay", headers=GOOD, content=iter([b"{}"])).status_code == 413


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"nonsense", b"[" * 50_000])
def test_refuses_a_body_that_is_no_json(page: PageClient, content: bytes) -> None:
    answer = page.http.post("/api/replay", headers=GOOD, content=content)
    assert answer.status_code == 400
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/..%2fserver.py", "/%2e%2e/server.py", "/static/main.js", "/server.py", "/__init__.py", "//etc/passwd",
        "/main.js/", "/index.html%00.js", "/nothing.js", "/.css",
    ],
)  # fmt: skip
def test_serves_its_own_files_only(page: PageClient, path: str) -> None:
    assert page.http.get(path).status_code == 404


PAGE_FILES = ("", "index.html", "serve.css", "main.js", "lanes.js", "icon.svg", "vega.js")


@pytest.mark.parametrize("path", [*(f"/{name}" for name in PAGE_FILES), "/nothing", "/api/source", "/api/view?from=x"])
def test_every_answer_has_the_strict_headers_and_no_cookie(page: PageClient, path: str) -> None:
    answer = page.http.get(path, headers=GOOD)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "set-cookie" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


def test_page_itself_has_no_data(page: PageClient) -> None:
    answers = [page.http.get(f"/{name}") for name in PAGE_FILES]
    assert [answer.status_code for answer in answers] == [200] * len(PAGE_FILES)
    for answer in answers:
        assert "shop.jsonl" not in answer.text
        assert TOKEN not in answer.text


def test_a_websocket_is_not_answered() -> None:
    sent: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        sent.append(scope["type"])

    asyncio.run(Guard(application, TOKEN)({"type": "websocket", "headers": []}, None, None))  # type: ignore[arg-type]
    assert sent == []
