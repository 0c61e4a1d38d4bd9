"""Logs, spans and samples through a real Vector, with the project's own configuration, into the store's tables."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sojourn
from clickhouse_http import StandIn
from collector_support import eventually, gunicorn, served, stamp_now
from sojourn.model.redaction import path_of
from sojourn.store import connect, refresh_rollups

# The path comes first.
from split_support import BAD_LINES, Settings, as_lines, differences, simulated_log, without_duplicates
from vector_run import OF_SPANS, Vector, vector_program

pytest.importorskip("chdb")

LINES = 6000
EVERY = LINES // len(BAD_LINES)
ARRIVES_S = 60


def text_of(raw: bytes) -> str:
    """A line as the store keeps it: bytes that are not UTF-8 are one U+FFFD per run."""
    return re.sub("\ufffd+", "\ufffd", raw.rstrip(b"\r\n").decode(errors="replace"))


class Shipped:
    """A simulated log with bad lines among the good ones, on its way to a store."""

    def __init__(self, store: StandIn, agent: Vector, of_spans: Vector) -> None:
        self.store = store
        self.agent = agent
        self.of_spans = of_spans
        self.log = agent.logs / "access.jsonl"
        self.records, self.truth = simulated_log(Settings(requests=LINES))
        self.refused: list[tuple[int, str, str]] = []  # position, reason, text
        self.lines: list[bytes] = []
        position = 0
        for number, line in enumerate(as_lines(self.records)):
            if number % EVERY == 0 and number // EVERY < len(BAD_LINES):
                raw, reason = BAD_LINES[number // EVERY]
                self.refused.append((position, reason, text_of(raw)))
                self.lines.append(raw)
                position += len(raw)
            self.lines.append(line)
            position += len(line)

    def count(self, table: str, condition: str = "1") -> int:
        """Rows of a table, each once."""
        return int(self.store.ask(f"SELECT count() AS n FROM {table} FINAL WHERE {condition}")[0]["n"])


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, store_in: Callable[[Path], StandIn]) -> Iterator[Shipped]:
    vector_program()  # or there is nothing to prepare
    folder = tmp_path_factory.mktemp("shipped")
    with (
        store_in(folder) as store,
        Vector(folder / "agent", store.url) as agent,
        Vector(folder / "of-spans", store.url, OF_SPANS) as of_spans,
    ):
        shipped = Shipped(store, agent, of_spans)
        text = b"".join(shipped.lines)
        with shipped.log.open("ab", buffering=0) as log:
            half = len(text) // 2
            log.write(text[:half])  # in the middle of a line, as a full buffer is written
            eventually(lambda: shipped.count("requests") > 0, "the first requests", ARRIVES_S)
            log.write(text[half:])
        eventually(lambda: shipped.count("requests") >= LINES, "the requests", ARRIVES_S)
        eventually(lambda: shipped.count("dead_letters") >= len(BAD_LINES), "the dead letters", ARRIVES_S)
        yield shipped


def test_every_good_line_arrives_once(shipped: Shipped) -> None:
    stored = shipped.store.ask("SELECT request_id, uri, source FROM requests")
    assert any("?" in record["uri"] for record in shipped.records)  # or redaction is not tested
    assert sorted((row["request_id"], row["uri"]) for row in stored) == sorted(
        (record["request_id"], path_of(record["uri"])) for record in shipped.records
    )
    (source,) = {row["source"] for row in stored}
    assert source.endswith(f":{shipped.log}")
    assert len(source) > len(f":{shipped.log}")  # the host stands before it


def test_every_bad_line_is_a_dead_letter_with_its_reason(shipped: Shipped) -> None:
    stored = shipped.store.ask("SELECT kind, position, reason, raw FROM dead_letters ORDER BY position")
    assert [(row["position"], row["reason"], row["raw"]) for row in stored] == shipped.refused
    assert {row["kind"] for row in stored} == {"requests"}


def test_the_figures_are_the_truth(shipped: Shipped) -> None:
    result = sojourn.split(shipped.store.dsn())
    truth = shipped.truth
    assert result.requests == LINES
    for name in ("upload", "retries", "queue", "service_time", "transfer", "send"):
        assert result.means[name] == pytest.approx(truth.mean(name), abs=1e-3), name
    assert result.response_time["mean"] == pytest.approx(truth.mean("response"), abs=1e-3)
    assert dict(result.clock.select("upstream", "offset").iter_rows()) == pytest.approx(truth.skews, abs=1e-3)


def test_the_split_of_the_store_is_that_of_the_log(shipped: Shipped) -> None:
    both = (sojourn.split(source).to_dict() for source in (shipped.log, shipped.store.dsn()))
    assert list(differences(*map(without_duplicates, both))) == []


def test_the_rollup_counts_every_request_once(shipped: Shipped) -> None:
    with connect(shipped.store.dsn()) as store:
        refresh_rollups(store)
    (row,) = shipped.store.ask("SELECT sum(requests) AS n, sum(service_seconds) AS s FROM rollup_minute FINAL")
    assert row["n"] == LINES
    assert row["s"] == pytest.approx(shipped.truth.sums["service_time"], abs=1e-5 * LINES)


def test_no_byte_of_the_log_is_missing(shipped: Shipped) -> None:
    lines = LINES + len(BAD_LINES)
    (row,) = shipped.store.ask("SELECT sum(arrived) AS arrived, max(outstanding) AS outstanding FROM reconciliation")
    assert (row["arrived"], row["outstanding"]) == (lines, 0)
    (source,) = shipped.store.ask("SELECT DISTINCT source FROM reconciliation")
    assert source["source"].endswith(f":{shipped.log}")
    (covered,) = shipped.store.ask("SELECT min(begin) AS b, max(end) AS e, sum(end - begin) AS n FROM line_runs FINAL")
    assert (covered["b"], covered["e"], covered["n"]) == (0, shipped.log.stat().st_size, shipped.log.stat().st_size)
    kept = shipped.store.ask("SELECT sum(requests) AS good, sum(dead_letters) AS bad FROM stored_records")
    assert kept == [{"good": LINES, "bad": len(BAD_LINES)}]


def test_a_start_warns_of_nothing(shipped: Shipped) -> None:
    assert shipped.agent.warnings() == []
    assert shipped.of_spans.warnings() == []


def test_the_agent_says_how_it_is(shipped: Shipped) -> None:
    expected = {"access_log", "lines", "store_lines", "otlp", "store_spans"}

    def components() -> set[str]:
        return {row["component"] for row in shipped.store.ask("SELECT DISTINCT component FROM pipeline_metrics")}

    eventually(lambda: expected <= components(), "metrics of every component", ARRIVES_S)
    (agent,) = shipped.store.ask("SELECT DISTINCT agent FROM pipeline_metrics")
    assert agent["agent"] != ""


def test_samples_of_the_listen_queue_arrive(shipped: Shipped) -> None:
    samples = [
        {"time": 1767225600.25 + second, "socket": "app1", "port": 8000, "depth": depth, "limit": 64}
        for second, depth in enumerate((0, 3, 64))
    ]
    lines = [json.dumps(sample) + "\n" for sample in samples]
    (shipped.agent.logs / "listen-app1.jsonl").write_text("".join([*lines, '{"unavailable": "not on this system"}\n']))
    eventually(lambda: shipped.count("listen_queue") == 3, "the samples", ARRIVES_S)
    stored = shipped.store.ask(
        "SELECT toFloat64(time) AS at, socket, port, depth, backlog FROM listen_queue ORDER BY time"
    )
    assert stored == [
        {"at": s["time"], "socket": "app1", "port": 8000, "depth": s["depth"], "backlog": 64} for s in samples
    ]
    eventually(lambda: shipped.count("dead_letters", "kind = 'listen_queue'") == 1, "the refused sample", ARRIVES_S)
    (refused,) = shipped.store.ask("SELECT reason FROM dead_letters WHERE kind = 'listen_queue'")
    assert refused["reason"] == "invalid_sample"


def test_spans_give_the_wasted_work_of_504s(shipped: Shipped, tmp_path: Path) -> None:
    """The app is given 60 ms and takes 150: the work after that has no client."""
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": shipped.of_spans.otlp,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_SERVICE_NAME": "shop",
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
    }
    patience = 0.06
    ids = [f"given-up-{number}" for number in range(3)]
    records = []
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, _):
        for request_id in ids:
            stamp = stamp_now()
            given_up(port, request_id, stamp, patience)
            records.append({
                "time": f"{time.time():.3f}", "request_id": request_id, "service": "shop", "status": "504",
                "uri": "/sleep", "request_time": f"{patience:.3f}", "request_start": stamp.removeprefix("t="),
                "upstream_addr": f"127.0.0.1:{port}", "upstream_status": "504", "upstream_connect_time": "0.000",
                "upstream_header_time": "-", "upstream_response_time": f"{patience:.3f}", "proxy": "edge",
            })  # fmt: skip
        (shipped.agent.logs / "timeouts.jsonl").write_bytes(b"".join(as_lines(records)))
        eventually(lambda: shipped.count("spans") == len(ids), "the spans", ARRIVES_S)
    eventually(lambda: shipped.count("requests", "status = 504") == len(ids), "the requests", ARRIVES_S)
    spans = shipped.store.ask(
        "SELECT request_id, service, kind, seconds, toFloat64(service_time) AS s FROM spans FINAL"
    )
    assert sorted(span["request_id"] for span in spans) == ids
    for span in spans:
        assert (span["service"], span["kind"]) == ("shop", "server")
        assert span["seconds"] >= 0.15
        assert span["s"] >= 0.15
    wasted = shipped.store.ask("SELECT request_id, status, waited, wasted, worker FROM wasted_work")
    assert sorted(row["request_id"] for row in wasted) == ids
    for row in wasted:
        assert (row["status"], row["waited"]) == (504, patience)
        assert row["wasted"] == next(span["seconds"] for span in spans if span["request_id"] == row["request_id"])
        assert row["worker"] != ""


def given_up(port: int, request_id: str, stamp: str, patience: float) -> None:
    """A request whose sender goes away after ``patience`` seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    connection.request("GET", "/sleep", headers={"X-Request-Start": stamp, "X-Request-Id": request_id})
    with pytest.raises(TimeoutError):
        connection.getresponse()
    connection.close()
