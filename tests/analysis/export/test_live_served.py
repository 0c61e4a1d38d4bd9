"""`sojourn export --status` beside a real nginx: requests that wait are there before the log has a line of them."""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_server import Served, exporting
from sojourn.cli import app
from sojourn_lab.runtime.backends import started_backend
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.proxy import Upstreams, http_text, server_text
from sojourn_lab.scenario.topology import Topology
from typer.testing import CliRunner
from watch_support import until

STATUS = "location = /status { stub_status; access_log off; }"
FILES = "location = /file { return 204; }"
NEEDED = {"method": "live", "objective": "queueing_delay:p95=0.1"}
needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")


def get(url: str) -> None:
    with contextlib.suppress(OSError):  # nginx was ended
        urllib.request.urlopen(url, timeout=60).close()


def is_given(served: Served) -> bool:
    """Whether there is a number, 0 included: without requests no worker is needed."""
    with urllib.request.urlopen(served.url, timeout=20) as answer:
        return 'method="live"' in answer.read().decode()


def until_needed(served: Served) -> None:
    """Wait until five workers are needed for more than 35 requests; a failure has what was served instead."""
    answers: list[str] = []

    def is_needed() -> bool:
        answers[:] = [served.scrape().decode()]
        samples = [sample for family in text_string_to_metric_families(answers[0]) for sample in family.samples]
        needed = [s.value for s in samples if s.name == "sojourn_workers_needed" and NEEDED.items() <= s.labels.items()]
        present = [s.value for s in samples if s.name == "sojourn_requests_in_progress"]
        return sum(needed) >= 5 and sum(present) > 35

    try:
        until(is_needed)
    except AssertionError:
        names = ("sojourn_live", "sojourn_workers_needed", "sojourn_requests_in_progress", "sojourn_log")
        lines = [line for line in answers[0].splitlines() if line.startswith(names)]
        pytest.fail("\n".join(["no workers are needed:", *lines]))


def refused(served: Served, reason: str) -> float:
    return served.value("sojourn_live_refused", reason=reason)


@needs_nginx
@pytest.mark.parametrize("beside", [False, True], ids=["one service", "files beside it"])
def test_workers_are_needed_before_a_request_ends(tmp_path: Path, beside: bool) -> None:
    topology = Topology(backends=1, workers=2, server="gunicorn")
    backend = started_backend("backend-1", topology, tmp_path)
    upstreams, log = Upstreams(own=[backend.address]), tmp_path / "access.jsonl"
    server = server_text(topology, upstreams) + STATUS + FILES
    try:
        backend.wait_until_ready()
        with (
            Nginx(tmp_path, server, access_log=log, http=http_text(topology, upstreams)) as nginx,
            exporting(
                tmp_path, str(log), "--status", f"{nginx.url}/status", "--objective", "0.1:0.95", "--hold", "10"
            ) as served,
            ThreadPoolExecutor(40) as clients,
        ):
            for _ in range(40):
                get(f"{nginx.url}/sleep/0.1")
                if beside:
                    get(f"{nginx.url}/file")
            until(lambda: is_given(served))
            before = log.read_text().count("/sleep/")
            waiting = [clients.submit(get, f"{nginx.url}/sleep/50") for _ in range(40)]
            until_needed(served)
            if beside:  # what nginx itself answers says nothing of the app
                until(lambda: get(f"{nginx.url}/file") or refused(served, "app_stalled") == 1)
                assert served.value("sojourn_requests_in_progress") == pytest.approx(40, abs=2)
                assert not is_given(served)
            assert log.read_text().count("/sleep/") == before, "a request has ended"
            ended = threading.Thread(target=nginx.stop)
            ended.start()
            until(lambda: refused(served, "no_count") == 1)
            assert not is_given(served)
            assert "status: http://127.0.0.1" in served.errors
            backend.process.stop()
            ended.join(60)
            for each in waiting:
                each.result(60)
    finally:
        backend.process.stop()


def test_page_that_cannot_be_read_is_named_once_and_all_else_is_served(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.touch()
    with exporting(tmp_path, str(log), "--status", "http://user:secret@127.0.0.1:1/status") as served:
        until(lambda: "no counts of requests" in served.errors)
        assert served.value("sojourn_log_missing") == 0
        assert "secret" not in served.errors
        assert served.errors.count("\nstatus: ") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--status", "127.0.0.1:80"), "is not [SERVICE=]URL"),
        (("--status", "http://127.0.0.1:80/s", "--once"), "not of a whole log"),
        (("--objective", "0.1:1.5"), "give [queueing_delay:|response_time:]pN=SECONDS"),
        (("--hold", "0"), "--hold"),
        (("--startup", "-1"), "--startup"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    log = tmp_path / "access.jsonl"
    log.touch()
    result = CliRunner().invoke(app, ["--no-config", "export", str(log), *arguments])
    assert result.exit_code != 0
    output = " ".join((result.output + str(result.exception)).split())
    assert message in output
