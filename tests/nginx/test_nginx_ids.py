"""The request id: kept from a trusted peer when valid, made otherwise, logged as sent."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from nginx_support import TRUSTED, get, logged
from nginx_upstream import Upstream
from sojourn_lab.runtime.nginx import Nginx

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "value", ["a", "4f0c1e", "0191f3d4-7c2e-7a68-9f35-2d1c0b7f6e5a", "Root=1-67891233-abc/def+=@:~._", "x" * 128]
)
def test_a_trusted_request_id_is_kept(shop: Callable[..., Nginx], app: Upstream, value: str) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("X-Request-ID", value)])
    (row,) = logged(nginx)
    assert row["request_id"] == value
    assert app.requests[0].values("x-request-id") == [value]


@pytest.mark.parametrize(
    "value", ["", "two words", 'quo"te', "back\\slash", "a,b", "a;b", "<b>", "{{x}}", "x" * 129, b"\xff", b"\xc3\xa4"]
)
def test_a_request_id_that_is_not_safe_is_replaced(
    shop: Callable[..., Nginx], app: Upstream, value: str | bytes
) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("X-Request-ID", value)])
    (row,) = logged(nginx)
    assert re.fullmatch("[0-9a-f]{32}", row["request_id"])
    assert app.requests[0].values("x-request-id") == [row["request_id"]]


def test_peer_listed_with_zero_is_not_trusted(shop: Callable[..., Nginx], app: Upstream) -> None:
    started = 'map "" $sojourn_trace { default 01; }'
    nginx = shop(trusted="127.0.0.0/8 1; 127.0.0.1 0;\n", http=started)
    headers: list[tuple[str, str | bytes]] = [("X-Request-ID", "spoofed"), ("X-Request-Start", "t=1700000000.000")]
    get(nginx, headers=[*headers, ("traceparent", f"00-{TRACE}-{PARENT}-01"), ("tracestate", "rojo=1")])
    (row,) = logged(nginx)
    assert row["request_id"] == row["trace_id"] not in {"spoofed", TRACE}
    assert row["stamp"] == "own"
    assert app.requests[0].values("traceparent") == [f"00-{row['trace_id']}-{row['span_id']}-01"]
    assert app.requests[0].values("tracestate") == []
