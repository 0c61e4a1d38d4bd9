"""Figures of backends, over the whole time and by window: the largest ones singly, the others together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.frame import INSTANT
from sojourn.timeline.classes import OTHER
from sojourn.timeline.steps import Steps, Together
from sojourn.timeline.visits import Visits
from sojourn.timeline.windows import Windows

OVER_TIME_SCHEMA = {
    "begin": INSTANT,
    "upstream": pl.String(),
    "waiting": pl.Float64(),
    "gone": pl.Float64(),
    "in_service": pl.Float64(),
    "in_system": pl.Float64(),
    "utilisation": pl.Float64(),
    "most_waiting": pl.Int64(),
    "arrivals": pl.Int64(),
}


@dataclass(frozen=True)
class Group:
    """A backend, or several together.

    Attributes:
        name: its address.
        rows: the indices of its requests, ascending.
        workers: their number.
        code: its index; None: several backends.
    """

    name: str | None
    rows: Ints
    workers: int
    code: int | None = None


def groups_of(visits: Visits) -> list[Group]:
    """Return the ``LARGEST`` backends with the most requests, in their order, and all others together."""
    codes, count = visits.largest, visits.workers.count
    groups = [Group(visits.backends[code], visits.at_backend[code], int(count[code]), int(code)) for code in codes]
    if len(codes) < len(count):
        is_other = np.ones(len(count), np.bool_)
        is_other[codes] = False
        groups.append(Group(OTHER, np.flatnonzero(is_other[visits.backend]), int(count[is_other].sum())))
    return groups


def figures_of(steps: Mapping[str, Steps | Together], first: float, last: float, workers: int) -> dict[str, Any]:
    """Return the time averages of counts from ``first`` to ``last`` (s), and the maximum that waits."""
    seconds = last - first
    spent = {key: step.between(np.array([first, last])) for key, step in steps.items()} if seconds > 0 else {}
    figures: dict[str, Any] = {key: float(spent[key][0][0]) / seconds if spent else 0.0 for key in steps}
    figures["in_system"] = sum(figures.values())
    figures["utilisation"] = figures["in_service"] / workers if workers else 0.0
    figures["most_waiting"] = int(spent["waiting"][1][0]) if spent else 0
    return figures


def over_time(
    windows: Windows, steps: Mapping[str, Steps | Together], arrivals: Floats, workers: int,
    bounds: tuple[float, float],
) -> dict[str, npt.NDArray[Any]]:  # fmt: skip
    """Return the columns of ``OVER_TIME_SCHEMA`` that are numbers, one value per window."""
    edges = windows.edges
    # The log may cover the first and the last window in part.
    length = np.maximum(np.minimum(edges[1:], bounds[1]) - np.maximum(edges[:-1], bounds[0]), 1e-9)
    spent = {key: step.between(edges) for key, step in steps.items()}
    mean = {key: seconds / length for key, (seconds, _) in spent.items()}
    return {
        **mean,
        "in_system": np.sum(list(mean.values()), axis=0),
        "utilisation": mean["in_service"] / max(workers, 1),
        "most_waiting": spent["waiting"][1],
        "arrivals": np.bincount(windows.of(arrivals), minlength=windows.count),
    }


def table_of(
    windows: Windows, names: Sequence[str | None], tables: Sequence[Mapping[str, npt.NDArray[Any]]]
) -> pl.DataFrame:
    """Return the tables of ``over_time`` as one, with names and instants; ``tables``: one per name, or none."""
    if not tables:
        return pl.DataFrame(schema=OVER_TIME_SCHEMA)
    begins = pl.Series(windows.begins, dtype=INSTANT)
    return pl.DataFrame(
        {
            "begin": begins.gather(np.tile(np.arange(windows.count), len(names))),
            "upstream": pl.Series(names, dtype=pl.String).gather(np.repeat(np.arange(len(names)), windows.count)),
            **{name: np.concatenate([table[name] for table in tables]) for name in tables[0]},
        },
        schema=OVER_TIME_SCHEMA,
    )


def peak_utilisation(over_time: Mapping[str, npt.NDArray[Any]]) -> float | None:
    """Return the utilisation in the window with the deepest queue; of several, the busiest; None without a queue."""
    most = over_time["most_waiting"].max()
    return float(over_time["utilisation"][over_time["most_waiting"] == most].max()) if most else None


def deepest_queue(
    visits: Visits, groups: Sequence[Group], queues: Sequence[Steps], backends: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return ``DepthResult.peak``; ``queues`` and ``backends``: waiting requests and figures of each group."""
    deepest: dict[str, Any] | None = None
    for steps, group, figures in zip(queues, groups, backends, strict=True):
        name = group.name
        if group.code is not None and len(steps.level) and (deepest is None or steps.level.max() > deepest["waiting"]):
            k = int(steps.level.argmax())
            at = visits.base + timedelta(seconds=float(steps.at[k]))
            deepest = {"upstream": name, "waiting": int(steps.level[k]), "at": at, "busy": figures["peak_utilisation"]}
    return deepest
