"""Requests → counts by column, value and block of time, of the selected requests and of the rest.

Requests that are near in time are alike: they come in sessions, bursts and incidents. Blocks of successive requests are
therefore the units of the statistics (``sojourn.analyses.contrast.ranking``), not the requests. A block is a stretch of
the arrivals with one part in ``BLOCKS`` of both the selected requests and the rest, so that no block dominates either
side. Where the values of a column come in runs, its blocks are as long as the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.analyses.contrast.columns import Coded
from sojourn.model.arrays import Bools, Floats, Ints

BLOCKS = 48
LEAST_BLOCKS = 8
ALIKE = 0.1  # correlation at a lag, below which values are not in one run
NOISE = 2.0  # standard errors of a correlation
LAGS = sorted({2**power for power in range(40)} | {3 * 2**power for power in range(40)})

COUNTS: dict[str, pl.DataType] = {
    "column": pl.String(),
    "value": pl.String(),  # null: no value
    "block": pl.Int64(),  # in the order of time
    "selected": pl.Float64(),  # requests, or the seconds that are charged to them
    "rest": pl.Float64(),  # requests to compare with
    "requests": pl.Int64(),  # number of those that ``selected`` sums
    "squares": pl.Float64(),  # sum of the squares of what ``selected`` sums
}
"""The columns of the counts; one row per column, value and block with any request."""


class Runs(NamedTuple):
    """How long the values of a column come in runs, in requests.

    Attributes:
        selected: among the selected requests alone.
        all: among all requests from the first selected one to the last.
    """

    selected: int
    all: int


class Arrivals:
    """Requests in the order of their arrivals, selected ones and the rest, divided into blocks.

    Attributes:
        selected: weight of each request among the selected: 1, or the seconds that are charged to it; 0: not selected.
        rest: weight of each request among those to compare with.
    """

    def __init__(self, selected: Floats, rest: Floats) -> None:
        self.selected, self.rest = selected, rest
        self.chosen: Bools = selected > 0
        places = np.flatnonzero(self.chosen)
        self._span = slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)
        mass = np.cumsum(selected) / max(float(selected.sum()), 1e-300)
        mass += np.cumsum(rest) / max(float(rest.sum()), 1e-300)
        # The middle of each request: one with much weight lies where most of it does.
        mass -= (selected / max(float(selected.sum()), 1e-300) + rest / max(float(rest.sum()), 1e-300)) / 2
        self._mass = mass / 2
        self._blocks: dict[int, Ints] = {}

    @classmethod
    def of(cls, chosen: Bools) -> Arrivals:
        """Return arrivals of which each counts once, in one of both parts; ``chosen``: which are selected."""
        return cls(chosen.astype(np.float64), (~chosen).astype(np.float64))

    def blocks(self, count: int) -> Ints:
        """Return the block of each request, of ``count`` blocks of equal mass; some may be empty."""
        if count not in self._blocks:
            self._blocks[count] = np.clip((self._mass * count).astype(np.int64), 0, count - 1)
        return self._blocks[count]

    def runs(self, codes: npt.NDArray[np.integer[Any]]) -> Runs:
        """Return how long the values of a column, as codes, come in runs."""
        return Runs(run_length(codes[self.chosen]), run_length(codes[self._span]))

    def blocks_for(self, runs: Runs) -> int:
        """Return the largest number of blocks that are as long as the runs; ``LEAST_BLOCKS`` - 1 if there is none."""
        count = BLOCKS
        while count >= LEAST_BLOCKS and not self._hold(count, runs):
            count = count * 4 // 5
        return max(count, LEAST_BLOCKS - 1)

    def _hold(self, count: int, runs: Runs) -> bool:
        if runs.selected <= 1 and runs.all <= 1:
            return True
        block = self.blocks(count)
        selected, every = np.bincount(block[self.chosen], minlength=count), np.bincount(block, minlength=count)
        number = max(int(selected.sum()), 1)
        return (
            selected.sum() / max(np.count_nonzero(selected), 1) >= runs.selected
            and float(selected @ every) / number >= runs.all
        )


def run_length(codes: npt.NDArray[np.integer[Any]]) -> int:
    """Return the lag, in requests, from which on values are alike by chance only; 1: they always are.

    The correlation at a lag k is (a_k - a) / (1 - a), where a_k is the share of pairs at that lag with the same value:
    Cohen's kappa (1960) of a series with itself. Chance, a, is the sum of the squared shares of the values, or what is
    alike at a lag of one part in ``LEAST_BLOCKS`` of the series: slower changes differ between blocks, and count there.
    """
    count = len(codes)
    far = count // LEAST_BLOCKS
    if far < 2:
        return 1
    shares = np.bincount(codes) / count
    chance = max(float(shares @ shares), _alike(codes, far))
    if chance > 1 - 1e-12:
        return 1
    least = max(ALIKE, NOISE / count**0.5)
    return next((lag for lag in LAGS if lag >= far or (_alike(codes, lag) - chance) / (1 - chance) < least), far)


def _alike(codes: npt.NDArray[np.integer[Any]], lag: int) -> float:
    """Return the share of pairs at a lag with the same value."""
    return float(np.mean(codes[lag:] == codes[:-lag]))


def counts_of(columns: Mapping[str, Coded], arrivals: Arrivals) -> tuple[pl.DataFrame, dict[str, int]]:
    """Count requests by column, value and block.

    Args:
        columns: name -> codes, in the order of the arrivals; those with a single value are left out.
        arrivals: the same requests.

    Returns:
        The counts, with the columns of ``COUNTS``; and column -> length of its runs (requests), for the columns whose
        runs are too long for ``LEAST_BLOCKS`` blocks: they are not counted.
    """
    tables, too_long = [], {}
    for name, column in columns.items():
        if len(column.names) < 2:
            continue
        runs = arrivals.runs(column.codes)
        count = arrivals.blocks_for(runs)
        if count < LEAST_BLOCKS:
            too_long[name] = max(runs)
            continue
        tables.append(_counted(name, column, arrivals, count))
    return pl.concat(tables) if tables else pl.DataFrame(schema=COUNTS), too_long


def _counted(name: str, column: Coded, arrivals: Arrivals, blocks: int) -> pl.DataFrame:
    cell = column.codes.astype(np.int64) * blocks + arrivals.blocks(blocks)
    size = len(column.names) * blocks
    chosen, weight = cell[arrivals.chosen], arrivals.selected[arrivals.chosen]
    rest = np.bincount(cell, arrivals.rest, size)
    requests = np.bincount(chosen, minlength=size)
    some = np.flatnonzero((rest > 0) | (requests > 0))
    value = pl.Series(column.names, dtype=pl.String).gather(some // blocks)
    return pl.DataFrame(
        {
            "column": pl.repeat(name, len(some), eager=True, dtype=pl.String),
            "value": value,
            "block": some % blocks,
            "selected": np.bincount(chosen, weight, size)[some],
            "rest": rest[some],
            "requests": requests[some],
            "squares": np.bincount(chosen, weight**2, size)[some],
        },
        schema=COUNTS,
    )
