"""Which experiment runs a case of which kind."""

from __future__ import annotations

from collections.abc import Callable

from sojourn_lab.kinds.stage import Outcome, Stage

Experiment = Callable[[Stage], Outcome]


def experiment_of(kind: str) -> Experiment:
    """Return what runs a case of this kind; imported only when it is asked for."""
    # Late: each brings packages that no other scenario needs.
    match kind:
        case "websocket":
            from sojourn_lab.kinds.websocket import run_case  # noqa: PLC0415
        case "grpc":
            from sojourn_lab.kinds.grpc import run_case  # noqa: PLC0415
        case "collector":
            from sojourn_lab.kinds.collector import run_case  # noqa: PLC0415
        case "pipeline":
            from sojourn_lab.kinds.pipeline import run_case  # noqa: PLC0415
        case _:
            raise ValueError(f"no experiment is called {kind}")
    return run_case
