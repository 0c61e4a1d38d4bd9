"""What a split found, as an object, as JSON and as Parquet."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from sojourn.analyses.audit.result import Audit
from sojourn.clock.correction import plain_clocks
from sojourn.model.formatting import iso
from sojourn.model.frame import Records
from sojourn.model.measures import Measures
from sojourn.model.result import Result
from sojourn.model.statistics import Summary
from sojourn.model.verdict import Verdict
from sojourn.present.files import written_whole
from sojourn.sources.frame_measures import without_upgraded

if TYPE_CHECKING:
    from sojourn.analyses.wire.result import WireResult


@dataclass(repr=False)
class SplitResult(Result):
    """What a split found. Durations in seconds.

    Attributes:
        measures: the aggregates it was assembled from; charts ask them for more.
        means: component -> mean over all requests, unknown counted as 0: these sum to the mean response time.
        tail: "p99" -> requests, threshold, queueing_share and component means at and above it.
        by: group column -> one row per value, busiest first.
        sources: queue_source -> requests.
        wire: what captures of the same requests show (``sojourn.analyses.wire``), where there were some.
    """

    measures: Measures
    records: Records
    names: tuple[str, ...]
    window: tuple[datetime, datetime] | None
    clock: pl.DataFrame
    response_time: Summary
    components: dict[str, Summary]
    means: dict[str, float]
    queueing_share: float | None
    tail: dict[str, dict[str, object]]
    audit: Audit
    verdict: Verdict
    by: dict[str, list[dict[str, object]]]
    by_total: dict[str, int]
    sources: dict[str, int]
    wasted: float = 0.0
    notes: list[str] = field(default_factory=list)
    requests: int = 0
    wire: WireResult | None = None
    # Holds on to what the rows lie in: a temporary folder, or where a store is.
    _rows: Callable[[], pl.LazyFrame] = field(default=pl.LazyFrame, repr=False)

    @functools.cached_property
    def rows(self) -> pl.LazyFrame:
        """The frame with the components of every request; of a store, it is fetched when it is first asked for.

        Canonical columns read, plus ``COMPONENTS``, ``queueing_delay``, ``queue_by_duration``, ``queue_source``,
        ``clock_offset``, ``proxied``, ``answered`` and ``wasted``. Upgraded connections (101) are in it.

        Raises:
            SojournError: a store holds more rows than fit here.
        """
        return self._rows()

    @property
    def served(self) -> pl.LazyFrame:
        """The rows the distributions are made of: without upgraded connections, which last as long as they are used."""
        return without_upgraded(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The object that ``sojourn split --json`` prints."""
        window = None
        if self.window:
            seconds = (self.window[1] - self.window[0]).total_seconds()
            window = {"from": iso(self.window[0]), "to": iso(self.window[1]), "seconds": seconds}
        return rounded(
            {
                "records": self.records.to_dict(),
                "requests": self.requests,
                "window": window,
                "clock": plain_clocks(self.clock),
                "response_time": self.response_time,
                "components": self.components,
                "means": self.means,
                "queueing_share": self.queueing_share,
                "tail": self.tail,
                "queue_source": self.sources,
                "wasted_seconds": self.wasted,
                "audit": self.audit.to_dict(),
                "verdict": self.verdict.to_dict(),
                "notes": self.notes,
                "by": self.by,
                **({} if self.wire is None else {"wire": self.wire.to_split()}),
            }
        )

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write ``rows`` to a Parquet file, whole or not at all.

        Raises:
            SojournError: the file cannot be written.
        """
        with written_whole(path, pl.exceptions.PolarsError) as partial:
            self.rows.sink_parquet(partial, compression="zstd")


def rounded(value: Any) -> Any:
    """``value`` with every float in it rounded to a nanosecond's digits, and instants as text.

    No 0.30000000000000004 reaches a reader.
    """
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, float):
        return round(value, 9) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value
