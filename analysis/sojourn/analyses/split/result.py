"""The result of a split, as an object, as JSON and as Parquet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

import polars as pl

from sojourn.analyses.audit.result import Audit
from sojourn.components.clock_offsets.correction import largest_clocks, others_of, plain_clocks
from sojourn.model.figures import Summary
from sojourn.model.formatting import RESOLUTION, iso, rounded
from sojourn.model.groups import LARGEST, TIMES
from sojourn.model.result import Result
from sojourn.model.verdict import Evidence, Verdict, queueing_seconds
from sojourn.present.files import written_whole
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.open_requests import OpenedRequests
from sojourn.sources.quantiles import quantiles_of
from sojourn.timeline.held_times import HeldTimes, held_times
from sojourn.timeline.sample import FEW, sample_of

if TYPE_CHECKING:
    from sojourn.analyses.pcap.result import WireResult
    from sojourn.analyses.split.culprit import Culprit
    from sojourn.analyses.split.inside import InnerWaits


@dataclass(kw_only=True, repr=False)
class SplitResult(OpenedRequests, Result):
    """The result of a split. Durations in seconds.

    Attributes:
        measures, records, names, rows: of the requests; charts query ``measures``.
        window: first and last arrival; None without requests.
        clock: the clock correction per upstream.
        response_time: mean and quantiles.
        components: component -> mean and quantiles of its known values.
        means: component -> mean over all requests, unknown counted as 0: these sum to the mean response time.
        evidence: what tells the causes of a phase apart, means in seconds.
        queueing_share: queueing delay as a share of the time of the requests whose wait is known; None without any.
        tail: "p99" -> requests, threshold, queueing_share and component means at and above it.
        audit, verdict: the checks and the conclusion.
        by: group column -> one row per value, busiest first.
        by_total: group column -> number of values.
        sources: queue_source -> requests.
        wasted: worker seconds of abandoned requests.
        notes: limits of the result, in sentences.
        requests: number of requests.
        inner: the part of the service time in which requests wait inside the app; None: services do not depend on the
            load, or are no large part of the time.
        culprit: the route that the queue is due to, with few of the requests and most of the waiting; None: there is
            none, or it was not looked for.
        incident: figures of ``audit.incident``: requests, response_time, queueing_delay, service_time (mean and
            quantiles, s), queueing_share; None without one.
        lacks_times: no queue can be seen for lack of times in the log; the verdict has the lines to add.
        wire: the result of captures of the same requests (``sojourn.analyses.pcap``), if there are any.
    """

    window: tuple[datetime, datetime] | None
    clock: pl.DataFrame
    response_time: Summary
    components: dict[str, Summary]
    means: dict[str, float]
    evidence: Evidence
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
    inner: InnerWaits | None = None
    culprit: Culprit | None = None
    incident: dict[str, Any] | None = None
    wire: WireResult | None = None
    lacks_times: bool = False

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that ``to_polars`` returns: the requests, the figures, the clocks, and the groups."""
        return ("rows", "components", "clock", *self.by)

    def _table(self, name: str) -> Any:
        if name == "components":
            figures = {"response_time": self.response_time, **self.components}
            return [{"component": name, **each} for name, each in figures.items()]
        return self.by[name] if name in self.by else super()._table(name)

    @property
    def queueing_of_all(self) -> float | None:
        """Queueing delay as a share of the time of all requests, whether their wait is known or not; None without any.

        It adds up with the shares of the other components.
        """
        total = sum(self.means.values())
        return queueing_seconds(self.means) / total if total and self.queueing_share is not None else None

    @property
    def failed_checks(self) -> list[str]:
        """The sentences of failed checks of the audit, without those that the lines in the verdict also correct."""
        corrected = {
            check.sentence
            for check in self.audit.checks
            if self.lacks_times and check.name in ("headers", "resolution")
        }
        return [sentence for sentence in self.audit.failures() if sentence not in corrected]

    @property
    def uncertainty(self) -> float:
        """Uncertainty of a mean time, s: that of the clock offsets, weighted by requests, or nginx's resolution."""
        if self.clock.is_empty():  # of a frame, whose clocks are unknown
            return RESOLUTION
        clocks = self.clock.filter(pl.col("uncertainty").is_finite()).select("uncertainty", "requests").rows()
        seconds = sum(uncertainty * requests for uncertainty, requests in clocks)
        return max(RESOLUTION, seconds / max(sum(requests for _, requests in clocks), 1))

    @property
    def mark(self) -> str:
        """What follows the names of times that are inferred; empty where all are measured."""
        if not self.sources.get("inferred"):
            return ""
        measured = any(n for source, n in self.sources.items() if source not in ("inferred", "none"))
        return " (part inferred)" if measured else " (inferred)"

    @property
    def others(self) -> dict[str, dict[str, int]]:
        """The values without an entry in ``by``, and the pairs without one in the JSON's ``clock``.

        List -> ``values`` (their number) and ``requests`` (of all of them); only lists that lack some.
        """
        served = self.requests - self.audit.upgraded
        others = {
            group: {"values": values, "requests": served - sum(int(str(row["requests"])) for row in self.by[group])}
            for group, total in self.by_total.items()
            if (values := total - len(self.by[group]))
        }
        if pairs := others_of(self.clock):
            others["clock"] = pairs
        if backends := self.inferred[LARGEST:]:
            others["inference"] = {"values": len(backends), "requests": sum(each.requests for each in backends)}
        return others

    @property
    def held(self) -> HeldTimes | None:
        """For how long requests hold their workers; None: hardly longer than their service times, or unknown.

        Of a store, whose rows are fetched for it, only up to ``sample.FEW`` requests.
        """
        if not isinstance(self.measures, FrameMeasures) and self.requests > FEW:
            return None
        return self.once("held", lambda: held_times(self.rows, sample_of(self, upgraded=True)))

    @overload
    def quantile(self, q: float, *, of: str = "request_time", by: None = None) -> float | None: ...

    @overload
    def quantile(self, q: Sequence[float], *, of: str = "request_time", by: None = None) -> pl.DataFrame: ...

    @overload
    def quantile(
        self, q: float | Sequence[float], *, of: str = "request_time", by: str | Sequence[str]
    ) -> pl.DataFrame: ...

    def quantile(
        self, q: float | Sequence[float], *, of: str = "request_time", by: str | Sequence[str] | None = None
    ) -> float | pl.DataFrame | None:
        """Return exact quantiles of a time, over all requests or by columns that were read: ``sojourn.quantile``.

        Args:
            q: the share of requests that take as long or less, from 0 to 1: 0.99 for p99; or several.
            of: the time: request_time, queueing_delay, service_time, or another column of ``rows`` in seconds.
            by: column or columns to group by; None: over all requests.

        Returns:
            Seconds for a single ``q`` without ``by``; otherwise a frame: columns of ``by``, q, requests, the time.

        Raises:
            SojournError: ``q`` is not from 0 to 1, or a column does not exist.
        """
        groups = () if by is None else (by,) if isinstance(by, str) else tuple(by)
        return quantiles_of(self.rows, q, TIMES.get(of, of), groups)

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn split --json`` prints."""
        window = None
        if self.window:
            seconds = (self.window[1] - self.window[0]).total_seconds()
            window = {"from": iso(self.window[0]), "to": iso(self.window[1]), "seconds": seconds}
        return rounded(
            {
                "records": self.records.to_dict(),
                "inference": [each.to_dict() for each in self.inferred[:LARGEST]],
                "formats": [each.to_dict() for each in self.records.formats],
                "requests": self.requests,
                "window": window,
                "clock": plain_clocks(largest_clocks(self.clock)),
                "response_time": self.response_time,
                "components": self.components,
                "means": self.means,
                "held": self.held and self.held.to_dict(),
                "inner_queue": self.inner and self.inner.to_dict(),
                "evidence": self.evidence.to_dict(),
                "queueing_share": self.queueing_share,
                "tail": self.tail,
                "incident": self._incident(),
                "queue_source": self.sources,
                "wasted_seconds": self.wasted,
                "audit": self.audit.to_dict(),
                "verdict": {**self.verdict.to_dict(), "culprit": self.culprit and self.culprit.to_dict()},
                "notes": self.notes,
                "by": self.by,
                "others": self.others,
                **({} if self.wire is None else {"wire": self.wire.to_split()}),
            }
        )

    def _incident(self) -> dict[str, Any] | None:
        """Return the ``incident`` object of the JSON output."""
        incident = self.audit.incident
        if incident is None or self.incident is None:
            return None
        return {
            "from": iso(incident.begin),
            "to": iso(incident.end),
            "seconds": (incident.end - incident.begin).total_seconds(),
            "share_of_waiting": incident.share_of_waiting,
            "usual_wait": incident.usual_wait,
            "arrivals": incident.arrivals,
            "services": incident.services,
            **self.incident,
        }

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write ``rows`` to a Parquet file, whole or not at all.

        Raises:
            SojournError: the file cannot be written.
        """
        with written_whole(path, pl.exceptions.PolarsError) as partial:
            self.rows.sink_parquet(partial, compression="zstd")
