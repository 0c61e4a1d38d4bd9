"""Confidence intervals of predicted figures, by resampling the requests of the log.

The same blocks of time are drawn for the recorded configuration and for a variant, so that their common variation
cancels in the difference (Künsch 1989: neighbouring requests met the same queue and are drawn together).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.model.arrays import Bools, Floats
from sojourn.model.compilation import compiled
from sojourn.timeline.time_blocks import LEVEL, WINDOWS, Blocks, bin_edges, quantiles_of, resampled_windows

CELLS = 4096
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


class Resamples:
    """Resamples of the same blocks of time for several outcomes of the same requests.

    Args:
        arrival: s, n, as measured; the blocks divide this time.
        counted: which of the requests count.
        seed: of the draws.
    """

    def __init__(self, arrival: Floats, counted: Bools, seed: int) -> None:
        span = max(float(arrival[-1] - arrival[0]), 1e-9) if len(arrival) else 1.0
        since = (arrival - arrival[0]) / span if len(arrival) else arrival
        self._window = np.minimum((since * WINDOWS).astype(np.int64), WINDOWS - 1)[counted]
        self._weights = resampled_windows(seed)

    def figures(self, values: Floats, ordered: Floats) -> dict[str, Floats]:
        """Return ``mean``, ``p50``, ``p90``, ``p99`` per resample, s; NaN in an empty one.

        ``values``: of the requests that count, s; ``ordered``: the same in ascending order.
        """
        if not len(values):
            return {name: np.full(len(self._weights), np.nan) for name in ("mean", *QUANTILES)}
        edges = bin_edges(ordered)
        counts, sums = np.zeros((WINDOWS, len(edges) - 1)), np.zeros(WINDOWS)
        _add_up(values, self._window, edges[1:-1], counts, sums)
        requests = self._weights @ counts.sum(axis=1)
        none = requests <= 0
        means = {"mean": self._weights @ sums / np.where(none, np.nan, requests)}
        binned = Blocks(counts, edges, {}, (), np.empty((WINDOWS, 0)), {})
        levels = np.where(none[:, None], np.nan, quantiles_of(binned, self._weights, tuple(QUANTILES.values())))
        return {**means, **{name: levels[:, i] for i, name in enumerate(QUANTILES)}}


def ordered(values: Floats) -> Floats:
    """Return values in ascending order: Polars sorts unsorted ones in half the time of numpy."""
    return pl.Series(values).sort().to_numpy()


@compiled
def _add_up(values, window, edges, counts, sums):  # type: ignore[no-untyped-def]
    """Add each value to its window in ``sums``, and 1 to its window and bin in ``counts``.

    The bin of a value is the number of ``edges``, which ascend, at or below it. ``CELLS`` cells of one width narrow the
    search: an edge in another cell than the value is on the same side of it as the cell.
    """
    low = edges[0] if len(edges) else 0.0
    span = edges[-1] - low if len(edges) else 0.0
    scale = (CELLS - 1) / span if span > 0 else 0.0
    below = np.zeros(CELLS + 1, np.int64)
    for edge in edges:
        below[int((edge - low) * scale) + 1] += 1
    for cell in range(CELLS):
        below[cell + 1] += below[cell]
    for i in range(len(values)):
        cell = int(min(max((values[i] - low) * scale, 0.0), CELLS - 1.0))
        place, last = below[cell], below[cell + 1]
        while place < last:
            middle = (place + last) // 2
            if edges[middle] <= values[i]:
                place = middle + 1
            else:
                last = middle
        counts[window[i], place] += 1
        sums[window[i]] += values[i]


def interval(values: Floats) -> list[float]:
    """Return the central ``LEVEL`` interval of resampled values, [low, high]."""
    finite = values[~np.isnan(values)]
    if not len(finite):
        return [float("nan")] * 2
    return [float(edge) for edge in np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])]
