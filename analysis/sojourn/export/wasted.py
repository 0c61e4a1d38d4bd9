"""Worker time spent on abandoned requests: their spans, which usually arrive after their log records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from sojourn.components.expressions import with_spans
from sojourn.export.metrics import GROUP
from sojourn.export.tally import ABANDONED
from sojourn.model.frame import INSTANT
from sojourn.readers.spans import SPANS_SCHEMA, spans_of_lines
from sojourn.sources.live.follow import Follower

PATIENCE = 600.0  # s for which a span of an abandoned request is awaited
SPAN_AGE = 30.0  # s for which spans are held that arrived before their log record
MOST = 200_000  # rows of each
JOINED = ("request_id", "trace_id", "span_id")
_SCHEMA = {"time": INSTANT, **dict.fromkeys((*JOINED, *GROUP), pl.String())}


class WastedWork:
    """Matches abandoned requests with their spans, from files of OTLP/JSON lines."""

    def __init__(self, followers: Sequence[Follower]) -> None:
        self._followers = list(followers)
        self._abandoned = pl.DataFrame(schema=_SCHEMA)
        self._spans = pl.DataFrame(schema=SPANS_SCHEMA)

    def close(self) -> None:
        """Close the files."""
        for follower in self._followers:
            follower.close()

    def add(self, rows: pl.DataFrame) -> None:
        """Await the spans of abandoned requests among split rows with label values (``Labels.of``)."""
        abandoned = rows.filter(ABANDONED).select(*_SCHEMA)
        self._abandoned = pl.concat([self._abandoned, abandoned]).tail(MOST)

    def matched(self, now: datetime) -> pl.DataFrame:
        """Read new spans; return the rows of abandoned requests that have one, with ``span_seconds``, each once."""
        lines = b"".join(follower.lines() for follower in self._followers)
        self._spans = pl.concat([self._spans, spans_of_lines(lines)])
        rows = with_spans(self._abandoned.lazy(), self._spans).collect()
        has_span = pl.col("span_seconds").is_not_null()
        overdue = pl.lit(now - timedelta(seconds=PATIENCE), INSTANT)
        self._abandoned = rows.filter(~has_span & (pl.col("time") > overdue)).select(*_SCHEMA)
        oldest = pl.lit(now - timedelta(seconds=SPAN_AGE), INSTANT)
        self._spans = self._spans.filter(pl.col("span_end") > oldest).tail(MOST)
        return rows.filter(has_span)
