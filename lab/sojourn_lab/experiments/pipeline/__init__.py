"""The throughput of the toolkit's own pipeline, shipping and store, one part at a time.

Each case works in a temporary folder within the run's, which is removed afterwards.
"""

from __future__ import annotations

import shutil

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.pipeline.inserts import measured_store
from sojourn_lab.experiments.pipeline.vector import measured_vector
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.results.run_context import Outcome


def run_case(stage: Stage) -> Outcome:
    """Measure one case; LabError if that is not possible."""
    settings = stage.case.pipeline
    if settings is None:
        raise LabError(f"case {stage.case.name} has no pipeline settings")
    work = stage.logs / "work"
    work.mkdir()
    try:
        return (
            measured_vector(stage, settings, work)
            if settings.part == "vector"
            else measured_store(stage, settings, work)
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)
