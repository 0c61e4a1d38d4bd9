"""Counters of a trace: requests that wait, hold a worker, and are in system, at each instant at which one changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.timeline.concurrency import IN_SERVICE, WAITING
from sojourn.timeline.steps import Steps
from sojourn.timeline.visits import Visits

COUNTERS = ("waiting", "in service", "in system")


@dataclass(frozen=True)
class Counts:
    """Values of the counters from each instant on, by time.

    Attributes:
        at: µs after the base of the visits, ascending.
        backend: index into the drawn backends.
        level: one row for each of ``COUNTERS``.
    """

    at: Ints
    backend: Ints
    level: Ints


def counts_of(
    visits: Visits, intervals: dict[str, tuple[Floats, Floats]], backends: Sequence[int], chosen: Bools
) -> Counts:
    """Return the counts of the backends.

    Args:
        visits: the requests.
        intervals: as of ``sojourn.timeline.concurrency.intervals_of``.
        backends: indices into the backends of the visits.
        chosen: the requests that count as waiting; all count as holding workers.
    """
    whole = {name: tuple(np.where(np.isnan(each), np.nan, np.rint(each * 1e6)) for each in intervals[name])
             for name in intervals}  # fmt: skip
    instants: list[Ints] = []
    levels: list[Ints] = []
    for code in backends:
        members = visits.at_backend[code]
        waiting = members[chosen[members]]
        steps = {
            name: Steps.of(*(each[members if name == IN_SERVICE else waiting] for each in both))
            for name, both in whole.items()
        }
        changes = np.unique(np.concatenate([each.at for each in steps.values()]))
        level = {name: _levels(each, changes) for name, each in steps.items()}
        instants.append(changes.astype(np.int64))
        levels.append(np.stack([level[WAITING], level[IN_SERVICE], sum(level.values())]))
    if not instants:
        return Counts(np.array([], np.int64), np.array([], np.int64), np.zeros((len(COUNTERS), 0), np.int64))
    at = np.concatenate(instants)
    order = np.argsort(at, kind="stable")
    backend = np.repeat(np.arange(len(instants)), [len(each) for each in instants])
    return Counts(at[order], backend[order], np.concatenate(levels, axis=1)[:, order])


def _levels(steps: Steps, at: Floats) -> Ints:
    """Return the number of intervals that hold from each instant on."""
    return np.append(0, steps.level)[np.searchsorted(steps.at, at, "right")]
