"""One case of the pipeline: the part it names, in a temporary folder within the run's, which is removed afterwards."""

from __future__ import annotations

import shutil

from sojourn_lab.errors import LabError
from sojourn_lab.kinds.pipeline.inserts import measured_store
from sojourn_lab.kinds.pipeline.vector import measured_vector
from sojourn_lab.kinds.stage import Outcome, Stage


def run_case(stage: Stage) -> Outcome:
    """Measure one case; LabError when it could not be made."""
    settings = stage.case.pipeline
    if settings is None:
        raise LabError(f"case {stage.case.name} says nothing of the pipeline")
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
