"""`--url` with `--log` and `--cacert`: a real nginx with TLS and its log, which holds requests of others, too."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from lab_support import check_metric_paths, eventually
from sojourn.doctor.nginx_records import FULL
from sojourn_lab.cli import app
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.backends import started_backend
from sojourn_lab.runtime.growing_log import GrowingLog
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.scenario.topology import Topology
from typer.testing import CliRunner

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

TEXT = """
name = "outside"
title = "Seen from outside"
question = "?"
shows = "."
seed = 3
duration = 1.5
[[cases]]
name = "first"
service_time = 0.05
load = {kind = "constant", rate = 15}
[[cases]]
name = "second"
service_time = 0.05
load = {kind = "closed", concurrency = 2}
[[criteria]]
name = "no failure"
metric = "client.failed"
equals = 0.0
[[criteria]]
name = "identity"
metric = "split.audit.identity_max_error"
below = 1e-6
[[criteria]]
name = "short service"
metric = "split.components.service_time.mean"
below = 0.9
[[criteria]]
name = "goodput"
metric = "law.throughput"
above = 0
"""
SLEEP = 0.02
BUSY_S = 0.2  # what a busy machine may add to it, in the mean


@contextlib.contextmanager
def site(folder: Path, *, trusted: bool = True, tls: bool = False) -> Iterator[Nginx]:
    """Serve the lab's app behind an nginx of the user's, which trusts the ids of the lab or does not."""
    backend = started_backend("app", Topology(workers=2), folder)
    handed = f"        location / {{ {FULL.include_line('proxy')} proxy_pass http://{backend.address}; }}"
    http = ""
    if tls:
        certificate(folder)
        http = f"""
    server {{
        listen 127.0.0.1:{(port := free_port())} ssl;
        ssl_certificate {folder}/cert.pem;
        ssl_certificate_key {folder}/key.pem;
{handed}
    }}
"""
    try:
        backend.wait_until_ready()
        files = {"trusted.conf": "127.0.0.1 1;\n"} if trusted else {}
        with Nginx(folder, handed, http=http, access_log=folder / "site.jsonl", files=files) as nginx:
            if tls:
                nginx.port = port
            yield nginx
    finally:
        backend.process.stop()


def certificate(folder: Path) -> None:
    """Write a key and a certificate of localhost that only itself vouches for."""
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *names]
    subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def requests_of_others(url: str) -> Iterator[None]:
    """Send other requests to a URL until the end of the block."""
    ended = threading.Event()

    def send() -> None:
        while not ended.is_set():
            with urllib.request.urlopen(url) as answer:
                answer.read()
            ended.wait(0.05)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the record of a run within higher limits."""
    (folder / "outside.toml").write_text(TEXT)
    limits = ("--max-rate", "100", "--out", str(folder / "run"))
    done = CliRunner().invoke(app, ["run", str(folder / "outside.toml"), *limits, "--json", "--quiet", *arguments])
    assert "Traceback" not in done.stderr
    return done.exit_code, json.loads(done.stdout)


@needs_nginx
def test_lines_of_the_run_are_split_and_those_of_others_left_out(tmp_path: Path) -> None:
    with site(tmp_path) as nginx:
        others = f"{nginx.url}/sleep/{SLEEP}"
        with urllib.request.urlopen(others):
            pass
        with requests_of_others(others):
            log = ("--log", str(tmp_path / "site.jsonl"))
            _, record = run(tmp_path, "--url", f"{nginx.url}/sleep/{SLEEP}", *log)
    target_log = record["log"]
    assert target_log["by"] == "request_id"
    assert target_log["requests"] == target_log["answered"] == record["rows"]["client"] == record["rows"]["access"]
    assert target_log["lines"] > target_log["requests"], "others sent requests as well"
    assert record["faults"] == []
    folder = tmp_path / "run"
    rows = pl.read_parquet(folder / "requests.parquet")
    sent = [json.loads(line) for line in (folder / "client.jsonl").read_text().splitlines()]
    for case in record["cases"]:
        # The client counts by the instant when a request is due, the log by its arrival at nginx, in milliseconds.
        begin, end = (datetime.fromisoformat(case["window"][name]) for name in ("from", "to"))
        due = [each for each in sent if each["case"] == case["name"]]
        due = [each for each in due if begin.timestamp() <= each["intended"] < end.timestamp()]
        arrived = rows.filter(pl.col("service") == case["name"], pl.col("start") >= begin, pl.col("start") < end)
        assert case["client"]["answered"] == len(due) > 10
        assert case["split"]["requests"] == arrived.height
        at_the_ends = set(arrived["request_id"]) ^ {each["sent_request_id"] for each in due}
        assert len(at_the_ends) <= max(2, len(due) // 4)
        assert SLEEP <= case["split"]["components"]["service_time"]["mean"] < SLEEP + BUSY_S
        assert case["split"]["response_time"]["mean"] <= case["client"]["latency"]["uncorrected"]["mean"] + 0.002
        assert case["app_times"]["source"] == "measured"
    assert {each["name"] for each in record["criteria"]} == {
        "no failure",
        "identity",
        "short service",
        "the URL answered",
    }
    assert all(each["passed"] for each in record["criteria"])
    assert "criterion: goodput" in record["scenario"]["learned"]
    check_metric_paths(record)
    assert not list(folder.rglob("target.log")), "the lines of others are not kept"
    ids = {each["sent_request_id"] for each in sent}
    logged = [json.loads(line) for line in (tmp_path / "site.jsonl").read_text().splitlines()]
    assert ids == {each["request_id"] for each in logged} & ids


@needs_nginx
def test_log_without_the_ids_is_cut_by_instants_and_paths(tmp_path: Path) -> None:
    with site(tmp_path, trusted=False) as nginx, requests_of_others(f"{nginx.url}/sleep/0.01"):
        time.sleep(0.2)  # requests before the run: none of its lines
        _, record = run(tmp_path, "--url", f"{nginx.url}/sleep/{SLEEP}", "--log", str(tmp_path / "site.jsonl"))
    log = record["log"]
    assert (log["by"], log["requests"]) == ("time", log["answered"])
    assert log["lines"] > log["requests"], "others requested another path"
    assert any("by their instants and paths" in each for each in record["learned"])


PLAIN = """
    log_format plain '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "-" "-" '
        '$request_time $upstream_response_time';
"""


@needs_nginx
def test_log_of_another_format_is_read_too(tmp_path: Path) -> None:
    backend = started_backend("app", Topology(workers=2), tmp_path)
    try:
        backend.wait_until_ready()
        path = tmp_path / "plain.log"
        server = f"        location / {{ access_log {path} plain; proxy_pass http://{backend.address}; }}"
        with Nginx(tmp_path, server, http=PLAIN, access_log=tmp_path / "site.jsonl") as nginx:
            eventually(path.exists, 60.0, "the log to exist")
            _, record = run(tmp_path, "--url", f"{nginx.url}/sleep/{SLEEP}", "--log", str(path))
    finally:
        backend.process.stop()
    assert (record["log"]["by"], record["log"]["requests"]) == ("time", record["log"]["answered"])
    criteria = {each["name"]: each for each in record["criteria"]}
    assert criteria["short service"]["note"] == "not measured: the app reports no times"
    assert criteria["identity"]["passed"]
    assert {case["app_times"]["source"] for case in record["cases"]} == {"unknown"}


@needs_nginx
def test_log_without_a_request_of_the_run_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text("")
    with site(tmp_path) as nginx:
        code, record = run(tmp_path, "--url", f"{nginx.url}/sleep/{SLEEP}", "--log", str(tmp_path / "other.jsonl"))
    assert (code, record["passed"]) == (1, False)
    assert len(record["faults"]) == 1
    assert "other.jsonl has no request of the run" in record["faults"][0]


@needs_nginx
@needs_openssl
def test_https_trusts_the_certificates_of_a_file(tmp_path: Path) -> None:
    with site(tmp_path, tls=True) as nginx:
        url = f"https://localhost:{nginx.port}/sleep/{SLEEP}"
        log = ("--log", str(tmp_path / "site.jsonl"))
        _, record = run(tmp_path, "--url", url, "--cacert", str(tmp_path / "cert.pem"), *log)
        (tmp_path / "again").mkdir()
        code, refused = run(tmp_path / "again", "--url", url)
    assert record["cases"][0]["client"]["statuses"] == {"200": record["cases"][0]["client"]["answered"]}
    assert record["log"]["requests"] == record["log"]["answered"] > 10
    assert code == 1
    errors = refused["cases"][0]["client"]["errors"]
    assert errors == {"certificate": refused["cases"][0]["client"]["offered"]}
    assert any("--cacert" in each for each in refused["learned"])


def test_lines_after_the_begin_are_read_across_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("before\n")
    log = GrowingLog(path)
    with path.open("a") as file:
        file.write("one\n")
    path.rename(tmp_path / "access.log.1")
    path.write_text("two\nincompl")
    assert log.copy_new_lines(tmp_path / "part") == 2
    assert (tmp_path / "part").read_text() == "one\ntwo\n"
    (tmp_path / "access.log.1").unlink()
    with pytest.raises(LabError, match="was rotated during the run"):
        log.copy_new_lines(tmp_path / "part")


def test_truncated_log_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("before\n")
    log = GrowingLog(path)
    path.write_text("a\n")
    with pytest.raises(LabError, match="was truncated during the run"):
        log.copy_new_lines(tmp_path / "part")
    with pytest.raises(LabError, match="cannot be read"):
        GrowingLog(tmp_path / "none.log")
