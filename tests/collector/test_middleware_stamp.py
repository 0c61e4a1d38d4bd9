"""The stamp: the shared table through the parser and through both whole stacks, and the rules as laws."""

from __future__ import annotations

import re
from typing import Any

import pytest
from collector_support import (
    CASES,
    NOW_US,
    ManualClock,
    asgi_answer,
    call_asgi,
    call_wsgi,
    environ_of,
    limits_of,
    scope_of,
)
from hypothesis import given
from hypothesis import strategies as st
from sojourn_middleware import REASONS, STAMP_HEADERS, ASGIMiddleware, Stamp, StampReader, WSGIMiddleware, parse_stamp

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])


def expected_header(case: dict[str, Any]) -> str | None:
    """The X-Queueing-Delay the stack must answer at the table's instant."""
    return f"{(NOW_US - case['start_us']) / 1e6:.6f}" if "start_us" in case else None


def test_table_is_large_and_consistent() -> None:
    assert len(CASES) >= 45
    assert len({case["name"] for case in CASES}) == len(CASES)
    assert all(("start_us" in case) != ("reason" in case) for case in CASES)
    assert {case["reason"] for case in CASES if "reason" in case} == set(REASONS)


@each_case
def test_reader(case: dict[str, Any]) -> None:
    values = [[value for name, value in case["headers"] if name.lower() == header.lower()] for header in STAMP_HEADERS]
    result = StampReader(**limits_of(case)).read(values, NOW_US)
    assert result == Stamp(case.get("start_us"), case.get("reason"))


@each_case
def test_through_wsgi(case: dict[str, Any]) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"ok"]

    stack = WSGIMiddleware(app, telemetry=False, clock=ManualClock(), **limits_of(case))
    answer = call_wsgi(stack, environ_of(case["headers"]))
    assert answer.headers.get("x-queueing-delay") == expected_header(case)
    expected = None if case.get("reason") == "missing" else "0.000000"
    assert answer.headers.get("x-service-time") == expected


@each_case
def test_through_asgi(case: dict[str, Any]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    stack = ASGIMiddleware(app, telemetry=False, clock=ManualClock(), **limits_of(case))
    answer = asgi_answer(call_asgi(stack, scope_of(case["headers"])))
    assert answer.headers.get("x-queueing-delay") == expected_header(case)
    expected = None if case.get("reason") == "missing" else "0.000000"
    assert answer.headers.get("x-service-time") == expected


def test_asgi_names_in_any_case() -> None:
    """A server that does not lower the names breaks the specification; the stamp is still read."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    scope = scope_of([])
    scope["headers"] = [(b"X-REQUEST-Start", b"t=1767225599.000")]
    answer = asgi_answer(call_asgi(ASGIMiddleware(app, telemetry=False, clock=ManualClock()), scope))
    assert answer.headers["x-queueing-delay"] == "1.000000"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "60", None])
@pytest.mark.parametrize("option", ["max_age", "max_future", "clock_offset"])
def test_bad_options_are_refused_at_once(option: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=option):
        WSGIMiddleware(lambda environ, start_response: [], **{option: bad})


@pytest.mark.parametrize("option", ["max_age", "max_future"])
def test_a_negative_limit_is_refused_but_not_a_negative_offset(option: str) -> None:
    WSGIMiddleware(lambda environ, start_response: [], clock_offset=-1)
    with pytest.raises(ValueError, match=option):
        WSGIMiddleware(lambda environ, start_response: [], **{option: -1})


@pytest.mark.parametrize("blank", ["\n", "\r", "\v", "\f", "\x00", "\xa0", "\u2003"])
def test_only_spaces_and_tabs_are_stripped(blank: str) -> None:
    for value in (f"1767225599{blank}", f"{blank}1767225599"):
        assert parse_stamp(value) == "not_a_number"


@pytest.mark.parametrize("digits", ["\u0661767225599", "1767225599.\u0661", "\uff11767225599"])
def test_only_ascii_digits_are_digits(digits: str) -> None:
    assert parse_stamp(digits) == "not_a_number"


LIKELY = st.text(alphabet="t=0123456789., -+eExT\t", max_size=30)
NUMBERS = st.from_regex(r"\A(t=)?[1-9][0-9]{7,20}(\.[0-9]{1,11})?\Z")


@given(st.one_of(st.text(max_size=60), LIKELY, NUMBERS))
def test_parser_never_raises_and_accepts_only_what_the_rules_say(value: str) -> None:
    result = parse_stamp(value)
    stripped = value.strip(" \t")
    accepted = re.fullmatch(
        r"(?:t=)?(?:[1-9][0-9]{9}(?:\.[0-9]{1,9})?|[1-9][0-9]{12}(?:\.[0-9]{1,6})?|[1-9][0-9]{15}|[1-9][0-9]{18})",
        stripped,
    )
    if accepted:
        assert isinstance(result, int)
        # Whatever the unit, a microsecond count of this era has sixteen digits.
        assert len(str(result)) == 16
    else:
        assert result in REASONS[:4]
        assert (result == "missing") == (stripped == "")
        assert (result == "list") == ("," in stripped)


@given(st.integers(min_value=10**15, max_value=10**16 - 1))
def test_the_same_instant_in_every_unit(instant_us: int) -> None:
    seconds, micros = divmod(instant_us, 1_000_000)
    millis, rest = divmod(instant_us, 1000)
    written = [f"{seconds}.{micros:06d}", f"{millis}.{rest:03d}", f"{instant_us}", f"{instant_us}999"]
    for value in written:
        assert parse_stamp(value) == instant_us
        assert parse_stamp(f"t={value}") == instant_us


@given(
    st.lists(st.lists(NUMBERS | LIKELY, max_size=3), min_size=2, max_size=2),
    st.integers(min_value=10**15, max_value=10**16),
)
def test_reader_answers_with_exactly_one_of_value_and_reason(values: list[list[str]], now_us: int) -> None:
    stamp = StampReader().read(values, now_us)
    assert (stamp.start_us is None) != (stamp.reason is None)
    if stamp.start_us is not None:
        assert now_us - 3_600_000_000 <= stamp.start_us <= now_us + 10_000_000
        assert stamp.status == "ok"
    else:
        assert stamp.status in {"missing", "unparsable", "future", "stale"}
