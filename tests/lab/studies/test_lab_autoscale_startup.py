"""The start of a new worker, by the first request that it served."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.autoscale.startup import startup_figures, startup_times
from watch_support import EPOCH, record


def test_start_ends_with_the_first_request_that_had_waited(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    lines = [
        record(EPOCH + 10.0, 0.9, 0.1, worker="7"),  # begun at 9.9 s
        record(EPOCH + 12.0, 0.9, 0.1, worker="7"),
        record(EPOCH + 20.0, 0.0, 0.1, worker="8"),  # the worker may have been ready long before
        record(EPOCH + 30.0, 2.0, 0.5, worker="9").replace(b'"shop"', b'"other"'),
        record(EPOCH + 40.0, 2.0, 0.5, worker="5"),  # of the beginning
    ]
    log.write_bytes(b"".join(lines))
    times = startup_times(log, "shop", {7: EPOCH + 9.0, 8: EPOCH + 15.0, 9: EPOCH + 28.0})
    assert times == pytest.approx([0.9], abs=0.003)
    assert startup_figures(times) == {"workers": 1, "median": times[0], "most": times[0]}
    assert startup_figures([]) == {"workers": 0, "median": None, "most": None}
