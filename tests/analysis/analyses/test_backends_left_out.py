"""Analyses of many backends: what is computed together is what each alone gives, and lists are bounded and say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
import sojourn
from sojourn.analyses.blame.analysis import blame_of
from sojourn.analyses.infer.section import infer_section
from sojourn.analyses.laws.analysis import Laws, laws
from sojourn.analyses.whatif.workload import workload_of
from sojourn.components.inferred import backends as inferred
from sojourn.components.inferred import visits as inferred_visits
from sojourn.present.section import Section
from sojourn.timeline import blocks, free_workers, station, sweep, visit_arrays
from sojourn.timeline.blocks import quantile_of_each
from sojourn.timeline.concurrency import counts_on_arrival, queue_ends
from sojourn.timeline.services import services_of
from sojourn.timeline.visits import Visits, visits
from sojourn.timeline.worker_evidence import way_of, ways_of
from watch_support import EPOCH, record

BACKENDS, REQUESTS = 12, 3_000
COLUMNS = ("request_time", "queueing_delay", "service_time", "header", "answered", "app_service", "uri")


def log_of(path: Any, *, stamps: bool = True) -> Any:
    """Write requests to backends of which the first have the most."""
    random = np.random.default_rng(5)
    ends = np.sort(random.uniform(0, 100, REQUESTS))
    backend = (BACKENDS * random.random(REQUESTS) ** 2).astype(int)
    none = {} if stamps else dict.fromkeys(("queueing_delay", "service_time", "worker", "request_start"), "")
    with path.open("wb") as file:
        for end, at, route in zip(ends, backend, random.integers(0, 4, REQUESTS), strict=True):
            wait, service = (float(random.exponential(mean)) for mean in (0.03, 0.04))
            own = {"upstream_addr": f"10.0.0.{at}:80", "route": f"/{at}/{route % 2}", "worker": "1"} | none
            file.write(record(EPOCH + float(end), wait, service, **own))
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pl.LazyFrame:
    return sojourn.split(log_of(tmp_path_factory.mktemp("many") / "access.jsonl"), columns=COLUMNS).rows


@pytest.fixture
def visited(rows: pl.LazyFrame) -> Visits:
    return visits(rows, columns=COLUMNS)


@pytest.fixture
def two_are_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (visit_arrays, station, free_workers):
        monkeypatch.setattr(module, "LARGEST", 2)


def alike(one: Any, other: Any) -> bool:
    """Whether plain values are equal, numbers up to rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == pytest.approx(other, rel=1e-9)) if isinstance(one, float) else bool(one == other)


@pytest.mark.parametrize(
    "answer",
    [
        lambda rows: blame_of(visits(rows, columns=COLUMNS)).to_dict(),
        lambda rows: laws(visits(rows, columns=COLUMNS), least=50).to_dict(),
        lambda rows: workload_of(rows).way.tolist(),
        lambda rows: sojourn.whatif(rows, force=True).to_dict()["refused"],
        lambda rows: sorted(free_workers.understated(visits(rows, columns=COLUMNS))),
    ],
    ids=["blame", "laws", "way", "whatif", "understated"],
)
def test_backends_in_one_block_are_as_each_alone(
    answer: Callable[[pl.LazyFrame], Any], rows: pl.LazyFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = answer(rows)
    monkeypatch.setattr(blocks, "BLOCK", 1)
    assert alike(together, answer(rows))


def test_counts_on_arrival_are_those_of_each_backend(visited: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    services = services_of(visited)
    ends = queue_ends(visited, services)
    together = counts_on_arrival(visited, ends, services, 200)
    assert len(visited.blocks.rows()) == 1
    monkeypatch.setattr(blocks, "BLOCK", 1)
    assert len(visited.blocks.rows()) == BACKENDS
    for one, other in zip(together, counts_on_arrival(visited, ends, services, 200), strict=True):
        assert one.tolist() == other.tolist()
        assert one.max() > 0
    # Of a single request, those before it that have not left.
    at = int(visited.at_backend[0][150])
    own = visited.at_backend[0][:150]
    assert together[0][at] == int((ends[own] > visited.arrival[at]).sum())


def test_quantiles_of_each_are_those_of_numpy() -> None:
    random = np.random.default_rng(2)
    codes, values = random.integers(0, 40, 900), np.round(random.exponential(0.01, 900), 4)
    for share in (0.0, 0.005, 0.5, 0.77, 1.0):
        quantiles, numbers = quantile_of_each(codes, values, 41, share)
        assert np.isnan(quantiles[40])
        for code in range(40):
            assert quantiles[code] == np.quantile(values[codes == code], share)
            assert numbers[code] == (codes == code).sum()
    values[::7] = np.nan
    assert ways_of(codes, values, 41).tolist() == [way_of(values[codes == code]) for code in range(41)]


def test_laws_of_the_largest_are_unchanged_and_the_others_are_counted(
    visited: Visits, request: pytest.FixtureRequest
) -> None:
    every = laws(visited, least=50)
    assert every.to_dict()["others"] == {}
    request.getfixturevalue("two_are_largest")
    del visited.__dict__["largest"]
    few = laws(visited, least=50)
    names = [each.station.name for each in few.stations]
    assert len(names) == 2
    assert few.to_dict()["stations"] == [each.to_dict() for each in every.stations if each.station.name in names]
    left_out = [each.station for each in every.stations if each.station.name not in names]
    count, requests = len(left_out), sum(each.requests for each in left_out)
    assert few.to_dict()["others"] == {"stations": {"values": count, "requests": requests}}
    assert sum(f"{count:,} others with {requests:,} requests" in note for note in few.notes) == 1
    assert not any("others with" in note for note in every.notes)


def test_laws_look_at_no_backend_beyond_the_largest(
    visited: Visits, two_are_largest: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[int] = []
    original = free_workers.is_lower_bound

    def counted(visits: Visits, code: int, *arguments: Any) -> bool:
        examined.append(code)
        return original(visits, code, *arguments)

    monkeypatch.setattr(free_workers, "is_lower_bound", counted)
    bounds = free_workers.understated(visited)
    assert set(examined) <= set(visited.largest.tolist())
    # The others are not looked at, and claim less.
    assert bounds >= {name for code, name in enumerate(visited.backends) if code not in visited.largest}


def test_blame_lists_the_largest_and_sums_all(rows: pl.LazyFrame, request: pytest.FixtureRequest) -> None:
    every = blame_of(visits(rows, columns=COLUMNS))
    request.getfixturevalue("two_are_largest")
    few = blame_of(visits(rows, columns=COLUMNS))
    whole, part = every.to_dict(), few.to_dict()
    assert len(part["workers"]) == 2
    requests = sum(sorted(map(len, visits(rows, columns=COLUMNS).at_backend))[:-2])
    assert part["others"] == {"workers": {"values": BACKENDS - 2, "requests": requests}}
    assert few.looked_free == pytest.approx(every.looked_free)
    assert len(part["free_workers"]) == min(len(whole["free_workers"]), 3)
    assert part["free_workers"][-1]["upstream"] == "(other)"
    for name in ("workers", "others", "free_workers", "looked_free"):
        del whole[name], part[name]
    assert part == whole
    section = _section(few)
    assert sum(f"{BACKENDS - 2} others with {requests:,} requests" in note for note in section.notes) == 1
    assert not any("others with" in note for note in _section(every).notes)


def _section(result: Any) -> Section:
    from sojourn.analyses.blame.section import blame_section  # noqa: PLC0415

    return blame_section(result)


def test_blame_has_space_for_the_backends_with_requests_at_once(
    visited: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are fewer backends than have space to begin with."""
    spaces: list[int] = []
    original = sweep.accounts_of

    def counted(*arguments: Any, **named: Any) -> sweep.Swept:
        swept = original(*arguments, **named)
        spaces.append(swept.rows)
        return swept

    from sojourn.timeline import charge  # noqa: PLC0415

    monkeypatch.setattr(charge, "accounts_of", counted)
    usual = blame_of(visited).to_dict()
    assert set(spaces) == {sweep.ROWS}
    assert usual["blamed"] > 0


@pytest.mark.parametrize("backends", [40, 400])
def test_space_of_blame_does_not_grow_with_backends(backends: int) -> None:
    """One request after the other, each at another backend with two classes; some overlap."""
    count = 2 * backends
    arrival = np.arange(count, dtype=np.float64)
    at = np.repeat(np.arange(backends), 2)
    each = np.arange(count)
    busy = np.where(each % 2, arrival + 0.5, arrival + 1.0)  # the second waits for the first
    swept = sweep.accounts_of(
        arrival, np.where(each % 2, arrival + 0.5, arrival), np.where(each % 2, busy, arrival), arrival + 1.5, at, at,
        (each, each, each, each),
        workers=np.ones(backends, np.int64), pool=np.arange(backends), victim=each % 2, culprit=each % 2,
        window=np.zeros(count, np.int64), victims=2, culprits=2, windows=1,
    )  # fmt: skip
    assert swept.rows == sweep.ROWS
    assert swept.blamed.sum() == pytest.approx(0.5 * backends)
    assert swept.matrix[0, 1, 0] == pytest.approx(0.5 * backends)


def test_space_of_blame_grows_with_requests_at_once() -> None:
    backends = 5 * sweep.ROWS
    each = np.arange(2 * backends)
    at = each % backends
    second = each >= backends
    # All begin at once: the first ones are served for 1 s, for which the second ones wait.
    arrival = np.where(second, 0.001, 0.0)
    begin, end = np.where(second, 1.0, 0.0), np.where(second, 2.0, 1.0)
    order = np.argsort(begin, kind="stable")
    swept = sweep.accounts_of(
        arrival, np.where(second, 1.0, 0.0), begin, end, at, at, (each, each, order, order),
        workers=np.ones(backends, np.int64), pool=np.arange(backends), victim=second.astype(np.int64),
        culprit=second.astype(np.int64), window=np.zeros(len(each), np.int64), victims=2, culprits=2, windows=1,
    )  # fmt: skip
    assert backends <= swept.rows < 2 * backends
    assert swept.matrix[0, 1, 0] == pytest.approx(0.999 * backends)


def test_inference_reads_backends_together_and_says_which_it_leaves_out(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path / "access.jsonl", stamps=False)
    every = sojourn.infer(log, workers=2)
    assert len(every.backends) == BACKENDS
    reads: list[int] = []
    original = inferred_visits.Visits._only

    def counted(self: inferred_visits.Visits, backends: list[inferred_visits.Backend]) -> inferred_visits.Visits:
        reads.append(len(backends))
        return original(self, backends)

    monkeypatch.setattr(inferred_visits.Visits, "_only", counted)
    assert sojourn.infer(log, workers=2).to_dict() == every.to_dict()
    assert max(reads) == BACKENDS
    assert len(reads) <= 2  # what is inferred without the number of workers, and with it
    monkeypatch.setattr(
        inferred_visits.Visits, "batches", lambda self, backends: ((self, [each]) for each in backends)
    )  # fmt: skip
    assert sojourn.infer(log, workers=2).to_dict() == every.to_dict()
    monkeypatch.undo()
    monkeypatch.setattr(inferred, "LARGEST", 2)
    few = sojourn.infer(log, workers=2)
    left_out = [each for each in few.backends if each.result.reason == inferred.TOO_MANY]
    assert [each.to_dict() for each in few.backends[: -len(left_out)]] == [
        each.to_dict() for each in every.backends[: -len(left_out)]
    ]
    assert all(each.requests < inferred.ENOUGH for each in left_out)
    requests = sum(each.requests for each in left_out)
    (note,) = [note for note in infer_section(few).notes if note.startswith(f"{len(left_out)} backends with")]
    assert f"{requests:,} requests" in note


def test_result_of_few_backends_leaves_nothing_out(rows: pl.LazyFrame) -> None:
    result: Laws = laws(visits(rows, columns=COLUMNS), least=50)
    assert result.others == blame_of(visits(rows, columns=COLUMNS)).others == {}
