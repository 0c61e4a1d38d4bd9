"""A client forges every header that Sojourn reads; with the doctor's lines no stamp and no id of it reaches a real app.

The trace context reaches it as without Sojourn, unless ``$sojourn_trace`` drops it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from apps_behind import INCLUDED, METHOD, Way, exchanged, nginx_before, way_to
from doctor_faults import EARLIER_HEADERS, setting_line
from doctor_support import Laid, running
from sojourn.doctor.nginx_headers import FAMILIES, HEADER_FAMILIES
from sojourn_lab.runtime.nginx import Nginx

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")

SERVER = """\
underscores_in_headers on;

        location EARLIER_PATH {
            PASS
            EARLIER
        }

        location NONE_PATH {
            PASS
        }\
"""
INCLUDES = {
    "with the includes": INCLUDED,
    "with the includes, and traces dropped": f'{INCLUDED}\n    map "" $sojourn_trace {{ default drop; }}',
    "without the includes": "access_log @FOLDER@/access.jsonl;",
}
WITHOUT, DROPPED = "without the includes", "with the includes, and traces dropped"
CONTEXT = ("traceparent", "tracestate")


def conf_of(folder: Path, way: Way, includes: str) -> Laid:
    """nginx in front of one app: one location with some of the lines, one without a stamp."""
    some = (("X-Request-Start", '"t=${msec}"'),) if includes == WITHOUT else EARLIER_HEADERS
    paths = ("/shop.Cart/", "/shop.Other/") if way.family == "grpc" else ("/earlier", "/none")
    values = {
        "EARLIER_PATH": paths[0],
        "NONE_PATH": paths[1],
        "PASS": "\n            ".join(way.lines),
        "EARLIER": "\n".join(setting_line(way.family, *each) for each in some),
    }
    server = SERVER
    for name, value in values.items():
        server = server.replace(name, value)
    return nginx_before(folder, way.family, server, INCLUDES[includes])


def forged(family: str) -> list[tuple[str, str]]:
    """Every header, as a client forges it: a stamp of 500 s ago, twice, and names of its own."""
    old = [f"t={time.time() - age:.3f}" for age in (500, 501, 502)]
    headers = [
        ("X-Request-Start", old[0]),
        ("X-Queue-Start", old[1]),
        ("X-Queue-Start", old[2]),
        ("X-Request-ID", "forged-id"),
        ("traceparent", f"00-{'f0' * 16}-{'f0' * 8}-01"),
        ("tracestate", "forged=1"),
    ]
    if family in HEADER_FAMILIES:
        return headers
    # Names with underscores become the same parameters of CGI.
    return [*headers, *((name.replace("-", "_"), value) for name, value in headers if "-" in name)]


def received(conf: Laid, family: str, path: str, headers: list[tuple[str, str]]) -> dict[str, str]:
    """The headers that reach the app, by HTTP's names in small letters."""
    if family == "grpc":
        path = METHOD if path == "/earlier" else METHOD.replace("Cart", "Other")
    return exchanged(conf.ports["PORT"], family, path, headers)[0]


def assert_nothing_forged(headers: dict[str, str], sent: list[tuple[str, str]], includes: str) -> None:
    values = {value for name, value in sent if name not in CONTEXT}
    assert not {name: value for name, value in headers.items() if any(each in value for each in values)}
    assert time.time() - 60 < float(headers["x-request-start"].removeprefix("t=")) < time.time() + 1
    assert "x-queue-start" not in headers
    assert len(headers["x-request-id"]) == 32
    passed = {} if includes == DROPPED else {name: value for name, value in sent if name in CONTEXT}
    assert {name: headers[name] for name in CONTEXT if headers.get(name)} == passed


@pytest.mark.parametrize("includes", INCLUDES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_forged_header_reaches_the_app(tmp_path: Path, family: str, includes: str) -> None:
    with way_to(family, tmp_path) as way:
        conf = conf_of(tmp_path / "nginx", way, includes)
        sent = forged(family)
        with running(conf):
            before = received(conf, family, "/earlier", sent)
            assert any(value in before["x-queue-start"] for name, value in sent if name == "X-Queue-Start")
            assert "forged" in before["tracestate"]
        findings = [each for each in conf.diagnosed().findings if each.code in ("stamp-missing", "headers-pass")]
        assert sorted(each.code for each in findings) == ["headers-pass", "stamp-missing"]
        conf.apply(tuple(edit for each in findings for edit in each.edits))
        codes = {each.code for each in conf.diagnosed().findings}
        assert not {code for code in codes if code.startswith(("stamp-", "headers-pass"))}
        with running(conf):
            for path in ("/earlier", "/none"):
                assert_nothing_forged(received(conf, family, path, sent), sent, includes)
        if includes != WITHOUT:
            assert_no_queue(conf)


def assert_no_queue(conf: Laid) -> None:
    """The log of a stopped nginx: two requests with its own stamps, and no queue of 500 s."""
    rows = [json.loads(line) for line in (conf.folder / "access.jsonl").read_text().splitlines()]
    assert [row["stamp"] for row in rows] == ["own", "own"]
    assert all(-1 < float(row["queueing_delay"]) < 60 for row in rows)
