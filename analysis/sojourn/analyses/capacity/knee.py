"""The load at which an objective breaks.

Over the windows, the objective's figure (a quantile, the mean or the share of errors) is made a smooth function of the
rate, by local linear regression with tricube weights (Cleveland 1979), of the logarithm for times; and then one that
never falls, by pooling adjacent violators (Ayer, Brunk, Ewing, Reid & Silverman 1955). No shape is assumed. A figure
far from the limit tells on which side of it the window lies, and no more: it counts as ``FAR`` times the limit, or as
that part of it, so that one very slow window is averaged with its neighbours instead of being believed. The knee is
where the function crosses the limit, between two rates that were seen; what was never seen is not guessed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted

METHOD = "local linear regression on the rate, made monotone; bootstrap over windows"
GRID = 60  # rates at which the function is computed
NEIGHBOURS = 8  # windows that count at a rate, at the least; n^0.8 / 2 of many
FAR = 3.0
RESAMPLES = 1_000
LEVEL = 0.95
METRICS = {name: name.replace(".", "") for name in ("mean", "p50", "p90", "p99", "p999", "p99.9", "errors")}
LEAST_WINDOWS = 3


@dataclass(frozen=True)
class Slo:
    """An objective: ``metric`` (mean, p50 … p999 of response time, s; errors, a share) is at most ``limit``."""

    metric: str
    limit: float

    @classmethod
    def of(cls, text: str) -> Slo:
        """Parse an objective such as ``p99=0.5``.

        Raises:
            SojournError: it is not of that form.
        """
        name, _, value = text.partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if name not in METRICS or not 0 < limit < math.inf or (name == "errors" and limit >= 1):
            raise SojournError(
                f"{text!r} is not an objective: give one of {', '.join(METRICS)} = seconds (a share for errors), "
                "like p99=0.5"
            )
        return cls(METRICS[name], limit)

    def __str__(self) -> str:
        name = "p99.9" if self.metric == "p999" else self.metric
        return f"{name} ≤ {self.limit:g}{'' if self.metric == 'errors' else ' s'}"


@dataclass(frozen=True)
class Knee:
    """Where an objective breaks, requests/s.

    Attributes:
        slo: the objective.
        rate: None where it was not seen to break, or at every rate that was seen.
        low, high: percentile interval of the bootstrap; high is None where some resamples never broke it.
        at_least: it held up to this rate, the highest seen.
        at_most: it was broken from this rate on, the lowest seen.
        reason: why there is no rate.
        route: of which the requests, or the services alone, break the objective at any rate.
    """

    slo: Slo
    rate: float | None = None
    low: float | None = None
    high: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    reason: str | None = None
    route: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as in the JSON."""
        return {**asdict(self), "method": METHOD, "bootstrap": {"resamples": RESAMPLES, "level": LEVEL}}


def knee_of(rate: Floats, figure: Floats, slo: Slo, *, resamples: int = RESAMPLES, seed: int = 0) -> Knee:
    """Return the knee of windows, from their rates (requests/s) and the objective's figures (s; errors: a share)."""
    # Sorted, because sums of the same numbers in another order differ in their last digit.
    order = np.lexsort((figure, rate))
    rate, figure = rate[order], figure[order]
    smooth = _Smooth(rate)
    values, limit = _scaled(figure, slo), float(_scaled(np.array([slo.limit]), slo)[0])
    crossing = _crossing(smooth.grid, *smooth.monotone(values, np.ones((len(rate), 1))), limit)[0]
    over = figure > slo.limit
    if crossing == math.inf or not over.any():
        most = float(rate.max())
        alone = (
            f" (broken in {over.sum()} of {counted(len(over), 'window')}, without relation to the load)"
            if over.any()
            else ""
        )
        reason = f"it held at every observed load, up to {most:.4g} requests/s{alone}; higher loads were not observed"
        return Knee(slo, at_least=most, reason=reason)
    if crossing == -math.inf or over.all():
        least = float(rate.min())
        return Knee(slo, at_most=least, reason=f"it was broken at every observed load, from {least:.4g} requests/s on")
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(rate), np.full(len(rate), 1 / len(rate)), size=resamples)
    again = _crossing(smooth.grid, *smooth.monotone(values, counts.T.astype(float)), limit)
    low, high = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return Knee(
        slo,
        rate=float(crossing),
        low=float(low) if math.isfinite(low) else None,
        high=float(high) if math.isfinite(high) else None,
    )


def monotone(rate: Floats, figure: Floats, slo: Slo) -> tuple[Floats, Floats]:
    """Return the rates, ascending, and the monotone fit of the figure, for a chart."""
    smooth = _Smooth(rate)
    _, fitted = smooth.monotone(_scaled(figure, slo), np.ones((len(rate), 1)))
    return smooth.grid, fitted[:, 0] if slo.metric == "errors" else np.exp(fitted[:, 0])


def _scaled(figure: Floats, slo: Slo) -> Floats:
    if slo.metric == "errors":
        return np.minimum(figure, FAR * slo.limit)
    return np.log(np.clip(figure, slo.limit / FAR, slo.limit * FAR))


class _Smooth:
    """Local linear regression at the rates of a grid, for many weightings of the same windows at once."""

    def __init__(self, rate: Floats) -> None:
        low, high = float(rate.min()), float(rate.max())
        self.grid = np.linspace(low, high, GRID) if high > low else np.array([low])
        self._apart = rate[None, :] - self.grid[:, None]
        count = len(rate)
        near = min(max(NEIGHBOURS, math.ceil(count**0.8 / 2)), count)
        reach = np.partition(np.abs(self._apart), near - 1, axis=1)[:, near - 1 : near]
        # Where windows of one rate lie together, or far from the next, reach two steps of the grid all the same.
        reach = np.maximum(reach * (1 + 1e-9), max(2 * (high - low) / GRID, 1e-9 * max(high, 1)))
        self._kernel = np.clip(1 - np.abs(self._apart / reach) ** 3, 0, None) ** 3
        self._reach = reach

    def monotone(self, values: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weight of the windows at each rate, and the monotone fit; one column per column of ``weights``."""
        kernel, apart = self._kernel, self._kernel * self._apart
        s0, s1, s2 = kernel @ weights, apart @ weights, (apart * self._apart) @ weights
        weighted = weights * values[:, None]
        t0, t1 = kernel @ weighted, apart @ weighted
        across = s0 * s2 - s1 * s1
        # Of windows of one rate only there is a mean and no slope.
        sloped = across > 1e-6 * (s0 * self._reach) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            fitted = np.where(sloped, (s2 * t0 - s1 * t1) / across, t0 / s0)
        for column in range(fitted.shape[1]):
            covered = s0[:, column] > 0
            fitted[covered, column] = isotonic(fitted[covered, column], s0[covered, column])
        return s0, fitted


def isotonic(values: Floats, weights: Floats) -> Floats:
    """Return the nearest sequence that never falls, by weighted least squares: pool adjacent violators (Ayer 1955)."""
    means: list[float] = []
    totals: list[float] = []
    lengths: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, total, length = value, weight, 1
        while means and means[-1] >= mean:
            before = totals.pop()
            mean = (before * means.pop() + total * mean) / (before + total)
            total, length = before + total, lengths.pop() + length
        means.append(mean)
        totals.append(total)
        lengths.append(length)
    return np.repeat(means, lengths)


def _crossing(grid: Floats, weight: Floats, fitted: Floats, limit: float) -> Floats:
    """Return, per column, the rate at which the fit passes the limit; inf: never; -inf: above it from the start."""
    crossings = np.empty(fitted.shape[1])
    for column in range(fitted.shape[1]):
        covered = weight[:, column] > 0
        rate, values = grid[covered], fitted[covered, column]
        above = int(np.searchsorted(values, limit, side="right"))
        if above == len(values):
            crossings[column] = math.inf
        elif above == 0:
            crossings[column] = -math.inf
        else:
            part = (limit - values[above - 1]) / (values[above] - values[above - 1])
            crossings[column] = rate[above - 1] + part * (rate[above] - rate[above - 1])
    return crossings
