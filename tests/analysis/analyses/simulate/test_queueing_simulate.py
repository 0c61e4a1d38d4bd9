"""Simulations agree with theory; invalid arguments are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sojourn.analyses.simulate.analysis import simulate
from sojourn.analyses.simulate.charts import POINTS, wait_chart, wait_points
from sojourn.analyses.simulate.section import simulate_section
from sojourn.cli import app
from sojourn.model.errors import SojournError
from sojourn.queueing.batch_means import interval
from sojourn.queueing.outcome import STATUSES
from sojourn.queueing.processes import ARRIVALS, SERVICES, arrival_process, service_process
from sojourn.queueing.system import BALANCERS, DISCIPLINES, System
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

REPOSITORY = Path(__file__).parents[4]
MILLION = 1_000_000
MODELS = [
    ("M/M/1", "poisson:8", "exponential:0.1", 1, 0.4),
    ("M/D/1", "poisson:8", "constant:0.1", 1, 0.2),
    ("M/M/2", "poisson:16", "exponential:0.1", 2, 0.1 * 0.64 / 0.36),
    ("M/M/8", "poisson:64", "exponential:0.1", 8, 0.028602807840126),
    ("M/G/1", "poisson:7", "lognormal:0.1:2", 1, 0.7 * 0.1 * 3 / 2 / 0.3),
]


@pytest.mark.parametrize(("name", "arrivals", "service", "workers", "mean_wait"), MODELS, ids=[m[0] for m in MODELS])
def test_waits_of_two_million_requests_match_theory(
    name: str, arrivals: str, service: str, workers: int, mean_wait: float
) -> None:
    result = simulate(arrivals, service, System((workers,)), requests=2 * MILLION, seed=2)
    assert result.theory is not None
    assert result.theory.name == name
    assert result.theory.mean_wait == pytest.approx(mean_wait)
    assert result.wait["mean"] == pytest.approx(mean_wait, rel=0.02)
    for figure, wait in result.theory.wait.items():
        assert result.wait[figure] == pytest.approx(wait, rel=0.03, abs=1e-9)


def test_intervals_of_40_seeds_cover_the_true_mean() -> None:
    runs = [simulate("poisson:7", "exponential:0.1", requests=200_000, seed=seed) for seed in range(40)]
    truth = 0.7 * 0.1 / 0.3
    means = np.array([run.wait["mean"] for run in runs])
    assert means.mean() == pytest.approx(truth, rel=0.01)
    covered = sum(abs(run.mean_wait.mean - truth) <= run.mean_wait.half for run in runs)
    assert covered >= 34  # of 40 at 95 %: fewer once in a thousand


def test_lifo_has_the_mean_wait_of_fifo_and_a_longer_tail() -> None:
    first, last = (
        simulate("poisson:8", "exponential:0.1", System((1,), discipline), requests=2 * MILLION, seed=2)
        for discipline in ("fifo", "lifo")
    )
    assert last.wait["mean"] == pytest.approx(first.wait["mean"], rel=0.02)
    assert last.theory.mean_wait == first.theory.mean_wait
    assert not last.theory.wait  # its quantiles are not those of fifo
    assert last.wait["p999"] > 2 * first.wait["p999"]


def test_limited_capacity_matches_theory() -> None:
    result = simulate("poisson:16", "exponential:0.1", System((2,), capacity=4), requests=MILLION, seed=3)
    assert result.theory.name == "M/M/2/6"
    assert result.counts["rejected"] / result.counted == pytest.approx(result.theory.blocking, rel=0.02)
    assert result.wait["mean"] == pytest.approx(result.theory.mean_wait, rel=0.02)


def test_approximations_are_near_and_give_a_reason() -> None:
    turns = simulate("poisson:16", "exponential:0.1", System((1, 1)), requests=MILLION, seed=4)
    assert turns.theory is None
    assert "round_robin" in turns.reason
    assert turns.wait["mean"] == pytest.approx(turns.approximation.mean_wait, rel=0.1)
    bursts = simulate("hyperexponential:8:4", "exponential:0.1", requests=2 * MILLION, seed=4)
    assert bursts.approximation.mean_wait == pytest.approx(0.4 * 2.5)
    assert bursts.wait["mean"] == pytest.approx(bursts.approximation.mean_wait, rel=0.1)
    shared = simulate("poisson:16", "exponential:0.1", System((1, 1), balancer="shared_queue"), requests=1000)
    assert shared.theory.name == "M/M/2"


@pytest.mark.parametrize(
    ("service", "system", "reason"),
    [
        ("pareto:0.1:1.5", System((1,)), "variance"),
        ("pareto:0.1:1.5", System((2,)), "variance"),
        ("exponential:0.2", System((1,)), "offered load"),
        ("exponential:0.1", System((1,), timeout=1), "time-outs"),
        ("exponential:0.1", System((1,), "codel"), "codel"),
        ("constant:0.1", System((1,), capacity=2), "capacity"),
        ("exponential:0.1", System((1, 1), balancer="least_conn"), "least_conn"),
    ],
)
def test_reports_why_there_is_no_closed_form(service: str, system: System, reason: str) -> None:
    result = simulate("poisson:8", service, system, requests=2_000)
    assert result.theory is None
    assert reason in result.reason
    assert result.to_dict()["theory"] is None
    assert reason in " ".join(simulate_section(result).notes)


DRAWN = 400_000


@pytest.mark.parametrize(
    ("process", "mean", "cv2"),
    [
        (arrival_process("poisson:5"), 0.2, 1.0),
        (arrival_process("constant:5"), 0.2, 0.0),
        (arrival_process("hyperexponential:5:3"), 0.2, 3.0),
        (service_process("exponential:0.3"), 0.3, 1.0),
        (service_process("lognormal:0.3:0.5"), 0.3, 0.5),
        (service_process("pareto:0.3:6"), 0.3, 1 / 24),
    ],
)
def test_drawn_values_have_the_expected_moments(process: object, mean: float, cv2: float) -> None:
    values = process.drawn(DRAWN, np.random.default_rng(1))
    assert process.cv2 == pytest.approx(cv2)
    assert values.mean() == pytest.approx(mean, rel=0.01)
    assert values.var() / values.mean() ** 2 == pytest.approx(cv2, rel=0.05, abs=1e-12)


def test_one_seed_generates_the_same_requests_for_any_system() -> None:
    one, other = (
        simulate("poisson:8", "exponential:0.1", System((workers,), discipline), requests=5_000, seed=7)
        for workers, discipline in ((1, "fifo"), (3, "lifo"))
    )
    np.testing.assert_array_equal(one.outcome.arrival, other.outcome.arrival)
    assert simulate("poisson:8", "exponential:0.1", requests=5_000, seed=8).wait != one.wait


def written(path: Path, lines: list[object]) -> str:
    path.write_text("\n".join(map(str, lines)))
    return f"trace:{path}"


def test_traces_replace_drawn_values(tmp_path: Path) -> None:
    arrivals = written(tmp_path / "a", ["# six requests", 100, 101, 102, "", 103, 104, 105])
    services = written(tmp_path / "s", [45, 16, 8, 4, 2, 1])
    result = simulate(arrivals, services, System((1,), timeout=60))
    assert result.requests == result.counted == 6
    assert result.to_dict()["timeouts"] == 5
    assert result.counts["served"] == 1
    assert result.wasted == pytest.approx(31)
    with pytest.raises(ValueError, match=r"requests=7.* 6$"):
        simulate(arrivals, services, requests=7)
    repeated = simulate("constant:1", services, requests=12)
    assert repeated.busy == pytest.approx(2 * 76)
    assert "6" in " ".join(repeated.notes)


@pytest.mark.parametrize(
    ("lines", "location"),
    [
        (["1.5", "abc", "2"], "line 2"),
        (["1", "nan"], "line 2"),
        (["1", "inf"], "line 2"),
        (["3", "2"], "line 2"),
        ([], "number"),
        (["x"] * 9, "line 1"),
        (["\x1b[31mred"], r"x1b"),
    ],
    ids=["text", "nan", "inf", "descending", "empty", "many", "escape"],
)
def test_rejects_bad_lines_of_a_trace(
    tmp_path: Path, lines: list[str], location: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(SojournError, match=location) as failure:
        simulate(written(tmp_path / "a", lines), "constant:1")
    assert "\x1b" not in str(failure.value)
    assert str(failure.value).replace(str(tmp_path), "DIR") == snapshot


def test_rejects_negative_services_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(SojournError, match="line 1"):
        simulate("poisson:1", written(tmp_path / "s", [-1]), requests=5)
    with pytest.raises(SojournError, match="No such file"):
        simulate("poisson:1", f"trace:{tmp_path}/none")


@pytest.mark.parametrize(
    ("arrivals", "service", "options", "name"),
    [
        ("poisson", "constant:1", {}, "poisson:RATE"),
        ("poisson:0", "constant:1", {}, "poisson"),
        ("poisson:1:2", "constant:1", {}, "poisson:RATE"),
        ("hyperexponential:1:0.5", "constant:1", {}, "CV2"),
        ("poisson:1", "pareto:1:1", {}, "ALPHA"),
        ("poisson:1", "normal:1", {}, "normal"),
        ("poisson:1", "constant:1", {"requests": 0}, "requests"),
        ("poisson:1", "constant:1", {"warmup": 1.0}, "warmup"),
        ("poisson:1", "constant:1", {"seed": -1}, "seed"),
        ("poisson:1", "constant:1", {"system": System((1,), balancer="pinned")}, "pinned"),
    ],
)
def test_rejects_invalid_arguments(
    arrivals: str, service: str, options: dict, name: str, snapshot: SnapshotAssertion
) -> None:
    with pytest.raises(ValueError, match=name) as refusal:
        simulate(arrivals, service, **options)
    assert str(refusal.value) == snapshot


def test_intervals_of_correlated_batches_are_doubtful() -> None:
    rng = np.random.default_rng(1)
    assert not interval(rng.exponential(1, 30_000)).doubtful
    assert interval(np.cumsum(rng.normal(0, 1, 30_000))).doubtful
    assert interval(np.ones(100)) is None


def run(*arguments: str) -> object:
    return CliRunner().invoke(app, ["simulate", *arguments], env={"COLUMNS": "100"})


def test_command_prints_json_and_text(snapshot: SnapshotAssertion) -> None:
    arguments = ("--arrivals", "poisson:8", "--service", "exponential:0.1", "--requests", "50000", "--seed", "2")
    document = json.loads(run(*arguments, "--json").stdout)
    assert {"requests", "utilisation", "wait", "sojourn", "theory", "goodput", "timeouts", "mean_wait"} <= set(document)
    assert document["requests"] == 50_000
    assert set(document["wait"]) == {"mean", "p50", "p90", "p99", "p999", "max"}
    assert document["theory"]["model"] == "M/M/1"
    assert document["theory"]["mean_wait"] == 0.4
    assert document["mean_wait"]["lower"] < document["wait"]["mean"] < document["mean_wait"]["upper"]
    text = run(*arguments)
    assert text.exit_code == 0
    assert text.stdout == snapshot


def test_docs_list_every_discipline_balancer_outcome_and_key() -> None:
    mechanism = (REPOSITORY / "docs/explanation/queueing.md").read_text()
    assert {*DISCIPLINES, *BALANCERS, *STATUSES} <= set(re.findall(r"^\| `(\w+)` \|", mechanism, re.M))
    reference = (REPOSITORY / "docs/reference/simulate.md").read_text()
    document = simulate("poisson:8", "exponential:0.1", System((1,), capacity=3), requests=2_000).to_dict()
    keys = {*document, *document["mean_wait"], *document["theory"]} - {"error"}
    assert keys <= set(re.findall(r"`([a-z_]+)`", reference))
    for kind in (*ARRIVALS, *SERVICES):
        assert f"| `{kind}:" in reference


def test_command_prints_overload_first(snapshot: SnapshotAssertion) -> None:
    text = run("--arrivals", "poisson:12", "--service", "exponential:0.1", "--requests", "20000").stdout
    assert text.startswith("AUDIT")
    assert "120 %" in text.splitlines()[0]
    assert text == snapshot


def test_command_rejects_invalid_options() -> None:
    for wrong in (["--discipline", "random"], ["--balancer", "pinned"], ["--timeout", "0"], ["--warmup", "2"]):
        failed = run("--arrivals", "poisson:1", "--service", "constant:0.1", "--requests", "100", *wrong)
        assert failed.exit_code == 2, wrong
        assert "Traceback" not in failed.output
    assert run("--arrivals", "trace:/none", "--service", "constant:0.1").exception.__class__ is SojournError


def test_describes_runs_where_all_requests_fail(snapshot: SnapshotAssertion) -> None:
    failed = simulate("poisson:12", "constant:10", System((1,), timeout=0.1, retries=1), requests=500)
    section = simulate_section(failed)
    assert "0 % answered" in section.sentence
    assert [section.sentence, *section.notes] == snapshot(name="timed out")
    blocked = simulate("constant:1000", "constant:100", System((1,), capacity=0), requests=100, warmup=0.5)
    assert simulate_section(blocked).sentence == snapshot(name="rejected")
    assert blocked.to_dict()["wait"]["mean"] is None


def test_chart_has_a_bounded_number_of_points() -> None:
    result = simulate("poisson:8", "exponential:0.1", requests=100_000, seed=2)
    points = wait_points(result)
    assert len(points) <= 2 * POINTS
    simulated = [(p["seconds"], p["exceeding"]) for p in points if p["source"] == "simulated"]
    waits = result.waits()
    for seconds, exceeding in simulated[:: len(simulated) // 7]:
        assert (waits > seconds * (1 + 1e-5)).mean() == pytest.approx(exceeding, abs=2e-4)
    assert wait_chart(result).to_dict()["mark"]["type"] == "line"
    (picture,) = simulate_section(result).pictures
    assert picture.chart().to_dict()
