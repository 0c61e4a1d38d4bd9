"""The recipes for what reads the log besides us: GoAccess and log pipelines, and what becomes of the record in them."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import sojourn
import yaml
from recipe_support import App, blocks_of, command_environment, fetch, log_lines, page_text, shell, why_no_nginx
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process

LOG = "/var/log/nginx/sojourn.jsonl"
PATHS = ["/a", "/a?q=1", '/quo"te', "/b%c3%a9", "/<script>", "/slow"]
SERVICE_S = 0.02


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real log: answers of an app, of nginx itself, no answer, and a URI that is not UTF-8."""
    if (reason := why_no_nginx()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("log")
    with App(SERVICE_S) as app:
        server = "location /file { return 204; }" + "".join(
            f"location {path} {{ include sojourn/sojourn_proxy.conf; proxy_pass http://127.0.0.1:{port}; }}\n"
            for path, port in {"/": app.port, "/gone": 1}.items()
        )
        nginx = Nginx(folder, server, access_log=folder / "access.jsonl")
        with nginx.start():
            for path in [*PATHS, "/file", "/gone"]:
                fetch(nginx.port, path)
            with socket.create_connection(("127.0.0.1", nginx.port), timeout=20) as client:
                client.sendall(b"GET /raw\xff HTTP/1.0\r\n\r\n")
                assert client.recv(64).startswith(b"HTTP/1.1 200")
            log_lines(nginx.access_log, "/", len(PATHS) + 3)
    assert b"\xff" in nginx.access_log.read_bytes()
    return nginx.access_log


def records(log: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in log.read_text(errors="replace").splitlines()]


def test_goaccess_reads_the_record(log: Path, tmp_path: Path) -> None:
    for program in ("goaccess", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    blocks = blocks_of("goaccess.md")
    values = {LOG: str(log), "/tmp/sample": f"{tmp_path}/sample"}
    count = len(records(log))
    assert shell(replaced(blocks["check"], values)).split()[-2:] == [str(count), "0"]
    # The two commands of the page differ in their input and output alone.
    report = tmp_path / "report.json"
    shell(replaced(blocks["goaccess"], {**values, "report.html": str(report)}))
    document = json.loads(report.read_text())
    # All but the one whose URI is no UTF-8.
    assert (document["general"]["valid_requests"], document["general"]["failed_requests"]) == (count - 1, 1)
    by_path = {row["data"]: row for row in document["requests"]["data"]}
    (slow,) = [row for row in records(log) if row["uri"] == "/slow"]
    assert by_path["/slow"]["maxts"] == pytest.approx(float(slow["request_time"]) * 1e6, abs=1000)
    assert {row["data"] for row in document["status_codes"]["data"]} == {"2xx Success", "5xx Server Errors"}
    assert document["vhosts"]["data"][0]["data"] == "127.0.0.1"


def test_combined_cannot_be_split(tmp_path: Path) -> None:
    path = tmp_path / "combined.log"
    path.write_text('127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 3 "-" "curl/8.0"\n')
    assert sojourn.split(str(path)).records.reasons == {"missing_request_time": 1}
    assert "`missing_request_time`" in page_text("goaccess.md")


def replaced(text: str, words: dict[str, str]) -> str:
    for old, new in words.items():
        assert old in text or len(words) > 1
        text = text.replace(old, new)
    return text


def number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def otlp(rows: list[dict[str, str]]) -> str:
    """What the Collector's file exporter writes of those lines: a batch of records on one line."""
    matches = [{"body": {"stringValue": json.dumps(row)}, "attributes": []} for row in rows]
    return json.dumps({"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": matches}]}]})


SHAPES: dict[str, tuple[Callable[[dict[str, str]], object], str]] = {
    "text": (lambda row: row, ""),
    "numbers": (lambda row: {**{key: number(value) for key, value in row.items()}, "status": int(row["status"])}, ""),
    "null": (lambda row: {key: value or None for key, value in row.items()}, ""),
    "more keys": (lambda row: {"date": 1767225600.01, "kubernetes": {"pod": "a"}, **row}, ""),
    "under a key": (lambda row: {"timestamp": "2026-01-01T00:00:00Z", "attributes": row}, "missing_time"),
    "no time": (lambda row: {key: value for key, value in row.items() if key != "time"}, "missing_time"),
    "a date": (lambda row: {**row, "time": "2026-01-01T00:00:00.010Z"}, "invalid_time"),
    "a tag in front": (lambda row: f"nginx: [1767225600.01, {json.dumps(row)}]", "invalid_json"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_fields_of_a_parsed_record(shape: str, log: Path, tmp_path: Path) -> None:
    change, reason = SHAPES[shape]
    rows = records(log)
    path = tmp_path / "out.jsonl"
    changed = [change(row) for row in rows]
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in changed))
    result, before = sojourn.split(str(path)), sojourn.split(str(log))
    if reason:
        assert result.records.reasons == {reason: len(rows)}
    else:
        assert result.to_dict()["components"] == before.to_dict()["components"]
        assert result.sources == before.sources


def test_the_page_names_the_reasons() -> None:
    text = page_text("log-pipelines.md")
    assert all(f"`{reason}`" in text for reason in ("missing_time", "invalid_time", "invalid_json"))


@pytest.mark.parametrize(
    ("name", "file", "written"),
    [
        ("otlp to record", "/var/lib/otelcol/sojourn-otlp.jsonl", otlp),
        (
            "log key to record",
            "/var/lib/fluent-bit/nginx.jsonl",
            lambda rows: "\n".join(json.dumps({"log": json.dumps(row)}) for row in rows),
        ),
    ],
)
def test_commands_restore_the_record(
    name: str, file: str, written: Callable[[list[dict[str, str]]], str], log: Path, tmp_path: Path
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    rows = records(log)
    shipped = tmp_path / "shipped.jsonl"
    shipped.write_text(written(rows) + "\n")
    command = replaced(blocks_of("log-pipelines.md")[name], {file: str(shipped)}).strip()
    assert command.endswith(" | sojourn split -")
    back = tmp_path / "back.jsonl"
    back.write_text(shell(command.removesuffix(" | sojourn split -")))
    result = sojourn.split(str(back))
    assert (result.records.accepted, result.records.rejected) == (len(rows), 0)
    assert result.to_dict()["components"] == sojourn.split(str(log)).to_dict()["components"]


def test_the_configurations_are_yaml() -> None:
    blocks = blocks_of("log-pipelines.md")
    collector, bit = yaml.safe_load(blocks["otelcol.yaml"]), yaml.safe_load(blocks["fluent-bit.yaml"])
    assert collector["receivers"]["file_log"]["include"] == [LOG]
    assert bit["pipeline"]["inputs"][0]["path"] == LOG


def test_the_collector_keeps_every_line(log: Path, tmp_path: Path) -> None:
    program = shutil.which("otelcol-contrib")
    if program is None:
        pytest.skip("otelcol-contrib (the OpenTelemetry Collector) is not installed")
    out = tmp_path / "out.jsonl"
    text = blocks_of("log-pipelines.md")["otelcol.yaml"]
    words = {LOG: str(log), "/var/lib/otelcol/sojourn-otlp.jsonl": str(out)}
    config = tmp_path / "otelcol.yaml"
    # Its own metrics would take a fixed port.
    config.write_text(replaced(text, words) + "  telemetry: {metrics: {level: none}}\n")
    wanted = log.read_text(errors="replace").splitlines()
    with Process([program, "--config", config], name="otelcol", folder=tmp_path, env=command_environment()) as process:
        process.wait_until(lambda: len(bodies(out)) >= len(wanted), 60, "the collector to write the log")
    assert bodies(out) == wanted


def bodies(file: Path) -> list[str]:
    """The lines in the collector's file so far; a batch still being written is left out."""
    matches = []
    for line in file.read_text().split("\n")[:-1] if file.exists() else []:
        for resource in json.loads(line)["resourceLogs"]:
            matches += [one["body"]["stringValue"] for scope in resource["scopeLogs"] for one in scope["logRecords"]]
    return matches
