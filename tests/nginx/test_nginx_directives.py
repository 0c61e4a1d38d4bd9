"""The include of each directive that passes requests to an app, with a real server at a port and a Unix socket."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from apps_behind import METHOD, exchanged, nginx_before, way_to
from doctor_support import DEADLINE_S, running
from nginx_support import rows_of
from sojourn.doctor.nginx_headers import ANSWER_HEADERS, FAMILIES
from sojourn.doctor.nginx_records import FULL
from sojourn_lab.runtime.nginx import Nginx, nginx_program

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")


CONTEXT = [("traceparent", f"00-{'4b' * 16}-{'f0' * 8}-00"), ("tracestate", "rojo=1")]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_trace_context_without_one_of_the_client(tmp_path: Path, family: str) -> None:
    """Not even an empty parameter, which an app could read as a trace."""
    with way_to(family, tmp_path) as way:
        lines = " ".join([*way.lines, f"include sojourn/{FULL.include_name(family)};"])
        conf = nginx_before(tmp_path / "nginx", family, f"location / {{ {lines} }}")
        with running(conf):
            path = METHOD if family == "grpc" else "/"
            sent, _ = exchanged(conf.ports["PORT"], family, path, [])
    assert not {name for name, _ in CONTEXT} & set(sent)


@pytest.mark.parametrize("unix", [False, True], ids=["port", "unix socket"])
@pytest.mark.parametrize("family", FAMILIES)
def test_include_stamps_logs_and_hides(tmp_path: Path, family: str, unix: bool) -> None:
    with way_to(family, tmp_path, unix=unix) as way:
        lines = " ".join([*way.lines, f"include sojourn/{FULL.include_name(family)};"])
        conf = nginx_before(tmp_path / "nginx", family, f"location / {{ {lines} }}")
        assert conf.accepted() == ""
        with running(conf):
            before = time.time()
            path = METHOD if family == "grpc" else "/"
            headers = [("X-Request-Start", "t=1"), *CONTEXT]
            sent, received = exchanged(conf.ports["PORT"], family, path, headers)
            after = time.time()
        (row,) = rows_of(conf.folder / "access.jsonl")
        assert conf.diagnosed().findings == []
    assert before - 0.002 <= float(sent["x-request-start"].removeprefix("t=")) <= after + 0.002
    assert sent["x-request-id"] == row["request_id"]
    assert [(name, sent[name]) for name, _ in CONTEXT] == CONTEXT
    assert "x-queue-start" not in sent
    assert not {name.lower() for name in ANSWER_HEADERS} & set(received)
    assert row["upstream_addr"].startswith("unix:") is unix
    assert row["upstream_addr"] == (f"unix:{tmp_path}/app.sock" if unix else row["upstream_addr"])
    assert (row["stamp"], row["upstream_status"]) == ("own", "200")
    assert float(row["service_time"]) >= 0
    assert float(row["queueing_delay"]) < DEADLINE_S
    assert row["worker"]


@pytest.mark.parametrize("family", ["proxy", "uwsgi", "scgi"])
def test_client_gets_no_measurement_without_the_lines(tmp_path: Path, family: str) -> None:
    """The app still has the middleware, and nginx has no line of Sojourn: before the installation, or after removal."""
    with way_to(family, tmp_path) as way:
        lines = " ".join(way.lines)
        conf = nginx_before(tmp_path / "nginx", family, f"location / {{ {lines} }}", "access_log off;")
        assert conf.accepted() == ""
        with running(conf):
            for path in ("/", "/other"):
                _, received = exchanged(conf.ports["PORT"], family, path, [])
                assert not {name.lower() for name in ANSWER_HEADERS} & set(received)


def test_includes_of_all_directives_in_one_server(tmp_path: Path) -> None:
    """Nothing in one include disturbs another, and nginx accepts all of them without a warning."""
    locations = [
        f"location /{family} {{ {family}_pass {'http://' if family == 'proxy' else ''}127.0.0.1:9; "
        f"include sojourn/{FULL.include_name(family)}; include sojourn/sojourn_server_timing.conf; }}"
        for family in FAMILIES
    ]
    conf = nginx_before(tmp_path / "nginx", "proxy", "\n        ".join(locations))
    done = subprocess.run(
        [nginx_program() or "nginx", "-t", "-p", f"{conf.folder}/", "-c", conf.path],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr
    assert conf.diagnosed().findings == []
