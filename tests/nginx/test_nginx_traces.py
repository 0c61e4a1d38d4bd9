"""The trace context: by default the app gets what it gets without Sojourn, and decides alone what is sampled."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from nginx_support import LOCATION, TRUSTED, get, logged
from nginx_upstream import Request, Upstream
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, ParentBasedTraceIdRatio
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from sojourn_lab.runtime.nginx import Nginx

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"
STATE = "rojo=1,congo=2"
STARTED = 'map "" $sojourn_trace { default 01; }'
SETTINGS = {
    "default": "",
    "pass": 'map "" $sojourn_trace { default pass; }',
    "drop": 'map "" $sojourn_trace { default drop; }',
    "00": 'map "" $sojourn_trace { default 00; }',
    "01": STARTED,
    "a typing error": 'map "" $sojourn_trace { default strat; }',
}
PLAIN = "location / { proxy_pass http://app; }"
INVALID = [
    "",
    f"00-{TRACE.upper()}-{PARENT}-01",
    f"00-{TRACE}-{PARENT.upper()}-01",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"ff-{TRACE}-{PARENT}-01",
    f"00-{TRACE}-{PARENT}-01-more",
    f"00-{TRACE}-{PARENT}-01-",
    f"00-{TRACE}-{PARENT}-1",
    f"00-{TRACE}-{PARENT}-011",
    f"01-{TRACE}-{PARENT}-01more",
    f"00-{TRACE}-{PARENT}",
    f"0-{TRACE}-{PARENT}-01",
    f"00-{TRACE[:-1]}-{PARENT}-01",
    f"00_{TRACE}_{PARENT}_01",
    f"00-{TRACE}-{PARENT}-01, 00-{TRACE}-{PARENT}-01",
    b"cc-" + TRACE.encode() + b"-" + PARENT.encode() + b"-01-\xff",
]
Headers = list[tuple[str, str | bytes]]
CLIENTS: dict[str, Headers] = {
    "no trace": [],
    "sampled": [("traceparent", VALID), ("tracestate", STATE)],
    "not sampled": [("traceparent", VALID.removesuffix("01") + "00")],
    "invalid": [("traceparent", "junk"), ("tracestate", STATE)],
    "a state alone": [("tracestate", STATE)],
}


def context_of(request: Request) -> dict[str, list[str]]:
    """The trace context that the app received."""
    return {name: request.values(name) for name in ("traceparent", "tracestate")}


def sampled(request: Request, ratio: float) -> bool:
    """The decision of the default sampler of OpenTelemetry's SDKs for a ratio."""
    headers = {name: values[0] for name, values in context_of(request).items() if values}
    parent = TraceContextTextMapPropagator().extract(headers, Context())
    # The trace id of a request without a parent is drawn by the app: here one that the ratio decides alone.
    decision = ParentBasedTraceIdRatio(ratio).should_sample(parent, int(TRACE, 16), "GET").decision
    return decision is Decision.RECORD_AND_SAMPLE


@pytest.mark.parametrize("trusted", [TRUSTED, "# none\n"], ids=["trusted", "untrusted"])
@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("client", CLIENTS)
def test_the_default_does_not_change_what_is_sampled(
    shop: Callable[..., Nginx], app: Upstream, client: str, ratio: float, trusted: str
) -> None:
    nginx = shop(f"{LOCATION} {PLAIN.replace('/ ', '/plain ')}", trusted=trusted)
    for path in ("/", "/plain"):
        get(nginx, path, headers=CLIENTS[client])
    with_sojourn, without = app.requests
    assert context_of(with_sojourn) == context_of(without)
    assert sampled(with_sojourn, ratio) == sampled(without, ratio)


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_trace_that_nginx_starts_decides_for_the_app(shop: Callable[..., Nginx], app: Upstream, flags: str) -> None:
    nginx = shop(http=SETTINGS[flags])
    get(nginx, headers=CLIENTS["sampled"])
    (row,) = logged(nginx)
    (request,) = app.requests
    assert request.values("traceparent") == [f"00-{row['trace_id']}-{row['span_id']}-{flags}"]
    assert request.values("tracestate") == []
    assert row["trace_id"] == row["request_id"] != TRACE
    assert [sampled(request, ratio) for ratio in (0.0, 1.0)] == [flags == "01"] * 2


@pytest.mark.parametrize("setting", ["drop", "a typing error"])
@pytest.mark.parametrize("trusted", [TRUSTED, "# none\n"], ids=["trusted", "untrusted"])
def test_a_dropped_context_is_sent_by_trusted_peers_only(
    shop: Callable[..., Nginx], app: Upstream, setting: str, trusted: str
) -> None:
    nginx = shop(http=SETTINGS[setting], trusted=trusted)
    get(nginx, headers=CLIENTS["sampled"])
    (row,) = logged(nginx)
    is_trusted = trusted == TRUSTED
    assert context_of(app.requests[0]) == {
        "traceparent": [VALID] if is_trusted else [],
        "tracestate": [STATE] if is_trusted else [],
    }
    assert (row["trace_id"], row["span_id"]) == ((TRACE, PARENT) if is_trusted else ("", ""))


def test_the_setting_of_a_location(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(f"{LOCATION} {LOCATION.replace('/ {', '/traced { set $sojourn_trace 01;')}")
    get(nginx)
    get(nginx, "/traced")
    rows = logged(nginx, 2)
    assert [row["trace_id"] for row in rows] == ["", rows[1]["request_id"]]
    assert app.requests[0].values("traceparent") == []
    assert app.requests[1].values("traceparent") == [f"00-{rows[1]['trace_id']}-{rows[1]['span_id']}-01"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_chooses_no_span_to_join(shop: Callable[..., Nginx], app: Upstream, client: str) -> None:
    """The log has the trace of a valid traceparent; its parent id, by which spans are joined, only of trusted peers."""
    nginx = shop()
    get(nginx, headers=CLIENTS[client])
    (row,) = logged(nginx)
    assert row["trace_id"] == (TRACE if "sampled" in client else "")
    assert row["span_id"] == ""
    assert app.requests[0].values("x-request-id") == [row["request_id"]]


@pytest.mark.parametrize("value", INVALID)
def test_an_invalid_traceparent_of_a_client_is_not_logged(
    shop: Callable[..., Nginx], app: Upstream, value: str | bytes
) -> None:
    nginx = shop()
    get(nginx, headers=[("traceparent", value)])
    (row,) = logged(nginx)
    assert (row["trace_id"], row["span_id"]) == ("", "")


@pytest.mark.parametrize(
    "value",
    [
        VALID,
        f"00-{TRACE}-{PARENT}-00",
        f"00-{TRACE}-{PARENT}-ff",
        f"01-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01-what-the-future-will-be-like",
    ],
)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_valid_traceparent_of_a_trusted_peer_is_kept(
    shop: Callable[..., Nginx], app: Upstream, value: str, setting: str
) -> None:
    nginx = shop(trusted=TRUSTED, http=SETTINGS[setting])
    get(nginx, headers=[("traceparent", value), ("tracestate", STATE)])
    (row,) = logged(nginx)
    assert (row["trace_id"], row["span_id"]) == (TRACE, PARENT)
    assert context_of(app.requests[0]) == {"traceparent": [value], "tracestate": [STATE]}


@pytest.mark.parametrize("value", INVALID)
def test_an_invalid_traceparent_is_replaced_and_its_state_dropped(
    shop: Callable[..., Nginx], app: Upstream, value: str | bytes
) -> None:
    nginx = shop(trusted=TRUSTED, http=STARTED)
    get(nginx, headers=[("traceparent", value), ("tracestate", "rojo=1")])
    (row,) = logged(nginx)
    assert row["trace_id"] == row["request_id"] != TRACE
    assert context_of(app.requests[0]) == {
        "traceparent": [f"00-{row['trace_id']}-{row['span_id']}-01"],
        "tracestate": [],
    }


def test_generated_ids_are_valid_and_unique_as_a_pair(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(http=STARTED)
    for _ in range(40):
        get(nginx)
    rows = logged(nginx, 40)
    for row, request in zip(rows, app.requests, strict=True):
        assert re.fullmatch("[0-9a-f]{32}", row["trace_id"])
        assert request.values("traceparent") == [f"00-{row['trace_id']}-{row['span_id']}-01"]
        assert request.values("x-request-id") == [row["request_id"]]
    (parent,) = {row["span_id"] for row in rows}  # a constant: a parent id must be unique within its trace only
    assert re.fullmatch("[0-9a-f]{16}", parent)
    assert parent != "0" * 16
    assert len({(row["trace_id"], row["span_id"]) for row in rows}) == 40


def test_rejected_traceparent_of_a_trusted_peer_gets_the_same_parent_id(
    shop: Callable[..., Nginx], app: Upstream
) -> None:
    nginx = shop(trusted=TRUSTED, http=STARTED)
    get(nginx)
    get(nginx, headers=[("traceparent", "junk")])
    first, second = logged(nginx, 2)
    assert first["span_id"] == second["span_id"]
    assert first["trace_id"] != second["trace_id"]
    sent = [request.values("traceparent") for request in app.requests]
    assert sent == [[f"00-{row['trace_id']}-{row['span_id']}-01"] for row in (first, second)]
