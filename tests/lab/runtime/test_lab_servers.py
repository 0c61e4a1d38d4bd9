"""Every app server of the table, as a real process behind a real nginx, on a port and on a Unix socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from lab_support import eventually
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import group_members
from sojourn_lab.runtime.runtime import ProcessRuntime
from sojourn_lab.runtime.servers import java, others
from sojourn_lab.runtime.servers.table import SERVERS, why_server_unavailable
from sojourn_lab.runtime.versions import versions_here
from sojourn_lab.scenario.topology import Topology
from sojourn_lab.scenario.topology_parts import Dependency, Namespace

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=str(Nginx.why_unavailable())),
]

TOPOLOGIES = {
    "gunicorn": Topology(server="gunicorn", backends=1, unix=True),
    "gthread": Topology(server="gunicorn", backends=1, threads=2),
    "unicorn": Topology(server="unicorn", backends=1, unix=True),
    "puma": Topology(server="puma", backends=1, threads=2),
    "puma, a cluster on a Unix socket": Topology(server="puma", backends=1, workers=2, threads=2, unix=True),
    "php-fpm": Topology(server="php-fpm", backends=1, workers=2),
    "php-fpm on a Unix socket": Topology(server="php-fpm", backends=1, unix=True, keepalive=4),
    "uwsgi": Topology(server="uwsgi", backends=1),
    "uwsgi on a Unix socket": Topology(server="uwsgi", backends=1, workers=2, unix=True),
    "uvicorn": Topology(server="uvicorn", backends=1),
    "node": Topology(server="node", backends=1, keepalive=4),
    "go": Topology(server="go", backends=1, unix=True, keepalive=4),
    "java": Topology(server="java", backends=1, workers=2, keepalive=4),
    "tomcat": Topology(server="tomcat", backends=1, workers=2, keepalive=4),
}


def rows_of(path: Path, count: int) -> list[dict[str, Any]]:
    eventually(lambda: path.read_bytes().count(b"\n") >= count, 60.0, f"{count} rows in {path.name}")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_measurements_of_each_server_reach_the_log_and_not_the_client(name: str, tmp_path: Path) -> None:
    topology = TOPOLOGIES[name]
    if (reason := why_server_unavailable(topology.server)) is not None:
        pytest.skip(reason)
    with ProcessRuntime(topology, tmp_path, tmp_path / "logs", Interrupts()) as runtime:
        with urlopen(f"{runtime.url}/sleep/0.05?route=/a", timeout=20.0) as answer:
            headers, body = answer.headers, answer.read()
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{runtime.url}/sleep/abc", timeout=20.0)
        with pytest.raises(HTTPError) as failed:
            urlopen(f"{runtime.url}/sleep/0?status=503", timeout=20.0)
        rows = rows_of(runtime.access_log, 3)
        runtime.settle(deadline=30.0)
        address = runtime.backends[0].address
        assert runtime.nginx is not None
        assert runtime.nginx.alerts() == []
    assert body.startswith(b"slept 0.05 s")
    assert not {"x-service-time", "x-queueing-delay", "x-worker", "x-route"} & {key.lower() for key in headers}
    assert (refused.value.code in (400, 404), failed.value.code) == (True, 503)
    first = rows[0]
    assert first["upstream_addr"] == address
    assert first["upstream_addr"].startswith("unix:") is topology.unix
    assert 0.05 <= float(first["service_time"]) < 2.0
    assert -0.01 < float(first["queueing_delay"]) < 2.0
    assert first["worker"]
    assert first["route"] == "/a"
    assert first["stamp"] == "own"
    assert group_members(runtime.backends[0].process.pid) == []


def test_location_of_fastcgi_has_its_own_include(tmp_path: Path) -> None:
    if (reason := why_server_unavailable("php-fpm")) is not None:
        pytest.skip(reason)
    topology = Topology(server="php-fpm", backends=1, keepalive=8)
    with ProcessRuntime(topology, tmp_path, tmp_path / "logs", Interrupts()):
        written = (tmp_path / "nginx" / "nginx.conf").read_text()
    assert "include sojourn/sojourn_fastcgi.conf;" in written
    assert "fastcgi_keep_conn on;" in written
    assert "keepalive 8;" in written
    assert "sojourn_proxy.conf" not in written


def test_every_server_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(others, "_SBIN", ())
    monkeypatch.setattr(java, "_JARS", Path("/nowhere"))
    missing = {server: why_server_unavailable(server) for server in SERVERS}
    assert missing.pop("queue") is None
    # Of this virtual environment, which needs no PATH.
    assert (missing.pop("gunicorn"), missing.pop("uvicorn")) == (None, None)
    assert all(reason and reason.startswith(f"{server} is not installed") for server, reason in missing.items())


def test_version_of_tomcat_is_known() -> None:
    if (reason := why_server_unavailable("tomcat")) is not None:
        pytest.skip(reason)
    assert versions_here({"tomcat"})["tomcat"].startswith("10.")


def test_version_of_php_fpm_needs_no_php_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    if others.fpm_program() is None:
        pytest.skip("php-fpm is not installed")
    monkeypatch.setattr(others, "_SBIN", (str(Path(others.fpm_program() or "").parent),))
    monkeypatch.setenv("PATH", "/nowhere")
    assert versions_here({"php-fpm"})["php"].split(".")[0].isdigit()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"server": "uvicorn", "workers": 2}, "one event loop"),
        ({"server": "java", "unix": True}, "cannot listen on a Unix socket"),
        ({"server": "unicorn", "threads": 2}, "no threads"),
        ({"server": "gunicorn", "connections": 5}, "`connections` needs an app that awaits: server uvicorn"),
        ({"server": "uwsgi", "keepalive": 32}, "cannot have `keepalive`"),
        ({"unix": True, "defer_accept": 1}, "apply to TCP"),
        ({"unix": True, "namespace": Namespace()}, "apply to TCP"),
        ({"server": "java", "defer_accept": 1}, "cannot have `defer_accept`"),
        ({"server": "tomcat", "unix": True}, "cannot listen on a Unix socket"),
        ({"server": "puma", "dependency": Dependency()}, "cannot have a `dependency`"),
    ],
)
def test_rejects_settings_that_a_server_lacks(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Topology(**values)
