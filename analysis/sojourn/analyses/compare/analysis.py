"""Compare two windows or runs: the changes with their intervals, by component.

The mean response time is the sum of its components' means, and so is the mean of the slowest 1 %: changes of components
add up to the change of the whole, exactly. Quantiles do not add, so a change of p99 is attributed by the composition of
the requests at and above it, on either side. Which routes it comes from: ``sojourn.analyses.compare.contributions``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sojourn.analyses.compare.change import Change, cause_of, change_of, made_of, moved, signed
from sojourn.analyses.compare.contributions import GroupChange, contributions, largest_groups
from sojourn.analyses.split.result import SplitResult
from sojourn.model.arrays import Floats
from sojourn.model.column_errors import not_read
from sojourn.model.components import COMPONENTS
from sojourn.model.errors import SojournError
from sojourn.model.figures import QUANTILES
from sojourn.model.formatting import percent
from sojourn.model.groups import route_name
from sojourn.model.result import Result
from sojourn.model.verdict import unknown_share
from sojourn.timeline.time_blocks import (
    BLOCK,
    LEVEL,
    RESAMPLES,
    WINDOWS,
    Blocks,
    blocks,
    quantiles_of,
    resampled_windows,
    tail_means,
)

FIGURES = ("mean", *QUANTILES)
TAIL = "p99"
UNLIKE = 0.2  # difference of the shares of unknown time from which on components are not comparable
ENOUGH = 1_000  # requests: with fewer, the slowest 1 % are fewer than 10
GROUPS = 100  # the largest groups; the others are combined


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """The result of ``compare``: changes from A to B, in seconds.

    Attributes:
        a, b: the splits.
        names: the names of the sides.
        figures: mean, p50 … p999 of the response time.
        components: component -> its mean over all requests; they sum to the mean.
        tail: component -> its mean at and above p99; they sum to ``tail_mean``.
        tail_mean: the mean at and above p99.
        by: the column of ``groups``.
        groups: the groups, largest contribution first; all but the ``GROUPS`` largest as one.
        groups_total: the number of groups.
    """

    TABLES: ClassVar = ("figures", "components", "tail", "groups")

    a: SplitResult
    b: SplitResult
    names: tuple[str, str]
    figures: dict[str, Change]
    components: dict[str, Change]
    tail: dict[str, Change]
    tail_mean: Change
    by: str
    groups: tuple[GroupChange, ...]
    groups_total: int

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Requests/s on either side, over its window."""
        return _rate(self.a), _rate(self.b)

    @property
    def failures(self) -> list[str]:
        """Failed audit checks and records that were set apart, of either side; printed first."""
        sides = zip(self.names, (self.a, self.b), strict=True)
        return [f"{name}: {text}" for name, side in sides for text in (*side.records.apart, *side.audit.failures())]

    @property
    def notes(self) -> list[str]:
        """Limits of the comparison, in sentences."""
        sentences = [
            f"{name}: queueing delays are inferred from the log, not measured."
            for name, side in zip(self.names, (self.a, self.b), strict=True)
            if side.sources.get("inferred")
        ]
        if {"inferred"} in (ways := [set(side.sources) - {"none"} for side in (self.a, self.b)]) and ways[0] != ways[1]:
            sentences.append(
                "One side is inferred and the other is measured: a difference of the queueing delay below 2 % of the "
                "response time may be the error of the inference."
            )
        few = [name for name, side in zip(self.names, (self.a, self.b), strict=True) if side.requests < ENOUGH]
        if few:
            sentences.append(f"{' and '.join(few)}: fewer than {ENOUGH:,} requests; the slowest 1 % are too few.")
        rates = self.rates
        if rates[0] and rates[1] and abs(rates[1] / rates[0] - 1) > 0.1:
            sentences.append(
                f"The load differs: {rates[0]:.4g} and {rates[1]:.4g} requests/s. The queueing delay depends on the "
                "load first of all."
            )
        return sentences

    @property
    def incomparable(self) -> str:
        """Why the components of the sides cannot be compared, as a sentence; empty if they can."""
        shares = [unknown_share(side.means) for side in (self.a, self.b)]
        if abs(shares[0] - shares[1]) <= UNLIKE:
            return ""
        name = self.names[shares.index(max(shares))]
        return f"{percent(max(shares))} of the time of {name} is unknown: the components cannot be compared."

    @property
    def cause(self) -> str | None:
        """The cause with the largest part of the change of the mean; None if it is not significant."""
        if self.incomparable:
            return "unknown" if self.figures["mean"].certain else None
        return cause_of(self.components, self.figures["mean"]) if self.figures["mean"].certain else None

    @property
    def tail_cause(self) -> str | None:
        """The cause with the largest part of the change of the slowest 1 %; None if it is not significant."""
        certain = self.tail_mean.certain or self.figures[TAIL].certain
        if self.incomparable:
            return "unknown" if certain else None
        return cause_of(self.tail, self.tail_mean) if certain else None

    @property
    def sentence(self) -> str:
        """The verdict: the significant changes and their main components."""
        p99, mean = self.figures[TAIL], self.figures["mean"]
        if self.incomparable:
            return f"{moved('p99', p99)}. {moved('The mean', mean)}. {self.incomparable}"
        parts = []
        if self.tail_cause is not None:
            composition = made_of(self.tail, self.tail_mean, self.tail_cause)
            parts.append(
                f"{moved('p99', p99)}; of the slowest 1 % ({signed(self.tail_mean.change)} ms), {composition}."
            )
        if self.cause is not None:
            parts.append(f"{moved('The mean', mean)}: {made_of(self.components, mean, self.cause)}.")
        if not parts:
            parts.append(f"No significant change. {moved('p99', p99)}.")
        return " ".join(parts)

    def _table(self, name: str) -> Any:
        if name == "figures":
            return self.figures
        values = self.to_dict()
        tables = {
            "components": values["components"], "tail": values["tail"][TAIL]["components"],
            "groups": values["by"][self.by],
        }  # fmt: skip
        return tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn compare --json`` prints."""
        return {
            "a": self._side(self.names[0], self.a),
            "b": self._side(self.names[1], self.b),
            "response_time": {name: change.to_dict() for name, change in self.figures.items()},
            "components": _with_shares(self.components, self.figures["mean"]),
            "tail": {TAIL: {"mean": self.tail_mean.to_dict(), "components": _with_shares(self.tail, self.tail_mean)}},
            "by": {
                self.by: [
                    {
                        self.by: group.name,
                        "requests": dict(zip("ab", group.requests, strict=True)),
                        "share": dict(zip("ab", group.share, strict=True)),
                        "mean": dict(zip("ab", group.mean, strict=True)),
                        "mix": group.mix,
                        "within": group.within,
                        "contribution": group.contribution,
                        "low": group.low,
                        "high": group.high,
                    }
                    for group in self.groups
                ]
            },
            "verdict": {"cause": self.cause, "tail_cause": self.tail_cause, "sentence": self.sentence},
            "bootstrap": {"resamples": RESAMPLES, "level": LEVEL, "windows": WINDOWS, "block": BLOCK},
            "failures": self.failures,
            "notes": self.notes,
        }

    @staticmethod
    def _side(name: str, side: SplitResult) -> dict[str, Any]:
        whole = side.to_dict()
        keys = ("records", "requests", "window", "response_time", "components", "means", "queueing_share", "audit")
        return {"name": name, "rate": _rate(side), **{key: whole[key] for key in keys}}


def compare(
    a: SplitResult, b: SplitResult, *, by: str = "route", names: tuple[str, str] = ("A", "B"), seed: int = 0
) -> Comparison:
    """Compare two splits with readable rows, in total and by a column of the rows.

    Raises:
        SojournError: a side has no request, or not the column.
    """
    for name, side in zip(names, (a, b), strict=True):
        if side.response_time["mean"] is None:
            raise SojournError(f"{name}: no requests to compare; check the source and the time window")
        if by not in (columns := side.rows.collect_schema().names()):
            raise SojournError(f"{name}: {not_read(by, columns)}")
    rows = _named(a.rows, b.rows, by)
    largest, total = largest_groups(rows, by, GROUPS)
    parts = blocks(rows[0], by, largest), blocks(rows[1], by, largest)
    as_is = np.ones((1, WINDOWS))
    weights = np.vstack([as_is, resampled_windows(seed)]), np.vstack([as_is, resampled_windows(seed + 1)])
    tails: list[dict[str, float]] = [side.tail[TAIL]["components"] for side in (a, b)]  # type: ignore[misc]
    again = [tail_means(part, weight, QUANTILES[TAIL]) for part, weight in zip(parts, weights, strict=True)]
    spread = {name: again[1][name] - again[0][name] for name in COMPONENTS}
    sums = [math.fsum(tail.values()) for tail in tails]
    return Comparison(
        a=a,
        b=b,
        names=names,
        figures=_figures(a, b, parts, weights),
        components={
            name: change_of(a.means[name], b.means[name], _mean_spread(parts, weights, [p.sums[name] for p in parts]))
            for name in COMPONENTS
        },
        tail={name: change_of(tails[0][name], tails[1][name], spread[name]) for name in COMPONENTS},
        tail_mean=change_of(sums[0], sums[1], np.sum(list(spread.values()), axis=0)),
        by=by,
        groups=tuple(contributions(*parts, *weights)),
        groups_total=total,
    )


def _named(a: pl.LazyFrame, b: pl.LazyFrame, by: str) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Return rows with names of routes that contain the service, where both sides together are of several."""
    needed = {"service", "route"}
    if by != "route" or not all(needed <= set(side.collect_schema().names()) for side in (a, b)):
        return a, b
    name = route_name(pl.concat([side.select("service", "route") for side in (a, b)]))
    return a.with_columns(name), b.with_columns(name)


def _figures(
    a: SplitResult, b: SplitResult, parts: tuple[Blocks, Blocks], weights: tuple[Floats, Floats]
) -> dict[str, Change]:
    levels = tuple(QUANTILES.values())
    one, other = (quantiles_of(part, weight, levels) for part, weight in zip(parts, weights, strict=True))
    sums = [np.sum(list(part.sums.values()), axis=0) for part in parts]
    spread = {"mean": _mean_spread(parts, weights, sums)}
    spread |= {name: other[:, column] - one[:, column] for column, name in enumerate(QUANTILES)}
    return {
        name: change_of(a.response_time[name] or 0.0, b.response_time[name] or 0.0, spread[name]) for name in FIGURES
    }


def _mean_spread(parts: tuple[Blocks, Blocks], weights: tuple[Floats, Floats], sums: list[Floats]) -> Floats:
    """Return the mean of the second side less that of the first, per weighting."""
    one, other = (
        (weight @ seconds.sum(axis=1)) / np.maximum(weight @ part.requests.sum(axis=1), 1e-12)
        for part, weight, seconds in zip(parts, weights, sums, strict=True)
    )
    return other - one


def _with_shares(parts: dict[str, Change], whole: Change) -> list[dict[str, object]]:
    """Return rows of components; ``share`` of the change of the whole is null unless that is significant."""
    return [
        {"component": name, **change.to_dict(), "share": change.change / whole.change if whole.certain else None}
        for name, change in parts.items()
    ]


def _rate(side: SplitResult) -> float | None:
    if side.window is None:
        return None
    seconds = (side.window[1] - side.window[0]).total_seconds()
    return side.requests / seconds if seconds > 0 else None
