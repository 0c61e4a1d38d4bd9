"""The app's own access log: one row per line, with the columns of a span."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from sojourn.model.frame import INSTANT, Records

APP_LOG_SCHEMA: dict[str, pl.DataType] = {
    "request_id": pl.String(),
    "span_start": INSTANT,  # when the work began, by the app's clock; null where the log has no such instant
    "span_end": INSTANT,
    "span_seconds": pl.Float64(),  # the duration, s
    "span_service_time": pl.Float64(),  # the same
    "span_worker": pl.String(),
    "span_route": pl.String(),
    "begun": INSTANT,  # when the work began, as far as the log counts time
    "begun_step": pl.Float64(),  # s, the step in which ``begun`` counts
    "until_end": pl.Boolean(),  # whether the duration runs to the end of the response
}


@dataclass
class AppLog:
    """The lines of app logs, of one format or several.

    Attributes:
        rows: the columns of ``APP_LOG_SCHEMA``.
        records: counts of lines, and refused ones.
        titles: file -> its format, and what its durations contain, in sentences.
        step: the coarsest step in which the durations of a file count, s.
    """

    rows: pl.DataFrame
    records: Records = field(default_factory=Records)
    titles: dict[str, str] = field(default_factory=dict)
    step: float = 1e-6
