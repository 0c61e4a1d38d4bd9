"""Signals to scale on are given where the recent requests, replayed, wait as they did; otherwise refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
from export_support import exported, samples_of
from sojourn.analyses.whatif.workload import workload_of
from sojourn.export.live.signal import LIVE_REASONS
from sojourn.export.metrics import BY_NAME
from sojourn.export.refusal import REASONS, live_refusal, signal_refusal
from sojourn.timeline.contention.load_dependence import LoadDependence
from wide_tables import one_of
from worker_log import WorkerSystem, of_route, worker_log

SIGNALS = {
    "sojourn_offered_load_workers",
    "sojourn_workers_needed",
    "sojourn_saturation",
    "sojourn_seconds_to_drain",
}
SIGNUP = (("/page", 0.75), ("/signup", 0.25))
EXPORT = (("/page", 0.97), ("/export", 0.03))


def _exported(path: Path, system: WorkerSystem) -> tuple[set[str], list[str]]:
    """Return the names of the signals, and the reasons for which they are refused."""
    worker_log(path, system)
    return _signals(path)


def _signals(path: Path) -> tuple[set[str], list[str]]:
    with exported([path]) as exporter:
        samples = samples_of(exporter)
    refusals = {sample.labels[1]: sample.value for sample in samples if sample.name == "sojourn_signal_refused"}
    assert set(refusals) == set(REASONS)
    refused = [reason for reason, value in refusals.items() if value == 1.0]
    return {sample.name for sample in samples} & SIGNALS, refused


@pytest.mark.parametrize(("load", "burst", "seed"), one_of(3, [0.5, 0.8, 0.95, 1.1], [1, 6], [1, 2, 3]))
def test_plain_pool_keeps_its_signals(tmp_path: Path, load: float, burst: int, seed: int) -> None:
    system = WorkerSystem(requests=6_000, load=load, burst=burst, seed=seed)
    assert _exported(tmp_path / "a.jsonl", system) == (SIGNALS, [])


@pytest.mark.parametrize(
    "system",
    [
        WorkerSystem(load=0.45, routes=SIGNUP, after=of_route("/signup", 0.2)),
        WorkerSystem(workers=2, load=0.28, routes=EXPORT, body=of_route("/export", 2.0)),
    ],
    ids=["work after the answer", "bodies"],
)
def test_workers_held_beyond_the_headers_keep_the_signals(tmp_path: Path, system: WorkerSystem) -> None:
    assert _exported(tmp_path / "a.jsonl", system) == (SIGNALS, [])


@pytest.mark.parametrize("seed", [1, 2])
def test_work_between_two_requests_keeps_the_signals(tmp_path: Path, seed: int) -> None:
    system = WorkerSystem(requests=20_000, workers=32, load=0.88, between=(0.0005, 0.0025), seed=seed)
    assert _exported(tmp_path / "a.jsonl", system) == (SIGNALS, [])


@pytest.mark.parametrize(
    ("system", "reason"),
    [
        (WorkerSystem(workers=8, load=0.75, groups=4), "bound_to_processes"),
        (WorkerSystem(workers=8, load=0.42, limit=4), "limit_in_front"),
        (WorkerSystem(load=0.7, restart=(100, 1.0)), "workers_absent"),
        (WorkerSystem(load=0.9, hidden=0.5), "waits_not_reproduced"),
    ],
    ids=["bound", "limit", "absent", "hidden load"],
)
def test_held_workers_refuse_the_signals(tmp_path: Path, system: WorkerSystem, reason: str) -> None:
    log = tmp_path / "a.jsonl"
    if reason != "bound_to_processes":
        assert _exported(log, system) == (set(), [reason])
        return
    # Two threads in each process: which of them would be added is not known.
    worker_log(log, system)
    text = log.read_text()
    for worker in range(8):
        text = text.replace(f'"worker": "{worker}.0"', f'"worker": "{100 + worker // 2}.{worker}"')
    log.write_text(text)
    assert _signals(log) == (set(), [reason])


def test_processes_of_one_worker_keep_the_signals(tmp_path: Path) -> None:
    assert _exported(tmp_path / "a.jsonl", WorkerSystem(load=0.8, groups=4)) == (SIGNALS, [])


def _judged(path: Path) -> tuple[str | None, str | None]:
    """Return why the signals are refused, and why the live one is, of a whole log."""
    rows = sojourn.split(path).rows
    table = rows.collect()
    workload = workload_of(table.lazy())
    contention = LoadDependence.of(workload.visits).contention
    refused = signal_refusal(workload, 0.0, contention)
    return refused, live_refusal(workload, 0.0, contention, refused)


@pytest.mark.parametrize(
    ("system", "refused", "live"),
    [
        (WorkerSystem(load=0.9), None, None),
        (WorkerSystem(load=0.9, after=of_route("/", 0.02)), None, None),
        (WorkerSystem(load=0.7, restart=(100, 1.0)), "workers_absent", None),
        (WorkerSystem(load=0.9, hidden=0.5), "waits_not_reproduced", "waits_not_reproduced"),
        (WorkerSystem(workers=8, load=0.42, limit=4), "limit_in_front", "limit_in_front"),
    ],
    ids=["plain", "after", "workers that come and go", "hidden load", "limit"],
)
def test_live_signal_allows_for_workers_that_come_and_go(
    tmp_path: Path, system: WorkerSystem, refused: str | None, live: str | None
) -> None:
    worker_log(tmp_path / "a.jsonl", system)
    assert _judged(tmp_path / "a.jsonl") == (refused, live)


@pytest.mark.parametrize("reason", REASONS)
def test_help_names_every_reason(reason: str) -> None:
    assert reason in BY_NAME["sojourn_signal_refused"].help


def test_help_names_every_reason_of_the_live_signal() -> None:
    help_of_both = BY_NAME["sojourn_live_refused"].help + BY_NAME["sojourn_signal_refused"].help
    guide = Path("docs/how-to/what-to-scale-on.md").read_text()
    assert [reason for reason in LIVE_REASONS if reason not in help_of_both] == []
    assert [reason for reason in LIVE_REASONS if reason not in REASONS and f"| `{reason}` |" not in guide] == []
