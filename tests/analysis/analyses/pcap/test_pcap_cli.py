"""``sojourn pcap``, and ``split`` and ``report`` with a capture, on the example of the documentation."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from sojourn.analyses import question
from sojourn.cli import app
from sojourn.model.errors import SojournError
from sojourn.present.page import Page
from sojourn.report import build as contents
from sojourn.report.html import report_page
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

EXAMPLES = Path(__file__).parents[4] / "docs/examples"
CAPTURE, LOG, KERNEL = (str(EXAMPLES / name) for name in ("wire.pcap.gz", "wire.jsonl.gz", "wire-kernel.jsonl.gz"))


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, list(arguments))


@pytest.fixture(scope="module")
def document() -> dict[str, object]:
    result = run("pcap", CAPTURE, "--log", LOG, "--kernel", KERNEL, "--json", "--limit", "3")
    assert result.exit_code == 0, result.output
    answer: dict[str, object] = json.loads(result.stdout)
    return answer


def test_the_json_counts_every_request_of_the_log(document: dict[str, object]) -> None:
    assert document["joined"] == 139
    assert document["join"]["by"] == {"request_id": 139}
    assert document["join"]["both_sides"] == 139
    assert document["undecoded"] == 0
    assert document["connections"] == 279
    assert len(document["requests"]) == 3
    assert document["kernel"]["counters"]["ListenOverflows"]["increase"] > 0


def test_the_wire_and_the_log_count_the_same_dropped_syns(document: dict[str, object]) -> None:
    steps = {row["step"]: row["connections"] for row in document["syn_steps"]}
    with gzip.open(LOG, "rt") as lines:
        connects = [float(json.loads(line)["upstream_connect_time"]) for line in lines]
    assert steps == {1.0: sum(0.9 < t < 1.5 for t in connects), 3.0: sum(2.9 < t < 3.5 for t in connects)}
    assert sum(steps.values()) > 30


def test_the_accept_wait_equals_the_split_s_queue(document: dict[str, object]) -> None:
    agreed = {row["figure"]: row for row in document["agreement"]}
    assert agreed["queue"]["requests"] == 139
    assert agreed["queue"]["p99"] < 0.0012  # a stamp is truncated to its millisecond
    assert agreed["queue"]["spread"] < 0.001


def test_output_of_a_capture_without_a_log(snapshot: SnapshotAssertion) -> None:
    result = run("pcap", CAPTURE)
    assert result.exit_code == 0, result.output
    assert "42 of them (15 %)" in result.stdout
    assert "backend accept queue" in result.stdout
    assert result.stdout == snapshot


def test_a_run_folder_contains_its_log_and_kernel_samples(tmp_path: Path) -> None:
    for source, name in ((CAPTURE, "capture.pcap"), (LOG, "access.jsonl"), (KERNEL, "kernel.jsonl")):
        with gzip.open(source) as compressed, (tmp_path / name).open("wb") as plain:
            shutil.copyfileobj(compressed, plain)
    result = run("pcap", str(tmp_path), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["joined"] == 139
    assert document["kernel"] is not None


def test_the_report_and_the_parquet_file_are_written(tmp_path: Path) -> None:
    page, table = tmp_path / "wire.html", tmp_path / "wire.parquet"
    result = run("pcap", CAPTURE, "--log", LOG, "--html", str(page), "--parquet", str(table))
    assert result.exit_code == 0, result.output
    assert "42 of them (15" in page.read_text()
    assert len(pl.read_parquet(table)) == 140


def test_a_capture_adds_to_the_split_without_changing_it() -> None:
    plain = sojourn.split(LOG)
    result = sojourn.split(LOG, captures=[CAPTURE])
    assert result.wire is not None
    assert plain.wire is None
    assert "wire" not in plain.to_dict()
    document = result.to_dict()["wire"]
    means = document["means"]
    parts = means["syn_dropped"] + means["handshake"] + means["accept_wait"]
    assert means["queueing_delay"] == pytest.approx(parts, abs=0.001)
    assert result.response_time == plain.response_time
    assert result.components == plain.components
    assert set(result.rows.collect_schema().names()) - set(plain.rows.collect_schema().names()) <= {
        "request_id", "method", "uri", "remote_addr", "connection", "connection_requests", "upstream_addr",
    }  # fmt: skip
    checks = {check.name: check.verdict for check in result.audit.checks}
    assert checks["wire"] == "pass"
    assert "wire" not in {check.name for check in plain.audit.checks}


def test_split_prints_a_short_table_of_the_capture(snapshot: SnapshotAssertion) -> None:
    result = run("split", LOG, "--capture", CAPTURE)
    assert result.exit_code == 0, result.output
    assert "On the wire: 139 of 139 requests (100 %)" in result.stdout
    assert result.stdout[result.stdout.index("On the wire: ") :] == snapshot


def test_a_report_has_the_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = []

    monkeypatch.setattr(contents, "reported", lambda: [question("pcap")])  # other sections have their own tests
    drawn = report_page

    def recorded_page(result: Any, **more: Any) -> Page:
        sections.extend(more["sections"])
        return drawn(result, **more)

    monkeypatch.setattr("sojourn.report.build.report_page", recorded_page)
    result = run("report", LOG, "--capture", CAPTURE, "--html", str(tmp_path / "report.html"))
    assert result.exit_code == 0, result.output
    (section,) = sections
    assert section.title == "Packets and the queues before accept()"
    assert "42 of them (15 %)" in section.sentence


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["nowhere.pcap"], "nowhere.pcap"),
        ([LOG], "wire.jsonl.gz"),
        ([CAPTURE, "--backend", "app"], "'app'"),
        ([CAPTURE, "--log", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
    ids=["no capture", "not a capture", "backend", "no log"],
)
def test_unreadable_input_is_one_line(arguments: list[str], culprit: str, snapshot: SnapshotAssertion) -> None:
    result = run("pcap", *arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, SojournError)
    message = str(result.exception)
    assert culprit in message
    assert "\n" not in message
    assert message.replace(str(EXAMPLES), "EXAMPLES") == snapshot


def test_records_with_other_ids_are_joined_by_stamps_and_times(tmp_path: Path) -> None:
    log = tmp_path / "other.jsonl"
    with gzip.open(LOG, "rt") as lines:
        log.write_text("".join(line.replace('"request_id":"', '"request_id":"x') for line in list(lines)[:3]))
    result = run("pcap", CAPTURE, "--log", str(log), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["join"]["by"] == {"tuple": 3}


def test_the_section_of_an_empty_capture(tmp_path: Path) -> None:
    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    (tmp_path / "empty.pcap").write_bytes(header)
    result = run("pcap", str(tmp_path / "empty.pcap"), "--log", LOG)
    assert result.exit_code == 0, result.output
    assert "There is no TCP connection" in result.stdout
