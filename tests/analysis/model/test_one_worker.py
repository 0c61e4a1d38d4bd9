"""A worker that serves several requests at a time is no fault, and one whose clock is coarse serves one at a time."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from analysis_support import audit_check, split_of_log
from one_worker_log import event_loop, overlaps_of, serial
from sojourn.analyses.blame.run import blame
from sojourn.analyses.blame.section import blame_section
from sojourn.analyses.depth.run import depth
from sojourn.analyses.depth.section import depth_section
from sojourn.analyses.laws.analysis import laws
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.whatif.analysis import whatif
from sojourn.doctor.split_findings import split_findings
from sojourn.model.one_worker import Overlap, overlaps
from sojourn.timeline.visits import visits


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> SplitResult:
    """76 requests/s of 0.1 s each: 760 % of one worker's time."""
    return split_of_log(tmp_path_factory.mktemp("busy"), event_loop(3000, 76.0, lambda rng: rng.expovariate(10.0)))


def utilisation(result: SplitResult) -> dict[str, Any]:
    return audit_check(result, "utilisation")


def test_an_event_loop_is_no_failure_of_the_audit(busy: SplitResult) -> None:
    check = utilisation(busy)
    assert (check["verdict"], check["value"] > 6) == ("unknown", True)
    assert "serve several requests at a time" in check["sentence"]
    assert busy.audit.utilisation[0]["in_one_worker"] > 8
    assert busy.audit.failures() == []
    assert "workers-impossible" not in {finding.code for finding in split_findings(busy, "a.jsonl")}


def test_an_event_loop_at_low_load_is_recognised(tmp_path: Path) -> None:
    result = split_of_log(tmp_path, event_loop(2000, 5.0, lambda rng: rng.expovariate(20.0)))
    check = utilisation(result)
    assert check["value"] < 1
    assert check["verdict"] == "unknown"


@pytest.mark.parametrize("service", [0.01, 0.05])
def test_a_serial_process_with_a_coarse_clock_serves_one_at_a_time(tmp_path: Path, service: float) -> None:
    lines = serial(400, service)
    assert 0 < max(overlaps_of(lines)) < 0.001
    result = split_of_log(tmp_path, lines)
    assert utilisation(result)["verdict"] == "pass"
    assert visits(result.rows).workers.overlap == (Overlap(1, 0.0),)


def test_blame_depth_and_laws_say_that_they_are_unreliable(busy: SplitResult) -> None:
    doubts = (
        *blame_section(blame(busy.rows)).failures,
        *depth_section(depth(busy.rows)).notes,
        *laws(visits(busy.rows)).notes,
    )
    assert sum("one request per worker at a time, and is unreliable there" in doubt for doubt in doubts) == 3
    assert laws(visits(busy.rows)).stations[0].believe is None


def test_what_if_replays_an_app_without_a_limit_and_adds_no_worker_to_it(busy: SplitResult) -> None:
    result = whatif(busy.rows, [{"workers": "+1"}, {"service": "x0.5"}, {"load": "x2"}])
    assert result.refused is None
    assert [change.settings for change in result.withheld] == [{"workers": "+1"}, {"load": "x2"}]
    assert result.variants[0].change["mean"] < -0.3


def test_the_option_workers_is_what_a_backend_serves_at_once(busy: SplitResult) -> None:
    with_workers = visits(busy.rows, workers=40)
    assert with_workers.workers.in_one_worker(0) == 1
    assert not any("unreliable" in note for note in laws(with_workers).notes)
    assert whatif(busy.rows, [{"service": "x1"}], workers=40).refused is None


@pytest.mark.parametrize("workers", [None, 1])
@pytest.mark.parametrize("service", [0.01, 0.05])
def test_a_serial_process_in_a_closed_loop_is_replayed_as_one(
    tmp_path: Path, service: float, workers: int | None
) -> None:
    """No worker that the log does not show: clients ask again when they were answered."""
    rows = split_of_log(tmp_path, serial(1500, service)).rows
    open_loop = whatif(rows, workers=workers)
    assert open_loop.refused is None or "--closed-loop" in open_loop.refused
    assert "--workers" not in (open_loop.refused or "")
    assert whatif(rows, workers=workers, closed_loop=True).refused is None


def test_a_process_that_needs_time_between_requests_is_in_a_closed_loop_all_the_same(tmp_path: Path) -> None:
    rows = split_of_log(tmp_path, serial(900, 0.010, between=0.003, clients=6)).rows
    refused = whatif(rows).refused
    assert refused is not None
    assert "give --closed-loop" in refused
    assert "--workers" not in refused


@pytest.mark.parametrize("workers", [None, 1])
def test_a_what_if_without_stamps_asks_for_stamps_not_for_workers(tmp_path: Path, workers: int | None) -> None:
    rng, records = random.Random(1), []
    for line in event_loop(2000, 500.0, lambda _: 0.0).splitlines():  # one at a time, 1 ms each
        record = json.loads(line) | {"request_start": "", "queueing_delay": ""}
        late = rng.randrange(9) / 1000  # nginx is busy, and reads the answer later
        for name in ("time", "request_time", "upstream_header_time", "upstream_response_time"):
            record[name] = f"{float(record[name]) + late:.3f}"
        records.append(record)
    result = split_of_log(tmp_path, b"".join(json.dumps(record).encode() + b"\n" for record in records))
    assert result.sources == {"duration": len(records)}
    refused = whatif(result.rows, workers=workers).refused
    assert refused is not None
    assert "have nginx stamp the requests" in refused
    assert "give --workers" not in refused


def test_more_requests_at_once_than_the_option_workers_does_not_ask_for_workers(busy: SplitResult) -> None:
    refused = whatif(busy.rows, workers=1).refused
    assert refused is not None
    assert "by --workers" in refused
    assert "give --workers" not in refused


def test_overlaps_of_many_backends_are_those_of_each_alone() -> None:
    """Backends with worker values of the same names, clocks of different steps, and one without an address."""
    rng = random.Random(3)
    rows = [
        {
            "upstream": upstream, "worker": str(rng.randrange(3)), "begin": begin - begin % tick,
            "end": begin - begin % tick + rng.randrange(100, 40_000),
        }
        for upstream, tick in (("a", 1), ("b", 1_000), (None, 10_000))
        for begin in (rng.randrange(1_000_000) for _ in range(80))
    ]  # fmt: skip
    held = pl.DataFrame(rows)
    every = overlaps(held)
    alone = [overlaps(held.filter(pl.col("upstream").eq_missing(pl.lit(name)))) for name in ("a", "b", None)]
    assert every == alone[0] | alone[1] | alone[2]
    for name, (overlap, slack) in every.items():
        assert slack == {"a": 0.000011, "b": 0.00101, None: 0.01001}[name]
        own = [row for row in rows if row["upstream"] == name]
        begun = [
            sum(
                each["begin"] <= row["begin"] < max(each["end"] - slack * 1e6, each["begin"])
                for each in own
                if each["worker"] == row["worker"]
            )
            for row in own
        ]
        assert overlap.most == max(begun)
    assert overlaps(held.clear()) == {}
