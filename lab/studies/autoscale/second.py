"""The second service beside the app: nginx answers and logs its requests, and a generator of its own offers them."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import msgspec
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.load.plan import Plan, Summary
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.load import PoissonLoad

PATH, SUMMARY = "/lab-second", "second.json"
LOCATION = f"""
        location {PATH}/ {{
            return 200 "small\\n";
        }}
"""
"""The second service, for the server block: nginx answers and logs its requests."""


def started_second(stage: Stage, stack: contextlib.ExitStack, plan: Plan, url: str, rate: float) -> Process:
    """Start the generator of the second service's load, and return it; it ends with the case at the latest."""
    second = msgspec.structs.replace(
        plan,
        case=f"{stage.name}.second",
        url=url + PATH,
        seed=[*plan.seed, 1],
        load=PoissonLoad(rate),
        service_time=0.0,
        distribution="constant",
        client_log=str(stage.logs / "second.jsonl"),
        summary=str(stage.logs / SUMMARY),
    )
    path = stage.logs / "second-plan.json"
    path.write_bytes(msgspec.json.encode(second))
    command = [sys.executable, "-m", "sojourn_lab.load.generator", str(path)]
    with stage.interrupts.shielded():
        generator = Process(command, name="second-generator", folder=stage.logs)
        generator.start()
        generator.mark_as_load()
        stack.callback(generator.stop)
    return generator


def await_end(generator: Process, seconds: float) -> None:
    """Wait until a generator has ended well; LabError if it has not."""
    generator.wait_until(lambda: generator.exit_code() == 0, seconds, "the load of the second service to end")


def second_figures(stage: Stage) -> dict[str, Any]:
    """Return what was offered to the second service, and what failed of it; empty where there is none."""
    path = stage.logs / SUMMARY
    if not path.exists():
        return {}
    summary = msgspec.json.decode(path.read_bytes(), type=Summary)
    return {"second": {"offered": summary.offered, "failed": summary.failed}}
