"""Metrics of the measurement itself: the logs that are read, and the clocks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import polars as pl

from sojourn.export.labels import Labels
from sojourn.export.tally import Sample
from sojourn.model.formatting import printable
from sojourn.sources.live.follow import Follower
from sojourn.sources.live.reader import LiveReader


class LogReports:
    """Reports on standard error, once each: a log cannot be opened, what of it is lost, and that it is open again."""

    def __init__(self) -> None:
        self._refusals: dict[str, str] = {}
        self._lost: dict[str, int] = {}

    def report(self, followers: Sequence[Follower]) -> None:
        """Report what has changed since the last call."""
        for follower in followers:
            name, refusal = follower.name, follower.refusal
            if refusal != self._refusals.get(name, ""):
                state = (
                    f"cannot be opened ({refusal}): its requests are not counted until it can" if refusal else "is open"
                )
                sys.stderr.write(f"log: {printable(name, 500)}: {state}\n")
                self._refusals[name] = refusal
            if (lost := follower.lost - self._lost.get(name, 0)) > 0:
                sys.stderr.write(
                    f"log: {printable(name, 500)}: {lost} bytes of a file that could not be opened are lost\n"
                )
                self._lost[name] = follower.lost


def log_samples(reader: LiveReader) -> Iterator[Sample]:
    """Yield what is known of the logs and their lines."""
    records = reader.recent.records
    for reason, count in sorted(records.reasons.items()):
        yield Sample("sojourn_log_refused_lines_total", (reason,), count)
    yield Sample("sojourn_log_repeated_records_total", (), reader.recent.duplicates)
    yield Sample("sojourn_log_records_ahead_total", (), reader.ahead.total)
    yield Sample("sojourn_export_window_requests", (), len(reader.recent))
    for name, lines in reader.lines.items():
        yield Sample("sojourn_log_lines_total", (name,), lines)
    for follower in reader.followers:
        yield Sample("sojourn_log_rotations_total", (follower.name,), follower.rotations)
        yield Sample("sojourn_log_unread_bytes", (follower.name,), follower.behind)
        yield Sample("sojourn_log_missing", (follower.name,), float(follower.missing))
        yield Sample("sojourn_log_unopened", (follower.name,), float(bool(follower.refusal)))
        yield Sample("sojourn_log_lost_bytes_total", (follower.name,), follower.lost)
    if reader.recent.last is not None:
        yield Sample("sojourn_log_last_record_timestamp_seconds", (), reader.recent.last.timestamp())
    if reader.clock.lag is not None:
        yield Sample("sojourn_log_lag_seconds", (), reader.clock.lag)


def clock_samples(clock: pl.DataFrame, rows: pl.DataFrame, labels: Labels) -> Iterator[Sample]:
    """Yield offset and uncertainty of each backend, for the services that it serves; of several, the least certain."""
    pairs = rows.filter("proxied").select("service", "upstream", "proxy").unique()
    estimates = pairs.join(clock, on=["proxy", "upstream"], nulls_equal=True).drop_nulls(["offset", "uncertainty"])
    worst: dict[tuple[str, str], tuple[float, float]] = {}
    for row in estimates.sort("uncertainty").iter_rows(named=True):
        values = (labels.value("service", row["service"]), labels.value("upstream", row["upstream"]))
        worst[values] = (row["offset"], row["uncertainty"])
    for values, (offset, uncertainty) in sorted(worst.items()):
        yield Sample("sojourn_clock_offset_seconds", values, offset)
        yield Sample("sojourn_clock_offset_uncertainty_seconds", values, uncertainty)
