"""Laws: on data made to fit them they are met, and where they do not hold they say why."""

from __future__ import annotations

import heapq
import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_simulator import PoolSettings, Route, as_lines, simulated_pool
from sojourn.analyses.audit.result import Audit
from sojourn.analyses.laws.analysis import NAMES, TICK, Laws, Prediction, StationLaws, laws
from sojourn.analyses.laws.charts import wait_against_utilisation
from sojourn.analyses.laws.section import laws_section
from sojourn.cli import app
from sojourn.present.terminal import show
from sojourn.timeline.visits import FROM_OPTION, Visits, Workers, visits
from typer.testing import CliRunner

MEAN = 0.1
COUNT = 200_000
Array = np.ndarray


def visits_of(arrival: Array, wait: Array, service: Array, workers: int, backend: Array | None = None) -> Visits:
    """Visits of one upstream, each taken for ``service`` after its wait."""
    backend = np.zeros(len(arrival), np.int32) if backend is None else backend.astype(np.int32)
    count = int(backend.max()) + 1
    names = tuple(f"10.0.0.{i + 1}:80" for i in range(count))
    begun = arrival + wait
    return Visits(
        datetime(2026, 1, 1, tzinfo=UTC), arrival, begun, begun, begun + service, backend, names,
        np.zeros(count, np.int32), (", ".join(names),),
        Workers(np.full(count, workers, np.int64), (FROM_OPTION,) * count, np.zeros(count, np.int64)),
        pl.DataFrame({"status": np.full(len(arrival), 200, np.int16)}),
    )  # fmt: skip


def queue(arrival: Array, service: Array, workers: int) -> Visits:
    """First come, first served, by the recursion of Kiefer and Wolfowitz."""
    free = [0.0] * workers
    wait = np.empty(len(arrival))
    for number, (instant, seconds) in enumerate(zip(arrival.tolist(), service.tolist(), strict=True)):
        begun = max(instant, heapq.heappop(free))
        heapq.heappush(free, begun + seconds)
        wait[number] = begun - instant
    return visits_of(arrival, wait, service, workers)


def exponential(rng: np.random.Generator, mean: float, count: int) -> Array:
    return rng.exponential(mean, count)


def lognormal(rng: np.random.Generator, mean: float, cv2: float, count: int) -> Array:
    sigma = math.log1p(cv2)
    return rng.lognormal(math.log(mean) - sigma / 2, math.sqrt(sigma), count)


def hyperexponential(rng: np.random.Generator, mean: float, cv2: float, count: int) -> Array:
    """Balanced means."""
    part = (1 + math.sqrt((cv2 - 1) / (cv2 + 1))) / 2
    first = rng.random(count) < part
    return rng.exponential(1, count) * mean / (2 * np.where(first, part, 1 - part))


def only(laws_result: Laws) -> StationLaws:
    (station,) = laws_result.stations
    return station


def law(station: StationLaws, name: str) -> Prediction:
    return next(p for p in station.predictions if p.law == name)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_poisson_and_exponential_meet_erlang_c_within_five_per_cent(workers: int) -> None:
    rng = np.random.default_rng(workers)
    arrival = np.cumsum(exponential(rng, MEAN / workers / 0.8, COUNT))
    station = only(laws(queue(arrival, exponential(rng, MEAN, COUNT), workers)))
    assert station.station.utilisation == pytest.approx(0.8, rel=0.02)
    assert (station.station.ca2, station.station.cs2) == (pytest.approx(1, abs=0.03), pytest.approx(1, abs=0.03))
    assert station.station.dispersion == pytest.approx(1, abs=0.1)
    assert law(station, "erlang_c").error == pytest.approx(0, abs=0.05)
    assert law(station, "allen_cunneen").error == pytest.approx(0, abs=0.08)
    assert station.believe == ("pollaczek_khinchine" if workers == 1 else "erlang_c")
    low = station.station.mean_wait - 2 * station.station.wait_error
    assert low < law(station, "erlang_c").mean_wait < station.station.mean_wait + 2 * station.station.wait_error  # type: ignore[operator]


@pytest.mark.parametrize("cv2", [0.25, 4.0])
def test_any_services_of_one_worker_meet_pollaczek_and_khinchine(cv2: float) -> None:
    rng = np.random.default_rng(4)
    arrival = np.cumsum(exponential(rng, MEAN / 0.7, COUNT))
    station = only(laws(queue(arrival, lognormal(rng, MEAN, cv2, COUNT), 1)))
    assert law(station, "pollaczek_khinchine").error == pytest.approx(0, abs=0.05)
    assert "not exponential" in str(law(station, "erlang_c").reason)
    assert station.believe == "pollaczek_khinchine"


@pytest.mark.parametrize(("workers", "ca2", "cs2"), [(1, 2.0, 0.5), (4, 2.0, 1.5), (4, 2.0, 0.3)])
def test_general_arrivals_and_services_come_near_allen_and_cunneen(workers: int, ca2: float, cs2: float) -> None:
    rng = np.random.default_rng(6)
    arrival = np.cumsum(hyperexponential(rng, MEAN / workers / 0.9, ca2, COUNT))
    station = only(laws(queue(arrival, lognormal(rng, MEAN, cs2, COUNT), workers)))
    assert law(station, "allen_cunneen").error == pytest.approx(0, abs=0.12)
    assert station.believe == ("kingman" if workers == 1 else "allen_cunneen")
    assert "not Poisson" in str(law(station, "erlang_c").reason)
    assert (law(station, "kingman").mean_wait is None) == (workers > 1)


def test_a_closed_loop_meets_its_law() -> None:
    """8 clients, 100 ms, 2 workers: R = N S / c = 0.4 s, of which 0.3 s is waiting."""
    rng = np.random.default_rng(7)
    due, free = [0.0] * 8, [0.0, 0.0]
    arrival, wait, service = [], [], rng.exponential(MEAN, 30_000)
    for seconds in service:
        instant = heapq.heappop(due)
        begun = max(instant, heapq.heappop(free))
        heapq.heappush(free, begun + seconds)
        heapq.heappush(due, begun + seconds)
        arrival.append(instant)
        wait.append(begun - instant)
    station = only(laws(visits_of(np.array(arrival), np.array(wait), service, 2)))
    assert station.believe == "closed_loop"
    assert law(station, "closed_loop").mean_wait == pytest.approx(0.3, rel=0.02)
    assert law(station, "closed_loop").error == pytest.approx(0, abs=0.03)
    for name in ("erlang_c", "allen_cunneen", "kingman", "pollaczek_khinchine"):
        assert law(station, name).mean_wait is None
        assert "closed loop" in str(law(station, name).reason)


def test_a_trend_takes_the_laws_away() -> None:
    rng = np.random.default_rng(1)
    result = queue(np.cumsum(exponential(rng, 0.2, 5000)), exponential(rng, MEAN, 5000), 1)
    audit = Audit(stationary=False, trend="arrivals rose by 80 % (p = 0.001)")
    reported = laws(result, audit)
    assert reported.failures[0].startswith("not stationary: arrivals rose")
    assert only(reported).believe is None
    assert all("arrivals rose" in str(p.reason) for p in only(reported).predictions if p.law != "closed_loop")
    assert "no law applies" in laws_section(reported).sentence
    assert laws(result, Audit(stationary=True)).stations[0].believe is not None


def test_more_load_than_can_be_served_has_no_law() -> None:
    rng = np.random.default_rng(2)
    station = only(laws(queue(np.cumsum(exponential(rng, 0.05, 5000)), exponential(rng, MEAN, 5000), 1)))
    assert station.station.utilisation > 1
    assert station.believe is None
    assert "the queue only grows" in str(law(station, "allen_cunneen").reason)


def test_bursts_that_short_gaps_do_not_show_are_seen() -> None:
    """A rate that goes up and down: the gaps look nearly exponential, the counts do not."""
    rng = np.random.default_rng(3)
    rates = np.repeat(np.tile([6.0, 12.0], 50), 300)
    arrival = np.cumsum(rng.exponential(1 / rates))
    station = only(laws(queue(arrival, exponential(rng, MEAN, len(arrival)) * 0.5, 1)))
    assert abs(station.station.ca2 - 1) < 0.2
    assert station.station.dispersion > 2  # type: ignore[operator]
    assert "index of dispersion" in str(law(station, "pollaczek_khinchine").reason)


def test_round_robin_makes_arrivals_more_even_than_poisson() -> None:
    """Every other arrival of a Poisson process: Erlang-2, c_a² = 1/2; and the upstream as one queue waits less."""
    rng = np.random.default_rng(5)
    arrival = np.cumsum(exponential(rng, MEAN / 2 / 0.8, 60_000))
    service = exponential(rng, MEAN, len(arrival))
    which = np.arange(len(arrival)) % 2
    wait = np.empty(len(arrival))
    for backend in (0, 1):
        wait[which == backend] = queue(arrival[which == backend], service[which == backend], 1).wait
    result = laws(visits_of(arrival, wait, service, 1, which))
    assert [s.station.kind for s in result.stations] == ["upstream", "backend", "backend"]
    upstream, one, _ = result.stations
    assert one.station.ca2 == pytest.approx(0.5, abs=0.03)
    assert one.believe == "kingman"
    assert law(one, "kingman").error == pytest.approx(0, abs=0.15)
    assert (upstream.station.workers, upstream.station.ca2) == (2, pytest.approx(1, abs=0.03))
    assert law(upstream, "erlang_c").mean_wait < 0.8 * upstream.station.mean_wait  # type: ignore[operator]
    assert "cost of balancing" in " ".join(result.notes)


def test_too_few_to_speak_of_averages() -> None:
    rng = np.random.default_rng(2)
    with pytest.raises(sojourn.SojournError, match="200 requests"):
        laws(queue(np.cumsum(exponential(rng, 0.5, 100)), exponential(rng, MEAN, 100), 1))


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0.001, 2), st.floats(0.001, 2)), min_size=5, max_size=40),
    st.integers(1, 4),
    st.sampled_from([0.001, 1.0, 60.0]),
)
def test_nothing_depends_on_the_unit_of_time(pairs: list[tuple[float, float]], workers: int, unit: float) -> None:
    gaps, service = (np.array(column) for column in zip(*pairs, strict=True))
    one, other = (laws(queue(np.cumsum(gaps * u), service * u, workers), least=2).stations[0] for u in (1.0, unit))
    for name in ("utilisation", "ca2", "cs2"):
        assert getattr(other.station, name) == pytest.approx(getattr(one.station, name), rel=1e-6, abs=1e-9)
    for p, q in zip(one.predictions, other.predictions, strict=True):
        if p.mean_wait is not None and q.mean_wait is not None:
            assert q.mean_wait == pytest.approx(p.mean_wait * unit, rel=1e-6, abs=1e-9)
        assert (p.mean_wait is None) == (p.reason is not None)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four workers behind one address, 80 % busy, as nginx logs it."""
    one = {"/x": Route(1.0, 0.05, "exponential")}
    records, _ = simulated_pool(PoolSettings(requests=20_000, rate=64.0, routes=one, backends=1, workers=4))
    path = tmp_path_factory.mktemp("laws") / "access.jsonl"
    path.write_bytes(b"".join(as_lines(records)))
    return path


def test_a_log_meets_erlang_c(log: Path) -> None:
    result = sojourn.split(log, columns=("request_id",))
    station = only(laws(visits(result.rows), result.audit))
    assert (station.station.workers, station.station.utilisation) == (4, pytest.approx(0.8, rel=0.05))
    prediction = law(station, "erlang_c")
    assert prediction.mean_wait is not None
    assert abs(prediction.mean_wait - station.station.mean_wait) < max(
        station.station.wait_error, 0.05 * prediction.mean_wait
    )


def test_the_command(log: Path) -> None:
    printed = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["laws", str(log)])
    assert printed.exit_code == 0, printed.output
    assert "Erlang C applies" in " ".join(printed.stdout.split())
    assert max(map(len, printed.stdout.splitlines())) <= 80
    document = json.loads(CliRunner().invoke(app, ["laws", str(log), "--workers", "8", "--json"]).stdout)
    (station,) = document["stations"]
    assert (station["workers"], station["workers_source"]) == (8, "told")
    assert station["utilisation"] == pytest.approx(0.4, rel=0.05)
    assert set(station["laws"]) == set(NAMES)
    for one in station["laws"].values():
        assert (one["mean_wait"] is None) != (one["reason"] is None)


def test_error_of_a_wait_below_the_resolution_is_not_printed() -> None:
    rng = np.random.default_rng(3)
    station = only(laws(queue(np.cumsum(exponential(rng, 1.0, 30_000)), exponential(rng, 0.01, 30_000), 1)))
    believed = station.believed
    assert believed is not None
    assert believed.mean_wait is not None
    assert (believed.mean_wait < TICK, station.station.mean_wait < TICK) == (True, True)
    assert "%" not in station.sentence
    assert station.off_by(believed) == ""
    waits_long = replace(
        station,
        station=replace(station.station, mean_wait=0.2, wait_error=0.01),
        predictions=tuple(replace(each, error=-0.999) for each in station.predictions),
    )
    assert "predicts no wait; measured 200 ms" in waits_long.sentence
    assert "%" not in waits_long.sentence


def test_wrong_usage(log: Path) -> None:
    assert CliRunner().invoke(app, ["laws", str(log), "--workers", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["laws"]).exit_code == 2


def test_section_and_chart(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    result = laws(queue(np.cumsum(exponential(rng, 0.125, 20_000)), exponential(rng, MEAN, 20_000), 1))
    show(laws_section(result))
    assert "Pollaczek–Khinchine" in capsys.readouterr().out
    drawn = wait_against_utilisation(only(result)).to_dict()
    sizes = [len(values) for values in drawn["datasets"].values()]
    assert 10 < max(sizes) < 400
    assert json.dumps(result.to_dict())
