"""The confidence band of a distribution of times that depend on each other.

Requests that are near in time met the same queue, so the requests of a log say less than as many independent ones. The
log is divided into ``STRETCHES`` of as many requests each (batch means: Conway 1963); the variance of a share between
them, over that of independent requests, is its design effect, and the log counts as so many requests fewer (Korn &
Graubard 1998, with the quantiles of Student's t for the few stretches). With that number, the interval of a share is
that of Wilson (1927); the interval of a quantile lies between the times whose shares are the ends of the interval of
its level (Woodruff 1952). A band holds at each of its points with the probability ``LEVEL``, not everywhere at once. In
simulations of M/M/1 with 20,000 requests it holds in 91 to 96 % of the logs at a utilisation of 0.5, in 87 to 96 % at
0.8: there the slowest requests are in few queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats
from sojourn.model.measures import exceeding_ranks
from sojourn.model.statistics import share_interval, student_t
from sojourn.present.chart_sizes import SMALLEST

LEVEL = 0.95
NORMAL = 1.959963984540054  # its two-sided quantile of the normal distribution
STRETCHES = 20
ENOUGH = 5  # stretches with a request on either side of a time: of fewer, the variance between them is unknown
LEAST = 2 * STRETCHES  # requests
POINTS = 240


def band_of(values: Floats, points: int = POINTS) -> pl.DataFrame:
    """Return the band of the complementary distribution function of values.

    Args:
        values: in the order of their arrivals, s; without missing ones.
        points: the most points, even in the logarithm of the share that is larger.

    Returns:
        Columns seconds (ascending), exceeding (share of values as large or larger), low, high (of the share; null where
        it is unknown, as of ``share_bands``).
    """
    ordered = np.sort(values)
    seconds = np.unique(ordered[exceeding_ranks(len(ordered), points)]) if len(ordered) else np.array([])
    share, low, high = share_bands(values, seconds)
    return pl.DataFrame({"seconds": seconds, "exceeding": share, "low": low, "high": high}).with_columns(
        pl.col("low", "high").fill_nan(None)
    )


def share_bands(values: Floats, seconds: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the shares of values that are as large as times or larger, and the ends of their intervals.

    Args:
        values: in the order of their arrivals, s.
        seconds: the times, s.

    Returns:
        Shares, low ends, high ends; the ends are NaN where fewer than ``ENOUGH`` stretches have a value on either side,
        and everywhere for fewer than ``LEAST`` values.
    """
    count = len(values)
    if count < LEAST:
        share = np.array([(values >= each).mean() for each in seconds], np.float64)
        return share, np.full(len(seconds), np.nan), np.full(len(seconds), np.nan)
    parts = [np.sort(part) for part in np.array_split(values, STRETCHES)]
    sizes = np.array([len(part) for part in parts], np.float64)[:, None]
    above = np.array([len(part) - np.searchsorted(part, seconds, side="left") for part in parts], np.float64)
    share = above.sum(axis=0) / count
    between = STRETCHES / (STRETCHES - 1) * ((above - share * sizes) ** 2).sum(axis=0) / count**2
    alone = share * (1 - share) / count
    effect = np.maximum(np.divide(between, alone, out=np.ones_like(alone), where=alone > 0), 1.0)
    effective = count / effect * (NORMAL / student_t((1 + LEVEL) / 2, STRETCHES - 1)) ** 2
    low, high = share_interval(share, effective, NORMAL)
    unknown = np.minimum((above > 0).sum(axis=0), (above < sizes).sum(axis=0)) < ENOUGH
    return share, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


def quantile_bands(values: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of quantiles, s; NaN where they are unknown, as of ``share_bands``.

    The values that the ends of a level's interval have in the log (Woodruff 1952).

    Args:
        values: in the order of their arrivals, s; without missing ones.
        levels: shares of values that are as small or smaller.
    """
    if len(values) < LEAST:
        return np.full(len(levels), np.nan), np.full(len(levels), np.nan)
    share, low, high = share_bands(values, np.quantile(values, levels))
    unknown = np.isnan(low)
    # The interval is around the level; values that are all alike have a share that is far from it.
    begins = np.clip(levels - np.where(unknown, 0.0, high - share), 0, 1)
    ends = np.clip(levels + np.where(unknown, 0.0, share - low), 0, 1)
    ends_of_values = np.quantile(values, begins), np.quantile(values, ends)
    first, last = (np.where(unknown, np.nan, end) for end in ends_of_values)
    return first, last


def times_of(rows: pl.LazyFrame, columns: Iterable[str]) -> dict[str, Floats]:
    """Return column -> its values in the order of the arrivals, without missing ones, s."""
    table = rows.select("start", *columns).sort("start").collect(engine="streaming")
    return {column: table[column].drop_nulls().to_numpy() for column in table.columns if column != "start"}


def bands_of(rows: pl.LazyFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Return ``band_of`` of columns of requests, with the column ``part``.

    Args:
        rows: served requests with components.
        columns: column -> its name in ``part``.
    """
    bands = [
        band_of(values).with_columns(part=pl.lit(columns[column])) for column, values in times_of(rows, columns).items()
    ]
    return pl.concat(bands).filter(pl.col("seconds") >= SMALLEST)
