"""Confidence intervals of the change of a case from one run to another, by the requests of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sojourn.analyses.compare.change import change_of
from sojourn.model.components import COMPONENTS
from sojourn.model.verdict import CAUSES
from sojourn.timeline.time_blocks import WINDOWS, blocks, quantiles_of, resampled_windows

from sojourn_lab.results.criteria import number_at, value_at
from sojourn_lab.results.runs.archive import REQUEST_FIGURES, ArchivedRun, cases_of

LEAST_REQUESTS = 50
"""With fewer requests in either run no interval is made: its resamples would hardly differ."""

LEAST_FOR_TAIL = 1_000
"""With fewer requests there is no interval of p99: fewer than ten are above it."""

BEGINNING = datetime(2000, 1, 1)


def interval_by_requests(
    a: ArchivedRun, b: ArchivedRun, names_a: Sequence[str], names_b: Sequence[str]
) -> tuple[dict[str, tuple[float, float]], str | None]:
    """Return path -> ends of the 95 % interval of after / before - 1, and the reason if there is none.

    A figure that is not above 0 in some resample has no ratio, and no interval.

    Args:
        a: the run before.
        b: the run after.
        names_a: the names of one case's rounds in the log of `a`.
        names_b: the same in the log of `b`.
    """
    if not a.requests.is_file() or not b.requests.is_file():
        return {}, None
    try:
        sides = [_requests(run, names) for run, names in ((a, names_a), (b, names_b))]
        fewest = min(len(side) for side in sides)
        if fewest < LEAST_REQUESTS:
            return {}, f"no interval from {fewest} requests" if fewest else None
        one, other = (_resampled(side, seed) for seed, side in enumerate(sides))
    except (pl.exceptions.PolarsError, OSError) as error:
        return {}, f"requests.parquet cannot be compared: {str(error).splitlines()[0]}"
    paths = [path for path in one if fewest >= LEAST_FOR_TAIL or not path.endswith("p99")]
    ends = {
        path: _ends(one[path], other[path], _exactly(a, names_a, path), _exactly(b, names_b, path)) for path in paths
    }
    return {path: interval for path, interval in ends.items() if interval is not None}, None


def _requests(run: ArchivedRun, names: Sequence[str]) -> pl.DataFrame:
    """Return the requests in the windows of a case's rounds, with the rounds joined without gaps."""
    columns = ["start", "request_time", "status", "route", *COMPONENTS]
    rows = pl.scan_parquet(run.requests)
    windows = {name: result for name, _, _, result in cases_of(run) if name in names}
    rounds: list[pl.DataFrame] = []
    offset = 0.0
    for name in names:
        since, until = (datetime.fromisoformat(value_at(f"window.{end}", windows[name])) for end in ("from", "to"))
        inside = (pl.col("service") == name) & (pl.col("start") >= since) & (pl.col("start") < until)
        moved = pl.lit(BEGINNING) + (pl.col("start") - since) + pl.duration(microseconds=round(offset * 1e6))
        rounds.append(
            rows.filter(inside).select(columns).with_columns(start=moved.dt.replace_time_zone("UTC")).collect()
        )
        offset += (until - since).total_seconds()
    return pl.concat(rounds)


def _resampled(requests: pl.DataFrame, seed: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return path -> the figure of the requests, first, and of every resample."""
    part = blocks(requests.lazy(), "route", [])
    weights = np.vstack([np.ones((1, WINDOWS)), resampled_windows(seed)])
    count = np.maximum(weights @ part.requests.sum(axis=1), 1e-12)

    def mean(*components: str) -> npt.NDArray[np.float64]:
        return weights @ np.sum([part.sums[name].sum(axis=1) for name in components], axis=0) / count

    middle, tail = quantiles_of(part, weights, (0.5, 0.99)).T
    figures: Sequence[Any] = (mean(*part.sums), middle, tail, mean(*CAUSES["queueing"]), mean("service_time"))
    return dict(zip(REQUEST_FIGURES, figures, strict=True))


def _ends(
    one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], before: float | None, after: float | None
) -> tuple[float, float] | None:
    """Return the interval of the ratio less 1, from the logarithms of the ratios of resamples; None without ratios.

    It lies around the exact ratio: binning affects resamples and their base alike.
    """
    exact = (float(one[0]), float(other[0])) if before is None or after is None else (before, after)
    if min(one.min(), other.min(), *exact) <= 0.0:
        return None
    change = change_of(0.0, math.log(exact[1] / exact[0]), np.log(other / one))
    return math.expm1(change.low), math.expm1(change.high)


def _exactly(run: ArchivedRun, names: Sequence[str], path: str) -> float | None:
    """Return the exact figure of the split for a single round; None for several, whose pool is not in the record."""
    figures = [number_at(path, result) for name, _, _, result in cases_of(run) if name in names]
    return figures[0] if len(figures) == 1 else None
