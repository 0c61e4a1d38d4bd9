"""The stretch of a film in which nearly everything happens, where a few requests stand far away from all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sojourn.movie.scenes import Scene

FEWEST = 4  # requests: of fewer none is a straggler
STRAGGLERS = 0.05  # of the requests at most, and one in any case
LONG = 0.5  # of the film: so much of it at most is worth cutting to


def crowded_stretch(scenes: Sequence[Scene], seconds: float) -> tuple[float, float] | None:
    """Return (begin, end), s, from the first arrival to the end of the last request of the crowd; None to show all.

    A request that stands far away is a straggler: the shortest stretch without at most ``STRAGGLERS`` of the requests
    is not longer than ``LONG`` of the film. Steady traffic, however sparse, has no such stretch.

    Args:
        scenes: on one clock.
        seconds: length of the film.
    """
    arrival = np.concatenate([scene.arrival for scene in scenes])
    order = np.argsort(arrival, kind="stable")
    arrival, gone = arrival[order], np.concatenate([scene.gone for scene in scenes])[order]
    if len(arrival) < FEWEST:
        return None
    need = len(arrival) - max(int(len(arrival) * STRAGGLERS), 1)
    ends = np.lib.stride_tricks.sliding_window_view(gone, need).max(axis=1)
    begins = np.maximum(arrival[: len(ends)], 0.0)
    best = int((ends - begins).argmin())
    begin, end = float(begins[best]), float(min(ends[best], seconds))
    return (begin, end) if 0 < end - begin <= LONG * seconds else None
