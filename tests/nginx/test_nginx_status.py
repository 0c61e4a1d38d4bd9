"""nginx's counters for ``sojourn export --status``: on this machine only, not in the log, counted at the arrival."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from nginx_support import DEADLINE_S, LOCATION, connect, get, logged, parsed_response, received, request_bytes
from nginx_upstream import Request, Upstream
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port

ROOT = Path(__file__).parents[2]
STATUS = "location = /nginx-status { include sojourn/sojourn_status.conf; }"
README = (ROOT / "nginx/README.md").read_text()
MANIFESTS = list(yaml.safe_load_all((ROOT / "dashboards/prometheus/scaling/scrape.yaml").read_text()))


def server_of_readme() -> str:
    """Return the server that the README shows for the counters."""
    (block,) = re.findall(r"```nginx\n(server \{\n    listen 127.*?)```", README, re.DOTALL)
    return str(block)


def answer_from(address: str, port: int) -> tuple[int, str]:
    """Return status and text of the counters for a client with this address."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S, source_address=(address, 0)) as connection:
        connection.sendall(request_bytes("/nginx-status"))
        response = parsed_response(received(connection))
    return response.status, response.body.decode()


def counters(port: int) -> tuple[int, int]:
    """Return the requests that have arrived, and those in progress, without the one that reads them."""
    status, text = answer_from("127.0.0.1", port)
    assert status == 200
    arrived = re.search(r"server accepts handled requests\n \d+ \d+ (\d+) ", text)
    writing = re.search(r"Writing: (\d+)", text)
    assert arrived is not None
    assert writing is not None
    return int(arrived[1]), int(writing[1]) - 1


def test_counts_a_request_when_it_arrives(serve: Callable[..., Nginx], upstream: Callable[..., Upstream]) -> None:
    begun, held = [], upstream()

    def hold(connection: socket.socket, request: Request) -> None:
        begun.append(counters(nginx.port))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    held.answer = hold
    nginx = serve(f"{STATUS} {LOCATION}", http=f"upstream app {{ server {held.address}; }}")
    before, in_progress = counters(nginx.port)
    assert in_progress == 0
    assert get(nginx).status == 200
    # The request itself, and the one that reads the counters.
    assert begun == [(before + 2, 1)]
    assert counters(nginx.port)[1] == 0
    assert len(logged(nginx)) == 1, "reads of the counters are not logged"


def test_answers_this_machine_only(shop: Callable[..., Nginx]) -> None:
    nginx = shop(f"{STATUS} {LOCATION}")
    assert answer_from("127.0.0.1", nginx.port)[0] == 200
    assert answer_from("127.0.0.2", nginx.port)[0] == 403
    assert "forbidden by rule" in nginx.error_log_text()


def test_line_before_the_include_admits_an_exporter_elsewhere(shop: Callable[..., Nginx]) -> None:
    nginx = shop(f"location = /nginx-status {{ allow 127.0.0.2; include sojourn/sojourn_status.conf; }} {LOCATION}")
    assert answer_from("127.0.0.2", nginx.port)[0] == 200
    assert answer_from("127.0.0.3", nginx.port)[0] == 403


@pytest.mark.parametrize("source", ["README", "scrape.yaml"])
def test_server_for_the_counters_is_one_that_nginx_accepts(shop: Callable[..., Nginx], source: str) -> None:
    (shared,) = [manifest["data"]["sojourn_status.conf"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap"]
    text, port = {"README": server_of_readme(), "scrape.yaml": shared}[source], free_port()
    assert text.count("listen 127.0.0.1:8081;") == 1
    nginx = shop(http=text.replace("127.0.0.1:8081", f"127.0.0.1:{port}"))
    assert "[warn]" not in nginx.error_log_text()
    assert counters(port) == (1, 0)
    with connect(nginx) as connection:
        connection.sendall(request_bytes("/nginx-status"))
        assert b"Active connections" not in received(connection), "the server for clients has no counters"
