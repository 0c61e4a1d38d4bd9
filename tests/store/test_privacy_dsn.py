"""A store's password is not in any output, file or error of any command."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
import sojourn
from hypothesis import given
from hypothesis import strategies as st
from sojourn.cli import main
from sojourn.cli.config import without_secrets
from sojourn.model.dsn import hidden, parse
from sojourn.model.errors import SojournError

PASSWORD = "hunter2hunter2"
HEADER = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()

# Every command that takes a store, and what it is given besides.
COMMANDS = {
    **{verb: [verb, "{dsn}"] for verb in ("split", "blame", "depth", "goodput", "laws", "clock", "tiers", "doctor")},
    "whatif": ["whatif", "{dsn}", "--set", "workers=+1"],
    "capacity": ["capacity", "{dsn}", "--slo", "p99=1"],
    "compare": ["compare", "{dsn}", "{dsn}"],
    "report": ["report", "{dsn}", "--html", "{folder}/report.html"],
    "plot": ["plot", "{dsn}", "ccdf", "--out", "{folder}/plot.svg"],
    "movie": ["movie", "{dsn}", "--out", "{folder}/movie.html"],
    "timeline": ["timeline", "{dsn}", "--out", "{folder}/a.pftrace"],
    "watch": ["watch", "{dsn}", "--once"],
    "pcap": ["pcap", "{folder}/none.pcap", "--log", "{dsn}"],
    "kernel": ["kernel", "{dsn}"],
    "lab replay": ["lab", "replay", "{dsn}", "--out", "{folder}/replay"],
    "store init": ["store", "init", "{dsn}"],
    "store load": ["store", "load", "{dsn}", "{log}"],
    "store query": ["store", "query", "{dsn}", "SELECT 1"],
    "store explain": ["store", "explain", "{dsn}"],
}


class Echo(BaseHTTPRequestHandler):
    """A server that refuses everything and quotes what it was sent, headers included."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = f"Code: 159. DB::Exception: refused {PASSWORD}: {self.headers.as_string()}".encode()
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - the names that http.server asks for

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


def said(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["sojourn", "--no-config", *arguments])
    with contextlib.suppress(SystemExit):
        main()
    return "".join(capfd.readouterr())


@pytest.mark.parametrize("debug", ["", "1"], ids=["", "debug"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_says_the_password(
    command: str,
    debug: str,
    port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SOJOURN_DEBUG", debug)
    log = tmp_path / "a.jsonl"
    log.write_text('{"time":"1767225600.123","request_time":"0.25","status":"200","request_start":"-"}\n')
    for dsn in (f"clickhouse://alice:{PASSWORD}@127.0.0.1:{port}/d", f"clickhouse://alice:a/{PASSWORD}@h/d"):
        arguments = [each.format(dsn=dsn, folder=tmp_path, log=log) for each in COMMANDS[command]]
        text = said(arguments, monkeypatch, capfd)
        assert len(text) > 10
        assert PASSWORD not in text
        assert HEADER not in text
    for file in tmp_path.rglob("*"):
        assert PASSWORD.encode() not in file.read_bytes()


def test_the_environment_s_password_is_not_said_either(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    dsn = f"clickhouse://alice@127.0.0.1:{port}/d"
    for name, value in (("SOJOURN_STORE_PASSWORD", PASSWORD), ("SOJOURN_STORE_PASSWORD_FILE", str(secret))):
        monkeypatch.setenv(name, value)
        text = said(["store", "query", dsn, "SELECT 1"], monkeypatch, capfd)
        assert dsn in text
        assert PASSWORD not in text
        assert HEADER not in text


@pytest.mark.parametrize("password", [PASSWORD, f"a/{PASSWORD}", f"a@{PASSWORD}", f"a?{PASSWORD}", f"a#{PASSWORD}"])
def test_config_shows_a_store_without_it(
    password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert PASSWORD not in without_secrets(f"clickhouse://alice:{password}@h/d")
    assert PASSWORD not in without_secrets([f"clickhouse://:{password}@h/d"])[0]


awkward = st.text(st.sampled_from("/@:?#%&=x \\"), max_size=6)


@given(awkward, awkward, st.sampled_from(["clickhouse://", "clickhouses://", "clickhouse:/", "postgres://"]))
def test_whatever_surrounds_it_in_a_dsn(before: str, after: str, scheme: str) -> None:
    """A password ought to be quoted in a DSN. One that is not may be refused, and is not shown."""
    dsn = f"{scheme}alice:{before}{PASSWORD}{after}@host/d"
    assert PASSWORD not in hidden(dsn)
    try:
        address = parse(dsn)
    except SojournError as error:
        assert PASSWORD not in str(error)  # noqa: PT017 - it may also be a DSN
        return
    assert PASSWORD not in repr(address)
    if quote(before + after, safe="") == before + after:
        assert PASSWORD not in str(address)


def test_two_stores_compared_are_named_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The one command that names its sources as they were typed, in what it shows when all went well."""
    log = tmp_path / "a.jsonl"
    log.write_text(
        "".join(
            f'{{"time":"{1767225600 + i}.1","request_time":"0.2","status":"200","request_start":"-"}}\n'
            for i in range(99)
        )
    )
    monkeypatch.setattr("sojourn.analyses.compare.command.requests_of", lambda *_, **__: sojourn.split(log))
    text = said(["compare", *[f"clickhouse://alice:{PASSWORD}@h/d"] * 2, "--json"], monkeypatch, capfd)
    assert '"clickhouse://alice:…@h/d"' in text or "alice:\\u2026@h/d" in text
    assert PASSWORD not in text


def test_a_password_in_a_file_s_place_is_not_in_the_process_list(tmp_path: Path, port: int) -> None:
    """The DSN of the documentation has no password in it: what `ps` shows of the process is what was typed."""
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    dsn = f"clickhouse://alice@127.0.0.1:{port}/d"
    command = [sys.executable, "-m", "sojourn", "--no-config", "store", "query", dsn, "SELECT 1"]
    environment = {"PATH": "/usr/bin:/bin", "SOJOURN_STORE_PASSWORD_FILE": str(secret)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        seen = b""
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                seen += Path(f"/proc/{process.pid}/cmdline").read_bytes()
            time.sleep(0.05)
        output = b"".join(process.communicate())
    finally:
        process.kill()
        process.wait()
    assert dsn.encode() in seen
    assert PASSWORD.encode() not in seen + output
