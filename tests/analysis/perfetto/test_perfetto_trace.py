"""The trace of ``sojourn timeline`` shows what depth and blame compute of the same requests."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sojourn
from one_worker_log import event_loop
from perfetto_trace import ParsedTrace, integral, parsed
from sojourn.perfetto import streams
from sojourn.perfetto.write import WrittenTimeline
from sojourn.timeline.charge import accounts
from sojourn.timeline.phases import PHASES
from sojourn.timeline.services import services_of
from sojourn.timeline.visits import Visits
from sojourn.timeline.visits_of import visits_of
from worker_log import Draw, WorkerSystem, exponential, of_route, worker_log

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
ROUNDED = 1e-6  # s: instants are whole microseconds
HOLDS = (*PHASES, "turnaround", "unknown service")


def after_sometimes(draw: Draw) -> Draw:
    """Return work after the answers of one route."""
    return lambda rng, route: draw(rng, route) if route == "/signup" else 0.0


PHASED = WorkerSystem(
    requests=2_000, load=0.25, routes=(("/page", 0.8), ("/export", 0.02), ("/signup", 0.18)),
    body=of_route("/export", 2.0), after=after_sometimes(exponential(0.3)),
)  # fmt: skip
READING = WorkerSystem(
    requests=2_000, load=0.45, routes=(("/page", 0.75), ("/signup", 0.25)), before=after_sometimes(exponential(0.2))
)


class Case:
    """A log with its trace, and what other commands compute of it."""

    def __init__(self, requests: sojourn.SplitResult, folder: Path) -> None:
        self.written: WrittenTimeline = sojourn.write_timeline(requests, folder / "a.pftrace")
        self.path = folder / "a.pftrace"
        self.trace: ParsedTrace = parsed(self.path)
        self.depth = sojourn.depth(requests)
        self.visits: Visits = visits_of(requests)


@pytest.fixture(scope="module", params=["shop", "shop without spans", "plain", "phases", "reading"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("perfetto")
    if request.param in ("phases", "reading"):
        worker_log(folder / "a.jsonl", PHASED if request.param == "phases" else READING)
        return Case(sojourn.split(folder / "a.jsonl", columns=["request_id"]), folder)
    if request.param == "plain":
        return Case(sojourn.split(EXAMPLES / "plain.log.gz", columns=["request_id"]), folder)
    spans = EXAMPLES / "shop-spans.jsonl.gz" if request.param == "shop" else ()
    return Case(sojourn.split(EXAMPLES / "shop.jsonl.gz", spans=spans, columns=["request_id"]), folder)


def test_slices_of_a_lane_follow_each_other(case: Case) -> None:
    lanes = defaultdict(list)
    for each in case.trace.slices:
        assert each.end is not None
        assert each.end > each.begin or each.phase == "released"
        assert each.depth == (1 if each.phase == "released" else 0)
        if each.depth == 0:
            lanes[each.track].append(each)
    for slices in lanes.values():
        assert all(before.end <= after.begin for before, after in pairwise(slices))  # type: ignore[operator]
    assert case.trace.times == sorted(case.trace.times)


def test_workers_are_held_for_as_long_as_depth_says(case: Case) -> None:
    seconds = Counter[str]()
    for each in case.trace.slices:
        seconds[each.phase] += each.seconds  # type: ignore[assignment]
    # A hold is cut where the next one of its worker seems to begin before its end, by rounding.
    slack = len(case.visits) * (max(case.visits.workers.slack) + 2 * ROUNDED)
    for phase in PHASES:
        assert seconds[phase] == pytest.approx(case.depth.held.get(phase, 0.0), abs=slack)
    for name in {row["upstream"] for row in case.depth.backends}:
        own = [each for each in case.trace.slices if each.phase in HOLDS and name_of(case, each.track) == name]
        serving = integral(case.trace.counter(name, "in service"))
        assert sum(each.seconds for each in own) == pytest.approx(serving, abs=slack)


def name_of(case: Case, track: int) -> str:
    """Return the address of the backend that a track belongs to."""
    return case.trace.path_of(track)[0].removeprefix("backend ")


def test_counters_have_the_averages_and_the_peak_of_depth(case: Case) -> None:
    begin, end = case.depth.window  # type: ignore[misc]
    seconds = (end - begin).total_seconds()
    for row in case.depth.backends:
        levels = {name: case.trace.counter(row["upstream"], name) for name in ("waiting", "in service", "in system")}
        tolerance = ROUNDED * 4 * len(case.visits)
        assert integral(levels["waiting"]) == pytest.approx(row["waiting"] * seconds, abs=tolerance)
        assert integral(levels["in service"]) == pytest.approx(row["in_service"] * seconds, abs=tolerance)
        assert integral(levels["in system"]) == pytest.approx(row["in_system"] * seconds, abs=tolerance)
        assert max(value for _, value in levels["waiting"]) == row["most_waiting"]
        assert {each[-1][1] for each in levels.values()} == {0}


def test_each_wait_is_a_slice_of_its_length(case: Case) -> None:
    waits = {each.values["number"]: each.seconds for each in case.trace.slices if each.phase == "waiting"}
    left = np.minimum(case.visits.wait_end, np.where(
        case.visits.occupied < case.visits.busy_start, case.visits.occupied, case.visits.wait_end
    ))  # fmt: skip
    expected = left - case.visits.arrival
    some = np.flatnonzero(expected > ROUNDED)
    assert set((some + 1).tolist()) <= set(waits)
    assert [waits[k + 1] for k in some.tolist()] == pytest.approx(expected[some].tolist(), abs=1.1 * ROUNDED)
    assert sum(waits.values()) == pytest.approx(np.maximum(expected, 0).sum(), abs=len(waits) * ROUNDED)


def test_arrows_lead_from_holds_to_waits_that_they_delayed(case: Case) -> None:
    begins = {flow: each for each in case.trace.slices for flow in each.begins_flow}
    ends = {flow: each for each in case.trace.slices for flow in each.ends_flow}
    assert len(begins) == len(ends) == sum(len(each.begins_flow) for each in case.trace.slices) == case.written.arrows
    assert set(begins) == set(ends)
    assert case.written.arrows > 100
    waits = {each.values["number"]: each for each in case.trace.slices if each.phase == "waiting"}
    holds = defaultdict(list)
    for each in case.trace.slices:
        if each.phase in HOLDS:
            holds[each.values["number"]].append(each)
    for flow, culprit in begins.items():
        release, victim = ends[flow], waits[flow]
        held = holds[culprit.values["number"]]
        assert culprit.phase in HOLDS
        assert release.phase == "released"
        assert release.begin == victim.end
        assert release.track == victim.track
        assert culprit.begin < release.begin
        assert name_of(case, culprit.track) == name_of(case, release.track)
        # The culprit held its worker while the victim waited, and released it at the victim's start.
        assert held[-1].end > victim.begin  # type: ignore[operator]
        assert victim.seconds >= 0.001 - ROUNDED
        assert holds[flow][0].begin - held[-1].end <= 6_000_000 + 1_000  # type: ignore[operator]
        assert release.name == f"released by {culprit.name.partition(' (')[0]}"


def test_blame_charges_the_culprit_where_no_other_worker_was_free(case: Case) -> None:
    charged = accounts(case.visits, services_of(case.visits))
    arrows = [(flow - 1, each.values["number"] - 1) for each in case.trace.slices for flow in each.begins_flow]
    victims, culprits = np.array(arrows).T
    blamed = charged.blamed[victims] > case.visits.wait[victims] - 0.001
    assert blamed.sum() > 50
    assert (charged.caused[culprits[blamed]] > 0).all()


def test_the_first_slice_of_a_request_has_its_values(case: Case) -> None:
    rows = case.visits.frame
    first: dict[int, dict[str, object]] = {}
    for each in case.trace.slices:
        if "status" in each.values:
            assert each.values["number"] not in first
            first[each.values["number"]] = each.values
        elif each.phase != "released":
            assert set(each.values) == {"number", "outcome"}
    assert len(first) > 0.99 * len(case.visits)
    for number, values in first.items():
        row = rows.row(number - 1, named=True)
        assert values["status"] == row["status"]
        assert values.get("request_id", "") == (row["request_id"] or "")
        assert values.get("service") == row["service"]
        assert values["queueing_delay_ms"] == pytest.approx(float(case.visits.wait[number - 1]) * 1e3, abs=1e-3)
        assert values["outcome"] == ("given up" if row["status"] in (499, 504) else "served")
    given_up = {each.values["number"] for each in case.trace.slices if each.category.endswith(",given up")}
    assert given_up == {number for number, values in first.items() if values["outcome"] == "given up"}


def test_timestamps_are_those_of_the_log(case: Case) -> None:
    begin, end = case.depth.window  # type: ignore[misc]
    times = case.trace.times
    assert case.trace.unix(times[0]) == pytest.approx(begin.timestamp(), abs=2 * ROUNDED)
    assert case.trace.unix(times[-1]) == pytest.approx(end.timestamp(), abs=2 * ROUNDED)
    assert case.written.begin.timestamp() == pytest.approx(begin.timestamp(), abs=2 * ROUNDED)
    assert case.written.seconds == pytest.approx((times[-1] - times[0]) / 1e9)


def test_the_result_counts_what_the_file_has(case: Case) -> None:
    slices = [each for each in case.trace.slices if each.phase != "released"]
    assert case.written.slices == len(slices)
    assert case.written.tracks >= len(case.trace.tracks)
    assert case.written.size == case.path.stat().st_size < 350 * len(case.visits)
    assert case.written.requests == len(case.visits)


def test_phases_have_slices_of_their_own(case: Case) -> None:
    phases = {each.phase for each in case.trace.slices}
    held = {phase for phase, seconds in case.depth.held.items() if seconds > 1.0}
    assert held <= phases
    for each in case.trace.slices:
        if each.phase in ("read", "body", "after"):
            assert each.name.endswith(f" ({each.phase})")


def test_lanes_are_named_by_workers_or_say_that_they_are_assigned(case: Case) -> None:
    workers = set(case.visits.rows["worker"].drop_nulls().unique().to_list())
    names = {case.trace.path_of(each.track)[-1] for each in case.trace.slices if each.phase in HOLDS}
    assert {name for name in names if name.startswith("worker ")} == {f"worker {worker}" for worker in workers}
    assert {name.endswith(" (assigned)") for name in names if name.startswith("slot ")} <= {True}
    assert all(name.startswith(("worker ", "slot ")) for name in names)
    if not workers:
        most = max(
            value for each in case.depth.backends for _, value in case.trace.counter(each["upstream"], "in service")
        )
        assert int(case.visits.workers.count.sum()) <= len(names) <= most


def test_blocks_of_any_size_give_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STEP", 97)
    sojourn.write_timeline(EXAMPLES / "six-requests.jsonl.gz", tmp_path / "small")
    monkeypatch.setattr(streams, "STEP", 10**9)
    sojourn.write_timeline(EXAMPLES / "six-requests.jsonl.gz", tmp_path / "large")
    assert (tmp_path / "small").read_bytes() == (tmp_path / "large").read_bytes()


def test_a_worker_that_serves_several_at_once_has_several_lanes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(event_loop(1_000, 100.0, lambda rng: rng.uniform(0.02, 0.06)))
    written = sojourn.write_timeline(tmp_path / "a.jsonl", tmp_path / "a.pftrace")
    trace = parsed(tmp_path / "a.pftrace")
    names = {trace.path_of(each.track)[-1] for each in trace.slices if each.phase in HOLDS}
    most = max(value for _, value in trace.counter("127.0.0.1:8000", "in service"))
    assert most > 4
    assert names == {"worker 4711", *(f"worker 4711 · {k}" for k in range(2, most + 1))}
    assert written.arrows == 0


def test_the_queries_of_the_page_run_on_the_tables_of_trace_processor(case: Case) -> None:
    """In SQLite, which ``trace_processor`` is built on, with the columns of its tables ``slice`` and ``flow``."""
    page = (EXAMPLES.parent / "reference" / "timeline.md").read_text(encoding="utf-8")
    block = page.partition("```sqlite\n")[2].partition("```")[0]
    by_route, by_culprit = [statement for statement in block.split(";") if statement.strip()]
    slices = case.trace.slices
    index = {id(each): number for number, each in enumerate(slices)}
    outer = {(each.track, each.end): index[id(each)] for each in slices if each.depth == 0}
    begins = {flow: index[id(each)] for each in slices for flow in each.begins_flow}
    with closing(sqlite3.connect(":memory:")) as tables:
        tables.execute("CREATE TABLE slice (id, name, category, dur, parent_id)")
        tables.execute("CREATE TABLE flow (slice_out, slice_in)")
        tables.executemany(
            "INSERT INTO slice VALUES (?, ?, ?, ?, ?)",
            [
                (index[id(each)], each.name, each.category, each.seconds * 1e9,
                 outer[each.track, each.end] if each.depth else None)
                for each in slices
            ],
        )  # fmt: skip
        arrows = [(begins[flow], index[id(each)]) for each in slices for flow in each.ends_flow]
        tables.executemany("INSERT INTO flow VALUES (?, ?)", arrows)
        routes = {route: seconds for route, _, seconds in tables.execute(by_route)}
        culprits = tables.execute(by_culprit).fetchall()
    assert sum(routes.values()) == pytest.approx(case.depth.held["service"], abs=0.05)
    assert sum(victims for _, victims, _ in culprits) == case.written.arrows
    assert sum(waited for _, _, waited in culprits) <= float(np.maximum(case.visits.wait, 0).sum()) + 0.01
