"""Measure rows per second into the embedded engine, in a process of its own: a process can hold one engine."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
from sojourn.model.extras import install_command

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.pipeline.plan import Inserted, Inserts
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.results.run_context import Outcome
from sojourn_lab.scenario.experiment_settings import Pipeline

MARGIN = 120.0
"""Seconds the worker may take beyond warm-up and duration: engine, schema, its last insert, counting."""


def measured_store(stage: Stage, settings: Pipeline, work: Path) -> Outcome:
    """Measure the inserts; LabError with the missing extra if the engine is not installed."""
    missing = [name for name in ("chdb", "clickhouse_connect") if find_spec(name) is None]
    if missing:
        raise LabError(f"the embedded engine needs {' and '.join(missing)}: {install_command('store')}")
    scenario = stage.scenario
    plan = Inserts(
        folder=str(work / "store"),
        seed=stage.seed,
        table=settings.table,
        batch=settings.batch,
        spread=settings.spread,
        threads=settings.threads,
        warmup=scenario.warmup,
        duration=scenario.duration_of(stage.case),
        result=str(stage.logs / "inserted.json"),
    )
    path = stage.logs / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    command = [sys.executable, "-m", "sojourn_lab.experiments.pipeline.store", str(path)]
    stage.run_to_end(command, "store", plan.warmup + plan.duration, MARGIN, "the inserts to end", is_load=False)
    result = msgspec.json.decode(Path(plan.result).read_bytes(), type=Inserted)
    return Outcome(
        result.since, result.until, result.figures, spin_up=result.since - plan.warmup - result.began, tear_down=0.0
    )
