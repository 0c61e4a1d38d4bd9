"""nginx without njs: the same record, and of trusted peers only stamps that plain directives can check."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nginx_support import TRUSTED, get, logged
from nginx_upstream import Upstream
from sojourn_lab.runtime.nginx import Nginx

Shop = Callable[..., Nginx]


def without_njs(conf: Path) -> None:
    """Take the module and its include out of nginx.conf."""
    lines = [line for line in conf.read_text().splitlines() if "load_module" not in line]
    conf.write_text("\n".join(lines).replace("sojourn/sojourn.conf", "sojourn/sojourn_without_njs.conf") + "\n")


def test_logs_and_stamps_without_the_module(shop: Shop, app: Upstream) -> None:
    nginx = shop(edit=without_njs)
    assert "ngx_http_js_module" not in (nginx.folder / "nginx.conf").read_text()
    get(nginx, headers=[("X-Request-Start", "t=1")])
    (row,) = logged(nginx)
    assert (row["stamp"], row["request_start"]) == ("own", row["proxy_start"])
    assert app.requests[0].values("x-request-start") == [f"t={row['request_start']}"]


@pytest.mark.parametrize("age", [0.0, 0.5, 3.0, 9.0])
def test_uses_the_stamp_of_a_trusted_peer(shop: Shop, app: Upstream, age: float) -> None:
    """Once in a hundred seconds the ten seconds before are not recognised; the test waits until these are over."""
    nginx = shop(trusted=TRUSTED, edit=without_njs)
    deadline = time.monotonic() + 30
    while time.time() % 100 < 10.5 or time.time() % 100 > 99:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    stamp = f"t={time.time() - age:.3f}"
    get(nginx, headers=[("X-Request-Start", stamp)])
    (row,) = logged(nginx)
    assert (row["stamp"], row["request_start"]) == ("inbound", stamp.removeprefix("t="))
    assert app.requests[0].values("x-request-start") == [stamp]


@pytest.mark.parametrize(
    "value",
    ["t=1", "{now:.6f}", "t={now_ms:.0f}", "nonsense", "t={late:.3f}", "t={old:.3f}", "t={now:.3f}, t={now:.3f}"],
)
def test_refuses_what_it_cannot_check(shop: Shop, app: Upstream, value: str) -> None:
    nginx = shop(trusted=TRUSTED, edit=without_njs)
    now = time.time()
    text = value.format(now=now, now_ms=now * 1000, late=now + 30, old=now - 40)
    get(nginx, headers=[("X-Request-Start", text)])
    (row,) = logged(nginx)
    assert (row["stamp"], row["request_start"]) == ("refused:unchecked", row["proxy_start"])
    assert app.requests[0].values("x-request-start") == [f"t={row['proxy_start']}"]
