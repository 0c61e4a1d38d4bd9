"""The stamp in a request's headers: Python, njs and Ruby make of every header the same instant, or the same refusal.

A line is the value of an ``X-Request-Start``; one that begins with ``Q`` of an ``X-Queue-Start``.
"""

from __future__ import annotations

from random import Random

from sojourn_middleware.request import EnvironRequest, ScopeRequest
from sojourn_middleware.stamp import REASONS, Stamp, StampReader

from fuzz import nasty, peers

PACKAGES: tuple[str, ...] = ("sojourn_middleware",)
NOW_US = 1_767_225_600_000_000
MAX_AGE, MAX_FUTURE = 3600, 10
_READER = StampReader(MAX_AGE, MAX_FUTURE)


def check(data: bytes) -> None:
    """The verdict is one of those there are, within the limits, and alike through WSGI and ASGI."""
    headers = headers_of(data)
    result = verdict(headers)
    assert (result.start_us is None) != (result.reason is None)
    if result.reason is not None:
        assert result.reason in REASONS
    else:
        assert result.start_us is not None
        assert NOW_US - MAX_AGE * 10**6 <= result.start_us <= NOW_US + MAX_FUTURE * 10**6
    assert verdict_of_wsgi(headers) == result, headers


def compare(batch: list[bytes]) -> None:
    """The other languages, each in one process."""
    cases = [headers_of(data) for data in batch]
    own = [result.reason if result.start_us is None else result.start_us for result in map(verdict, cases)]
    for reported in (peers.stamps_by_ruby(cases, NOW_US), peers.stamps_by_njs(cases, NOW_US)):
        if reported is not None:
            differ = [
                (case, mine, other) for case, mine, other in zip(cases, own, reported, strict=True) if mine != other
            ]
            assert not differ, differ[:5]


def headers_of(data: bytes) -> list[tuple[str, str]]:
    """Names and values, in their order. A server lets no NUL and no line end into a header."""
    lines = data.replace(b"\0", b"").replace(b"\r", b"").split(b"\n")[:5]
    named = [("X-Queue-Start", line[1:]) if line[:1] == b"Q" else ("X-Request-Start", line) for line in lines]
    return [(name, value.decode("latin-1")) for name, value in named]


def verdict(headers: list[tuple[str, str]]) -> Stamp:
    """As an ASGI server hands them over, each by itself."""
    scope = {"headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]}
    return _READER.read(ScopeRequest(scope).stamp_values(), NOW_US)


def verdict_of_wsgi(headers: list[tuple[str, str]]) -> Stamp:
    """As a WSGI server hands them over, joined by commas."""
    environ: dict[str, str] = {}
    for name, value in headers:
        key = "HTTP_" + name.upper().replace("-", "_")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return _READER.read(EnvironRequest(environ).stamp_values(), NOW_US)


def generated(rng: Random) -> bytes:
    """One header or two, near the clock's own instant, in any unit."""
    return b"\n".join(_line(rng) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _line(rng: Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice((b"", b"Q", b" ", b"Q\t"))
    us = NOW_US + rng.choice(
        (0, 1, -1, 10**7, 10**7 + 1, -36 * 10**8, -36 * 10**8 - 1, rng.randrange(-(10**10), 10**8))
    )
    unit = rng.randrange(6)
    text = [
        f"{us // 10**6}.{us % 10**6:0{rng.randrange(1, 10)}d}", str(us // 10**6), f"{us // 1000}.{us % 1000:03d}",
        str(us // 1000), str(us), f"{us}{rng.randrange(1000):03d}",
    ][unit]  # fmt: skip
    if rng.random() < 0.2:
        text = rng.choice((*nasty.NUMBERS, *nasty.INSTANTS))
    line = (
        rng.choice(("t=", "", "", "T=", "t= ", " t=", "t=="))
        + text
        + rng.choice(("", "", "", " ", "\t", ",", ", " + text))
    )
    return (rng.choice(("", "", "Q", " ")) + line).encode("utf-8", "surrogatepass")
