"""Traces of logs that are unusual: hostile texts, many waits, no waits, upgraded connections, a store."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import sojourn
from perfetto_trace import integral, parsed
from sojourn.store.load import load
from sojourn.timeline.slices import MOST_WAITING
from sojourn.timeline.visits_of import visits_of

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
HOSTILE = ("\x1b[31m/red\x00\n", "/" + "a" * 10_000, "/\ud800half", "/\u202eltr", "/<script>", "", "/" + "ü" * 300)


def log_line(number: int, wait: float = 0.03, start: float | None = None, **fields: str) -> bytes:
    """Return a line of a request that waited for its worker (s), and was served for 10 ms."""
    start = 0.1 * number if start is None else start
    end, took = 1_767_225_600 + start + wait + 0.01, f"{wait + 0.01:.3f}"
    record = {
        "time": f"{end:.3f}", "request_id": f"{number:032x}", "request_time": took, "status": "200",
        "request_start": f"{1_767_225_600 + start:.3f}", "uri": "/", "route": "/", "service": "shop",
        "upstream_addr": "127.0.0.1:8000", "upstream_status": "200", "worker": "1", "upstream_connect_time": "0.000",
        "upstream_header_time": took, "upstream_response_time": took, "queueing_delay": f"{wait:.6f}",
        "service_time": "0.010000", "proxy": "edge", **fields,
    }  # fmt: skip
    return json.dumps(record).encode() + b"\n"


def written_log(folder: Path, *lines: bytes) -> Path:
    """Write a log, and return its path."""
    (folder / "a.jsonl").write_bytes(b"".join(lines))
    return folder / "a.jsonl"


def test_only_the_first_waiting_lanes_are_drawn_and_the_rest_is_counted(tmp_path: Path) -> None:
    log = written_log(tmp_path, *(log_line(k, wait=0.009 * k, start=0.001 * k) for k in range(400)))
    written = sojourn.write_timeline(log, tmp_path / "a")
    trace, depth = parsed(tmp_path / "a"), sojourn.depth(log)
    lanes = [uuid for uuid in trace.tracks if trace.path_of(uuid)[-1].startswith("waiting ")]
    lanes = [uuid for uuid in lanes if trace.tracks[uuid].name != "waiting requests"]
    assert {trace.tracks[uuid].name for uuid in lanes} == {f"waiting {k}" for k in range(1, MOST_WAITING + 1)}
    waits = [each for each in trace.slices if each.phase == "waiting"]
    left_out = depth.requests - 1 - len(waits)
    assert 100 < left_out < 200
    (note,) = written.notes
    assert f"{left_out} requests" in note
    assert note in trace.attributes.values()
    levels = trace.counter("127.0.0.1:8000", "waiting")
    assert max(value for _, value in levels) == depth.overall["most_waiting"] > MOST_WAITING
    assert integral(levels) == pytest.approx(visits_of(sojourn.split(log)).wait.sum(), abs=0.001)
    # An arrow ends at a wait that is drawn.
    assert written.arrows == sum(each.seconds >= 0.001 for each in waits)


def test_hostile_texts_are_safe_and_short(tmp_path: Path) -> None:
    lines = [
        log_line(3 * k + j, **{field: text})
        for k, text in enumerate(HOSTILE)
        for j, field in enumerate(("route", "worker", "service"))
    ]
    lines += [log_line(100 + k, request_id="é" * k) for k in range(1, 80)]
    lines.append(log_line(200).replace(b'"/"', b'"/\xff\xfe"'))
    written = sojourn.write_timeline(written_log(tmp_path, *lines), tmp_path / "a.pftrace")
    trace = parsed(tmp_path / "a.pftrace")
    assert written.requests > 90
    texts = [each.name for each in trace.slices] + [track.name for track in trace.tracks.values()]
    texts += [each.values["service"] for each in trace.slices if "service" in each.values]
    assert max(map(len, texts)) < 250
    assert all(text.isprintable() for text in texts)
    ids = {each.values["request_id"] for each in trace.slices if "request_id" in each.values}
    assert {"é" * k for k in range(1, 33)} <= ids
    assert max(len(each.encode()) for each in ids) <= 64


def test_requests_without_a_known_wait_are_no_timeline(tmp_path: Path) -> None:
    unknown = {"request_start": "-", "queueing_delay": "-", "service_time": "-", "upstream_addr": "-"}
    log = written_log(tmp_path, log_line(1, **unknown))
    with pytest.raises(sojourn.SojournError, match="no request has a known wait"):
        sojourn.write_timeline(log, tmp_path / "a")
    assert list(tmp_path.iterdir()) == [log]


def test_a_request_of_no_length_has_no_slice(tmp_path: Path) -> None:
    times = ("request_time", "upstream_header_time", "upstream_response_time", "service_time")
    log = written_log(tmp_path, log_line(1, wait=0.0, time="1767225600.100", **dict.fromkeys(times, "0.000")))
    written = sojourn.write_timeline(log, tmp_path / "a")
    assert (written.requests, written.slices, written.arrows, written.seconds) == (1, 0, 0, 0.0)
    assert parsed(tmp_path / "a").times == []


def test_a_table_is_drawn(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("arrival,wait,service,status\n0,0,0.5,200\n0.1,0.4,0.5,200\n")
    roles = "arrival=arrival:rel,wait=wait:s,service=service:s,status=status"
    written = sojourn.write_timeline(sojourn.table_file(table, roles), tmp_path / "b")
    trace = parsed(tmp_path / "b")
    assert written.requests == 2
    assert trace.unix(trace.times[0]) == pytest.approx(written.begin.timestamp(), abs=1e-6)
    assert trace.seconds_of({"waiting"}) == pytest.approx(0.4)


def test_an_upgraded_connection_holds_its_worker(tmp_path: Path) -> None:
    log = written_log(tmp_path, *(log_line(k) for k in range(3)), log_line(3, status="101", upstream_status="101"))
    sojourn.write_timeline(log, tmp_path / "a")
    slices = [each for each in parsed(tmp_path / "a").slices if each.values.get("status") == 101]
    seconds = sojourn.depth(log).held["service"]
    assert [(each.phase, each.seconds) for each in slices] == [("service", pytest.approx(seconds - 0.03, abs=1e-5))]


def test_failed_and_given_up_requests_have_outcomes(tmp_path: Path) -> None:
    log = written_log(
        tmp_path,
        log_line(1),
        log_line(2, status="500", upstream_status="500"),
        log_line(3, status="499", upstream_status="200"),
    )
    sojourn.write_timeline(log, tmp_path / "a")
    slices = [each for each in parsed(tmp_path / "a").slices if "status" in each.values]
    outcomes = {each.values["status"]: (each.values["outcome"], each.category) for each in slices}
    assert outcomes[200] == ("served", "service")
    assert outcomes[500] == ("failed", "service,failed")
    assert outcomes[499] == ("given up", "service,given up")


def test_only_the_waits_that_meet_a_condition_are_drawn(tmp_path: Path) -> None:
    shop = EXAMPLES / "shop.jsonl.gz"
    where = {"route": "/export"}
    sojourn.write_timeline(shop, tmp_path / "a", where=where)
    trace, depth = parsed(tmp_path / "a"), sojourn.depth(shop, where=where)
    assert {each.name for each in trace.slices if each.phase == "waiting"} == {"/export"}
    assert {each.name for each in trace.slices if each.phase == "service"} > {"/export"}
    begin, end = depth.window  # type: ignore[misc]
    for row in depth.backends:
        waiting = row["waiting"] * (end - begin).total_seconds()
        assert integral(trace.counter(row["upstream"], "waiting")) == pytest.approx(waiting, abs=0.001)


def test_a_store_gives_the_trace_of_its_log(store_dsn: str, tmp_path: Path) -> None:
    shop = tmp_path / "shop.jsonl"
    shop.write_bytes(b"".join(gzip.decompress((EXAMPLES / "shop.jsonl.gz").read_bytes()).splitlines(True)[:300]))
    load(store_dsn, [shop])
    of_store = sojourn.write_timeline(store_dsn, tmp_path / "a")
    of_log = sojourn.write_timeline(shop, tmp_path / "b")
    assert (of_store.requests, of_store.slices, of_store.arrows) == (of_log.requests, of_log.slices, of_log.arrows)
