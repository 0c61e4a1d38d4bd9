"""The canonical frame: the output of every reader and the input of every analysis.

One row is one request as nginx logged it. Instants are UTC datetimes with microseconds, durations are seconds.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from sojourn.model.column_errors import no_column, no_columns
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.model.instants import Instant, instant_of, limit_of
from sojourn.model.set_apart import SetApart

INSTANT = pl.Datetime("us", "UTC")
EXTRA_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
# What a log's times are seen from: a proxy that times its backend, a server that times whole requests, an app server.
PROXY, WHOLE, APP = "proxy", "whole", "app"
TABLE = "table"  # the format of tables, in ``LogFacts``
# Values of ``dropped`` that leave a time of the backend unknown.
LOST_TIMES = ("invalid_upstream_time", "upstream_lists_differ")
HALF_MICROSECOND = 5e-7  # s: durations are whole microseconds, and equal when they are nearer than this

SCHEMA: dict[str, pl.DataType] = {
    "time": INSTANT,  # end of the request, when the record was written
    "start": INSTANT,  # time - request_time: when nginx began to read the request
    "status": pl.Int16(),
    "request_time": pl.Float64(),  # s, response time as nginx saw it
    "request_start": INSTANT,  # the stamp the app was sent
    "proxy_start": INSTANT,  # nginx's own clock when it built the upstream request
    "proxy_queue": pl.Float64(),  # s, in the proxy's own queue, for a place at the backend; null: it has none
    "upstream": pl.String(),  # address of the backend: the last attempt, or the answer that led to X-Accel-Redirect
    "attempts": pl.Int16(),  # upstream attempts, redirects included; 0: never proxied
    "retries": pl.Float64(),  # s, all attempts before the backend's
    "redirects": pl.Float64(),  # s, those of them whose answer an internal redirect replaced: they did not fail
    "redirected": pl.Float64(),  # s, attempts after the backend's: where its internal redirect led to
    "connect": pl.Float64(),  # s, the backend's attempt; null: no connection
    "header": pl.Float64(),  # s, the backend's attempt, until the response headers; null: no answer
    "response": pl.Float64(),  # s, the backend's attempt, until the end of the answer
    "app_queueing_delay": pl.Float64(),  # s, as the app measured it: its clock less the stamp, signed
    "app_service_time": pl.Float64(),  # s, as the app measured it
    "app_garbled": pl.Boolean(),  # the app answered something that is not a duration
    "route": pl.String(),
    "service": pl.String(),
    "proxy": pl.String(),
    "worker": pl.String(),
    "stamp": pl.String(),  # own, inbound or refused:<reason>
    "upstream_cache_status": pl.String(),  # nginx's word for what its cache did: HIT, MISS, EXPIRED and others
    "limit_req_status": pl.String(),  # its word for what limit_req did: PASSED, DELAYED, REJECTED and others
    "vantage": pl.String(),  # proxy, whole or app; null: proxy
    "time_step": pl.Float64(),  # s, the step in which ``time`` counts
    "dropped": pl.String(),  # why values of the line are not used, as from ``sojourn.readers.record``; null: all are
    "bytes_sent": pl.Int64(),  # to the client
    "request_length": pl.Int64(),  # bytes from the client
    "request_id": pl.String(),
    "trace_id": pl.String(),
    "span_id": pl.String(),
    "method": pl.String(),
    "uri": pl.String(),
    "protocol": pl.String(),
    "host": pl.String(),
    "remote_addr": pl.String(),
    "connection": pl.Int64(),
    "connection_requests": pl.Int64(),
    "upstream_addr": pl.String(),  # the lists as nginx wrote them
    "upstream_status": pl.String(),
    "upstream_connect_time": pl.String(),
    "upstream_header_time": pl.String(),
    "upstream_response_time": pl.String(),
}
COLUMNS = tuple(SCHEMA)
NEEDED = ("time", "status", "request_time")  # without these no row is a request
# What the split itself needs; the rest is read only when it is requested.
SPLIT_COLUMNS = COLUMNS[: COLUMNS.index("request_id")]


def is_extra(column: str) -> bool:
    """Return whether a column can be a key that a user added to the log format (such as a tenant): read as text."""
    return column not in SCHEMA and EXTRA_KEY.fullmatch(column) is not None


def dtype_of(column: str) -> pl.DataType:
    """Return the type of a canonical column; text for other keys of the log."""
    return SCHEMA.get(column, pl.String())


@dataclass(frozen=True)
class Selection:
    """A selection of requests: those that arrived in [since, until) and have the values of ``where``.

    ``since`` and ``until`` are UTC or None; ``where``: column -> value, of columns there are.
    """

    since: datetime | None = None
    until: datetime | None = None
    where: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, since: Instant, until: Instant, where: Mapping[str, object] | None) -> Selection:
        """Build a selection from instants as ``sojourn.model.instants`` reads them, also those of ``where``.

        Raises:
            SojournError: ``where`` names no column, or an instant is none or has no zone.
        """
        values = dict(where or {})
        for column, value in values.items():
            if column not in SCHEMA:
                raise SojournError(no_column(column, COLUMNS))
            if SCHEMA[column] == INSTANT:
                values[column] = instant_of(value, column)  # type: ignore[arg-type]
        return cls(limit_of(since, "since"), limit_of(until, "until"), values)

    @property
    def narrows(self) -> bool:
        """Whether it can exclude a request."""
        return self.since is not None or self.until is not None or bool(self.where)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it uses."""
        bounded = self.since is not None or self.until is not None
        return tuple(dict.fromkeys((*(("start",) if bounded else ()), *self.where)))

    def of_rows(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the selected rows."""
        if self.since is not None:
            rows = rows.filter(pl.col("start") >= pl.lit(self.since, INSTANT))
        if self.until is not None:
            rows = rows.filter(pl.col("start") < pl.lit(self.until, INSTANT))
        for column, value in self.where.items():
            if SCHEMA[column] == pl.Float64() and isinstance(value, int | float):
                rows = rows.filter((pl.col(column) - value).abs() < HALF_MICROSECOND)
            else:
                rows = rows.filter(pl.col(column) == value)
        return rows


@dataclass(frozen=True)
class LogFacts:
    """The format of a log that is not Sojourn's own.

    Attributes:
        source: the log.
        format: its name, or the text that defines it.
        title: the format, for people.
        certainty: sure, likely or assumed.
        vantage: what its times are seen from: ``PROXY``, ``WHOLE`` or ``APP``.
        step: the step in which its instants count, s.
        mapping: (variable, what it is read as) of its times.
        lacks: fields without which no line can be read.
        notes: what else there is to know about it, in sentences.
        warnings: what contradicts the format in the log, in sentences.
        alternative: what else its times may be, as a clause on them: "1,000 times as much if the last number is in ms";
            empty without a doubt.
    """

    source: str
    format: str
    title: str
    certainty: str
    vantage: str
    step: float
    mapping: tuple[tuple[str, str], ...]
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    alternative: str = ""

    @property
    def sentence(self) -> str:
        """The name of the format, and how certain it is."""
        return f"{self.source} is {self.title}" + ("." if self.certainty == "sure" else f" ({self.certainty}).")

    @property
    def reading(self) -> str:
        """What its variables are read as."""
        read = ", ".join(f"{variable} as {meaning}" for variable, meaning in self.mapping)
        return " ".join((f"Read: {read}.", *self.notes))

    def to_dict(self) -> dict[str, object]:
        """Return the object of the JSON output."""
        return {
            "source": self.source, "format": self.format, "title": self.title, "certainty": self.certainty,
            "vantage": self.vantage, "step": self.step,
            "mapping": [{"variable": variable, "meaning": meaning} for variable, meaning in self.mapping],
            "notes": list(self.notes), "warnings": list(self.warnings), "alternative": self.alternative,
        }  # fmt: skip


MOST_REJECTS = 1_000
RAW_LENGTH = 2_000  # characters of a refused line


@dataclass
class Records:
    """Counts of the lines read, and the refused lines.

    Attributes:
        read: lines read (rows, for Parquet; requests and dead letters, for a store).
        reasons: refused lines by reason.
        dropped: accepted lines of which a value is not used, by reason.
        rejects: the refused lines themselves, as far as they were kept: source, line, reason, raw; from a store,
            ``position`` (the byte at which the line begins) instead of ``line``.
        formats: of the logs that are not Sojourn's own.
        set_apart: accepted records that are in no figure, because their instants are far from all others; None: none.
        warnings: what limits every answer of a store that was read, in sentences.
    """

    read: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    rejects: list[dict[str, object]] = field(default_factory=list)
    formats: list[LogFacts] = field(default_factory=list)
    set_apart: SetApart | None = None
    warnings: list[str] = field(default_factory=list)

    def keep(self, rejection: dict[str, object]) -> None:
        """Keep a refused line if there is room: ``MOST_REJECTS`` of them, ``RAW_LENGTH`` characters of each."""
        if len(self.rejects) < MOST_REJECTS:
            self.rejects.append({**rejection, "raw": str(rejection["raw"])[:RAW_LENGTH]})

    @property
    def rejected(self) -> int:
        """Number of refused lines."""
        return sum(self.reasons.values())

    @property
    def apart(self) -> tuple[str, ...]:
        """The sentence on the records that were set apart; empty if none were."""
        return () if self.set_apart is None else (self.set_apart.sentence,)

    @property
    def accepted(self) -> int:
        """Number of accepted records."""
        return self.read - self.rejected

    def count(self, lines: int, reasons: Mapping[str, int], dropped: pl.Series | None = None) -> None:
        """Add lines, those refused by reason, and the column ``dropped`` of the accepted ones."""
        self.read += lines
        _add(self.reasons, reasons)
        if dropped is not None and dropped.null_count() < len(dropped):
            _add(self.dropped, by_reason(dropped.drop_nulls().value_counts().iter_rows()))

    def add(self, other: Records) -> None:
        """Add the counts of another source."""
        self.read += other.read
        _add(self.reasons, other.reasons)
        _add(self.dropped, other.dropped)
        self.rejects.extend(other.rejects)
        self.formats.extend(other.formats)
        self.warnings.extend(other.warnings)

    def to_dict(self) -> dict[str, object]:
        """Return the ``records`` object of the JSON output."""
        reasons = dict(sorted(self.reasons.items()))
        dropped = dict(sorted(self.dropped.items()))
        return {
            "read": self.read, "accepted": self.accepted, "rejected": self.rejected, "reasons": reasons,
            "dropped": dropped, "set_apart": self.set_apart and self.set_apart.to_dict(),
        }  # fmt: skip


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for reason, count in more.items():
        counts[reason] = counts.get(reason, 0) + count


def by_reason(causes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return lines by reason, from (reasons joined by ", ", lines)."""
    counts: dict[str, int] = {}
    for reasons, count in causes:
        _add(counts, dict.fromkeys(reasons.split(", "), count))
    return counts


def apart_of(logs: Mapping[str, Records]) -> tuple[str, ...]:
    """Return the sentences on the records that were set apart, of logs by name; of several, each with its name."""
    return tuple(
        f"{printable(name, 100)}: {text}" if len(logs) > 1 else text
        for name, records in logs.items()
        for text in records.apart
    )


@dataclass
class AppLog:
    """The lines of app logs, of one format or several.

    Attributes:
        rows: the columns of ``sojourn.readers.app_log.APP_LOG_SCHEMA``.
        records: counts of lines, and refused ones.
        titles: file -> its format, and what its durations contain, in sentences.
        step: the coarsest step in which the durations of a file count, s.
    """

    rows: pl.DataFrame
    records: Records = field(default_factory=Records)
    titles: dict[str, str] = field(default_factory=dict)
    step: float = 1e-6


@dataclass
class Requests:
    """Requests with their source.

    Attributes:
        rows: canonical frame, lazily: in memory when small, otherwise Parquet files in a temporary folder.
        records: what became of the lines.
        spans: one row per span of the app, or None (see ``sojourn.readers.spans``).
        app_log: the app's own access log, or None.
        names: what was read, for titles.
        spool: folder of the rows if they are many; removed with its last reference.
        stored: whether ``rows`` are all rows of that folder, none selected, removed or read from elsewhere.
        duplicates: rows that were delivered more than once and are in ``rows`` once; their copies count as read.
    """

    rows: pl.LazyFrame
    records: Records
    spans: pl.DataFrame | None = None
    app_log: AppLog | None = None
    names: tuple[str, ...] = ()
    spool: tempfile.TemporaryDirectory[str] | None = None
    stored: bool = False
    duplicates: int = 0


def checked(rows: pl.LazyFrame, name: str, extra: Sequence[str] = ()) -> pl.LazyFrame:
    """Return ``rows`` with canonical columns in canonical types, and missing ones as nulls.

    ``extra``: columns of the user's own to keep, as text.

    Raises:
        SojournError: a column the identity cannot do without is missing, or a column has another kind of type.
    """
    schema: Mapping[str, pl.DataType] = rows.collect_schema()
    if not set(schema) >= set(NEEDED):
        raise SojournError(f"{name}: not a frame of requests: {no_columns(NEEDED, schema)}")
    exprs = []
    for column, dtype in {**SCHEMA, **dict.fromkeys(extra, pl.String())}.items():
        if column not in schema:
            exprs.append(pl.lit(None, dtype=dtype).alias(column))
        elif schema[column] == dtype:
            exprs.append(pl.col(column))
        elif schema[column].is_numeric() == dtype.is_numeric() and schema[column].is_temporal() == dtype.is_temporal():
            exprs.append(pl.col(column).cast(dtype))
        else:
            raise SojournError(f"{name}: column {column!r} is {schema[column]}, not {dtype}")
    return rows.select(exprs)
