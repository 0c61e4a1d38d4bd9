"""Whether a replay of the recorded configuration fits the measurements, and why it does not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sojourn.analyses.whatif.closed_loop import closed_loop_of
from sojourn.analyses.whatif.intervals import QUANTILES
from sojourn.analyses.whatif.mismatch_reasons import mismatch_reason
from sojourn.analyses.whatif.replays import replay_workload
from sojourn.analyses.whatif.result import figures_of
from sojourn.analyses.whatif.variants import Change
from sojourn.analyses.whatif.workload import Workload
from sojourn.model.formatting import formatted, printable
from sojourn.timeline.apparent_loop import FOLLOW, SWING, ApparentLoop
from sojourn.timeline.contention.independence import Dependence
from sojourn.timeline.contention.resources import Contention

TOLERANCE = 0.15  # largest relative error of the replay's mean and p99
NEARER = 0.5  # of the error: a closed-loop replay below this share of it is the more likely one


def errors_of(measured: Mapping[str, float | None], replayed: Mapping[str, float | None]) -> dict[str, float]:
    """Return figure of the response time -> replayed / measured - 1."""
    return {name: relative(replayed[name], measured[name]) for name in ("mean", *QUANTILES, "p999")}


def fits(error: Mapping[str, float]) -> bool:
    """Return whether the errors of a replay are small enough for predictions."""
    return _worst(error) <= TOLERANCE


def refusal(
    workload: Workload, error: Mapping[str, float], apparent: ApparentLoop | None, seed: int, moved: Sequence[str]
) -> str:
    """Return why there is no prediction; ``moved``: sentences on backends whose number of workers changed."""
    if moved:
        return _differs(error, moved[0][:1].lower() + moved[0][1:].rstrip("."))
    # Near saturation, the short pauses of a worker between two requests add up if arrivals do not wait for answers.
    closed = None if apparent is None else _errors_closed(workload, apparent, seed)
    if closed is not None and fits(closed):
        reason = "clients seem to send the next request after an answer, and a replay of that fits: give --closed-loop"
    elif closed is not None and _worst(closed) < NEARER * _worst(error):
        reason = (
            "clients seem to send the next request after an answer: a replay with --closed-loop is closer, but differs "
            f"from the measured {_missed(closed)}, because workers were held by something else for part of the time"
        )
    else:
        reason = mismatch_reason(workload, error["mean"])
    return _differs(error, reason)


def shared_resource(dependent: Sequence[Dependence], contention: Contention | None) -> str:
    """Return why there is no prediction where services depend on the load and no law explains it, as a clause."""
    first = dependent[0]
    others = f" (and at {len(dependent) - 1} more)" if len(dependent) > 1 else ""
    return (
        f"at {printable(first.upstream or '–', 60)}{others}, {first.clause}; a replay keeps the measured services, and "
        "would be wrong for any other number in service"
        f"{'' if contention is None or contention.refused is None else f' ({contention.refused})'}"
    )


def _differs(error: Mapping[str, float], reason: str) -> str:
    return f"the replay of the recorded configuration differs from the measured {_missed(error)}: {reason}"


def relative(new: float | None, old: float | None) -> float:
    """Return new / old - 1; NaN if one is unknown."""
    return new / old - 1 if new is not None and old else math.nan


def _worst(error: Mapping[str, float]) -> float:
    return max(abs(error["mean"]), abs(error["p99"]))


def _missed(error: Mapping[str, float]) -> str:
    return " and ".join(
        f"{name} by {formatted(error[name], '+.0%')}" for name in ("mean", "p99") if abs(error[name]) > TOLERANCE
    )


def _errors_closed(workload: Workload, apparent: ApparentLoop, seed: int) -> dict[str, float] | None:
    """Return the errors of a closed-loop replay; None without a sign that requests follow answers."""
    # One sign is enough where the replay fits: short services hide that a request follows an answer, a pause in the log
    # hides that the number of requests in system is constant.
    follow = apparent.follow is not None and apparent.follow < FOLLOW
    constant = apparent.swing is not None and apparent.swing < SWING
    if not (apparent.closed or follow or constant):
        return None
    replay = replay_workload(workload, Change(), loop=closed_loop_of(workload), seed=seed)
    included = workload.counted
    return errors_of(figures_of(workload.response[included]), figures_of(replay.response[included]))
