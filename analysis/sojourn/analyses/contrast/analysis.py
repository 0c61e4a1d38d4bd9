"""Compare the selected requests with the rest, column by column, and name what held their workers.

``counting`` counts requests by column, value and block of time, ``ranking`` ranks the values of such counts with
simultaneous intervals; ``culprits`` counts the seconds for which workers were held in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from sojourn.analyses.contrast.columns import Coded
from sojourn.analyses.contrast.counting import Arrivals, counts_of
from sojourn.analyses.contrast.culprits import Charged, Waits
from sojourn.analyses.contrast.ranking import LEVEL, Ranking, ranked
from sojourn.analyses.contrast.selection import TIMES, Selection
from sojourn.model.arrays import Bools, Ints
from sojourn.model.figures import quantiles
from sojourn.model.formatting import counted, duration, listed, printable
from sojourn.model.result import Result

FIGURES = {"p50": 0.5, "p99": 0.99}
ONE_HOLDER = 0.2  # of the charged seconds: more by one request is worth a note
MOST_ROWS = 1_000  # of a list in the JSON


@dataclass(frozen=True)
class Part:
    """The selected requests, or the rest.

    Attributes:
        requests: their number.
        share: of all compared requests.
        times: time -> mean, p50 and p99, s; None where it is unknown.
    """

    requests: int
    share: float
    times: dict[str, dict[str, float | None]]

    def to_dict(self) -> dict[str, Any]:
        """Return the ``selected`` or ``rest`` object of the JSON output."""
        return {"requests": self.requests, "share": self.share, **self.times}


@dataclass(frozen=True, repr=False)
class ContrastResult(Result):
    """The result of ``contrast``.

    Attributes:
        selection: which requests are selected.
        selected: their number and times.
        rest: those of the others.
        differences: column, value (null: none), selected and rest (shares of the requests), difference, low and high
            (of the difference, simultaneous), lift (null: the rest has none), requests (selected ones with the value);
            those that are significantly over-represented, largest low first.
        culprits: column, value, seconds (that workers were held while selected requests waited), share (of all such
            seconds), of_requests (share of all requests), difference, low, high, lift, requests (that held workers);
            as ``differences``.
        waits: the waits of the selected requests; None: unknown.
        ranking: of the differences: the compared values.
        culprit_ranking: of the culprits.
        runs: columns of the differences that are not compared, because their values come in runs -> length in requests.
        culprit_runs: the same of the culprits.
        culprits_unknown: why there are no culprits, as sentences; empty where they were compared.
    """

    TABLES: ClassVar = ("differences", "culprits")

    selection: Selection
    selected: Part
    rest: Part
    differences: pl.DataFrame
    culprits: pl.DataFrame
    waits: Waits | None
    ranking: Ranking
    culprit_ranking: Ranking
    runs: dict[str, int]
    culprit_runs: dict[str, int]
    culprits_unknown: str = ""

    @property
    def notes(self) -> list[str]:
        """Limits of the comparison, in sentences."""
        notes = [*_not_compared(self.ranking, self.runs, "selected requests")]
        if self.selection.incident:
            notes.insert(
                0,
                "Nothing was selected: the requests of the incident are compared that are slower than 90 % of all "
                "others.",
            )
        if self.waits is None or self.culprits_unknown:
            return notes
        notes += _not_compared(self.culprit_ranking, self.culprit_runs, "requests that held workers")
        if self.waits.costliest > ONE_HOLDER * self.waits.blamed:
            notes.append(
                f"One request alone held workers for {duration(self.waits.costliest)} of {duration(self.waits.blamed)} "
                f"of these waits, and {counted(self.waits.holders, 'request')} in all: sojourn blame lists them."
            )
        return [*notes, *self.waits.queue_source.marks, *self.waits.queue_source.gaps]

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn contrast --json`` prints."""
        return {
            "selection": self.selection.to_dict(),
            "selected": self.selected.to_dict(),
            "rest": self.rest.to_dict(),
            "differences": self.differences.head(MOST_ROWS).to_dicts(),
            "culprits": self.culprits.head(MOST_ROWS).to_dicts(),
            "waits": self.waits and self.waits.to_dict(),
            "culprits_unknown": self.culprits_unknown or None,
            "compared": {
                "level": LEVEL,
                "differences": _compared(self.ranking, self.runs),
                "culprits": _compared(self.culprit_ranking, self.culprit_runs),
            },
            "notes": self.notes,
        }


def contrast_of(
    rows: pl.DataFrame, chosen: Bools, selection: Selection, columns: Mapping[str, Coded], order: Ints, charged: Charged
) -> ContrastResult:
    """Compare selected requests with the rest.

    Args:
        rows: the requests, with the columns of ``sojourn.analyses.contrast.selection.TIMES``.
        chosen: which of them are selected: some, and not all.
        selection: how they were selected.
        columns: the compared columns, in the order of the arrivals.
        order: of the arrivals, as from ``sojourn.analyses.contrast.columns.ordered_columns``.
        charged: the seconds for which workers were held while they waited.
    """
    counts, runs = counts_of(columns, Arrivals.of(chosen[order]))
    differences, culprits = ranked(counts), ranked(charged.counts)
    return ContrastResult(
        selection=selection,
        selected=_part(rows, chosen),
        rest=_part(rows, ~chosen),
        differences=differences.rows.drop("weight"),
        culprits=culprits.rows.select(
            "column", "value", pl.col("weight").alias("seconds"), pl.col("selected").alias("share"),
            pl.col("rest").alias("of_requests"), "difference", "low", "high", "lift", "requests",
        ),
        waits=charged.waits,
        ranking=differences,
        culprit_ranking=culprits,
        runs=runs,
        culprit_runs=charged.runs,
        culprits_unknown=charged.reason,
    )  # fmt: skip


def _part(rows: pl.DataFrame, chosen: Bools) -> Part:
    times: dict[str, dict[str, float | None]] = {}
    for name, column in TIMES.items():
        values = rows[column].filter(pl.Series(chosen)).drop_nulls().to_numpy().copy()
        mean = float(values.mean()) if len(values) else None
        times[name] = {"mean": mean, **dict(zip(FIGURES, quantiles(values, list(FIGURES.values())), strict=True))}
    return Part(int(chosen.sum()), float(chosen.mean()), times)


def _compared(ranking: Ranking, runs: Mapping[str, int]) -> dict[str, Any]:
    return {"values": ranking.values, "columns": list(ranking.columns), "not_compared": [*runs, *ranking.few]}


def _not_compared(ranking: Ranking, runs: Mapping[str, int], requests: str) -> list[str]:
    """Return the sentences on the columns that are not compared."""
    notes = []
    if runs:
        texts = [f"{printable(name, 60)} (about {counted(length, 'request')})" for name, length in runs.items()]
        lengths = listed(texts)
        notes.append(
            f"Not compared: {lengths}, because the values come in runs of that length, and the {requests} are in too "
            "few of them. Select more requests."
        )
    if ranking.few:
        names = listed([printable(name, 60) for name in ranking.few])
        notes.append(f"Not compared: {names}, because the {requests} are in too few periods. Select more requests.")
    return notes
