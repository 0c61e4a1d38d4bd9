"""Confidence intervals of predicted figures, by resampling the requests of the log.

The same blocks of time are drawn for the recorded configuration and for a variant, so that their common variation
cancels in the difference (Künsch 1989: neighbouring requests met the same queue and are drawn together).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.timeline.time_blocks import LEVEL, WINDOWS, Blocks, bin_edges, quantiles_of, resampled_windows

Floats = npt.NDArray[np.float64]

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


class Resamples:
    """Resamples of the same blocks of time for several outcomes of the same requests.

    Args:
        arrival: s, n, as measured; the blocks divide this time.
        seed: of the draws.
    """

    def __init__(self, arrival: Floats, seed: int = 0) -> None:
        span = max(float(arrival[-1] - arrival[0]), 1e-9) if len(arrival) else 1.0
        since = (arrival - arrival[0]) / span if len(arrival) else arrival
        self._window = np.minimum((since * WINDOWS).astype(np.int64), WINDOWS - 1)
        self._weights = resampled_windows(seed)

    def figures(self, values: Floats, counted: npt.NDArray[np.bool_]) -> dict[str, Floats]:
        """Return ``mean``, ``p50``, ``p90``, ``p99`` of the counted values per resample, s; NaN in an empty one."""
        kept, window = values[counted], self._window[counted]
        if not len(kept):
            return {name: np.full(len(self._weights), np.nan) for name in ("mean", *QUANTILES)}
        edges = bin_edges(np.sort(kept))
        bins = len(edges) - 1
        place = np.clip(np.searchsorted(edges[1:-1], kept, side="right"), 0, bins - 1)
        counts = np.bincount(window * bins + place, minlength=WINDOWS * bins).reshape(WINDOWS, bins).astype(np.float64)
        sums = np.bincount(window, weights=kept, minlength=WINDOWS)
        requests = self._weights @ counts.sum(axis=1)
        none = requests <= 0
        means = {"mean": self._weights @ sums / np.where(none, np.nan, requests)}
        binned = Blocks(counts, edges, {}, (), np.empty((WINDOWS, 0)), {})
        levels = np.where(none[:, None], np.nan, quantiles_of(binned, self._weights, tuple(QUANTILES.values())))
        return {**means, **{name: levels[:, i] for i, name in enumerate(QUANTILES)}}


def interval(values: Floats) -> list[float]:
    """Return the central ``LEVEL`` interval of resampled values, [low, high]."""
    known = values[~np.isnan(values)]
    if not len(known):
        return [float("nan")] * 2
    return [float(edge) for edge in np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])]
