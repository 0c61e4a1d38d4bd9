"""Without numba, or for little work, the sweep is interpreted: the same figures, of a bounded number of requests."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from analysis_support import frame
from sojourn.components.split import checked_split
from sojourn.model import compilation
from sojourn.model.compilation import CompiledFunction
from sojourn.model.errors import SojournError
from sojourn.timeline import charge, sweep
from sojourn.timeline.charge import accounts, refuse_too_many
from sojourn.timeline.services import services_of
from sojourn.timeline.visits import visits
from worker_log import EXPORTS, worker_log


def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the sweep run as it does where numba is not installed."""
    for name in ("_instant", "_add", "_sweep"):
        monkeypatch.setattr(sweep, name, CompiledFunction(getattr(sweep, name).__wrapped__, interpreted=True))
    for module in (compilation, charge):
        monkeypatch.setattr(module, "is_compilation_installed", lambda: False)


LOADED = """
import atexit, sys
from sojourn.cli import main
atexit.register(lambda: print("numba" in sys.modules, file=sys.stderr))
main()
"""


def charged(seed: int) -> sweep.Swept:
    rng = np.random.default_rng(seed)
    count, backends, classes = 300, 3, 4
    begin = np.sort(rng.uniform(0, 30, count))
    end = begin + rng.exponential(0.3, count)
    end[::50] = begin[::50] - 0.1
    busy_end = np.where(rng.random(count) < 0.05, np.nan, end + rng.exponential(0.2, count))
    waits, services = np.flatnonzero(end >= begin), np.flatnonzero(~np.isnan(busy_end))
    events = (
        waits[np.argsort(begin[waits])], waits[np.argsort(end[waits])],
        services[np.argsort(end[services])], services[np.argsort(busy_end[services])],
    )  # fmt: skip
    backend = rng.integers(0, backends, count)
    return sweep.accounts_of(
        begin, end, end, busy_end, backend, backend, events,
        workers=np.array([2, 1, 3]), pool=np.array([0, 0, 1]), victim=rng.integers(0, classes, count),
        culprit=rng.integers(0, classes, count), window=rng.integers(-1, 2, count), victims=classes, culprits=classes,
        windows=2, others=1,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_the_interpreter_charges_what_compiled_code_charges(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_LITTLE", 0)
    compiled = charged(seed)
    assert compiled[2].sum() > 0.1
    interpreted(monkeypatch)
    for ours, theirs in zip(charged(seed), compiled, strict=True):
        assert np.asarray(ours).tolist() == np.asarray(theirs).tolist()


def test_more_requests_than_the_interpreter_sweeps_in_seconds_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"request_start": t, "start": t, "app_queueing_delay": 0.1, "app_service_time": 0.2, "header": 0.3,
         "response": 0.3, "request_time": 0.3, "request_id": str(t)}
        for t in (0.0, 0.1, 0.2)
    ]  # fmt: skip
    requests = visits(checked_split(frame(*rows), None).lazy())
    interpreted(monkeypatch)
    refuse_too_many(requests)
    monkeypatch.setattr(charge, "INTERPRETED", 2)
    with pytest.raises(SojournError, match=r"the blame of 3 requests needs .*'\.\[compiled\]'"):
        refuse_too_many(requests)
    # A monitor charges the waits of one minute, however many they are.
    assert accounts(requests, services_of(requests)).dispatch.shape == (3,)


@pytest.mark.parametrize(("requests", "loaded"), [(2_000, "False"), (60_000, "True")])
def test_queue_of_few_requests_is_charged_to_a_route_without_numba(tmp_path: Path, requests: int, loaded: str) -> None:
    worker_log(tmp_path / "a.jsonl", replace(EXPORTS, requests=requests))
    command = [sys.executable, "-c", LOADED, "split", str(tmp_path / "a.jsonl"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["verdict"]["culprit"]["route"] == "/export"
    assert done.stderr.strip().splitlines()[-1] == loaded
