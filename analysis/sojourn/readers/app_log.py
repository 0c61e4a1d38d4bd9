"""The app's own log: JSON lines with the work of each request, written when it is done, also after the client has gone.

    {"request_id": "…", "service_time": 1.25, "start": 1767225600.123, "route": "/export", "worker": "17"}

``service_time`` (s) is the time the worker was held; ``start`` (unix s, the app's clock), ``route`` and ``worker`` are
optional. The rows have the columns of spans.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.frame import Records
from sojourn.readers.blocks import parsed_blocks
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.spans import SPANS_SCHEMA

REASONS = {
    "empty_line": "the line is empty",
    "invalid_json": "not JSON",
    "not_an_object": "JSON, but not an object",
    "missing_request_id": "no request_id",
    "missing_service_time": "no service_time",
    "invalid_service_time": "service_time is not a number of seconds, or negative, or absurd",
    "invalid_start": "start is not unix seconds",
}
_STRUCT = '{"request_id": "VARCHAR", "service_time": "JSON", "start": "JSON", "route": "VARCHAR", "worker": "VARCHAR"}'
# A text has the number format of the log record; a JSON number may have an exponent (9e-05).
_MACROS = (
    "CREATE OR REPLACE TEMP MACRO text_of(j) AS (j ->> '$')",
    "CREATE OR REPLACE TEMP MACRO json_micros(j) AS (CASE WHEN starts_with(j, '\"') THEN micros(text_of(j)) "
    "ELSE TRY_CAST(round(TRY_CAST(text_of(j) AS DOUBLE) * 1e6) AS BIGINT) END)",
)
_QUERY = f"""
    WITH parsed AS (SELECT line, number, TRY(json_transform(object_in(line), '{_STRUCT}')) AS r FROM block),
         numbered AS (SELECT *, short(json_micros(r.service_time)) AS held, json_micros(r.start) AS begun FROM parsed)
    SELECT r.request_id AS request_id, begun AS span_start, TRY(begun + held) AS span_end, held / 1e6 AS span_seconds,
           CASE WHEN NOT blank(r.worker) THEN r.worker END AS span_worker,
           CASE WHEN NOT blank(r.route) THEN r.route END AS span_route,
           number,
           CASE WHEN trim(line, ' \t\r\n') = '' THEN 'empty_line'
                WHEN NOT json_valid(line) THEN 'invalid_json'
                WHEN NOT starts_with(ltrim(line, ' \t'), '{{') THEN 'not_an_object'
                WHEN blank(r.request_id) THEN 'missing_request_id'
                WHEN blank(text_of(r.service_time)) THEN 'missing_service_time'
                WHEN coalesce(held < 0, true) THEN 'invalid_service_time'
                WHEN NOT coalesce(plausible(begun), blank(text_of(r.start))) THEN 'invalid_start'
           END AS reason,
           rtrim(line, '\r\n') AS raw
    FROM numbered"""  # noqa: S608 - nothing in it comes from outside


def read_app_log(paths: Sequence[str | os.PathLike[str]]) -> tuple[pl.DataFrame, Records]:
    """Read the app's own log: rows of ``SPANS_SCHEMA``, and counts of lines.

    Args:
        paths: files, plain, gzip or zstd, or globs.

    Raises:
        SojournError: a file cannot be opened, or a path is a store. Invalid lines never raise: they are counted by
            reason.
    """
    records = Records()
    frames = [pl.DataFrame(schema=SPANS_SCHEMA)]
    with closing(opened_inputs([os.fspath(path) for path in paths])) as inputs:
        if others := (*inputs.stores, *inputs.parquet):
            raise SojournError(f"{others[0]}: the app's log must be a file of JSON lines")
        for block in parsed_blocks(inputs.logs, lambda _: _QUERY, _MACROS):
            records.read += block.lines
            for reject in block.rejects:
                records.reasons[reject.reason] = records.reasons.get(reject.reason, 0) + 1
                records.keep({"source": block.source, "line": reject.line, "reason": reject.reason, "raw": reject.raw})
            if block.accepted is not None:
                frames.append(_spans(block.accepted))
    return pl.concat(frames), records


def _spans(rows: pl.DataFrame) -> pl.DataFrame:
    rows = rows.with_columns(span_service_time="span_seconds")
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in SPANS_SCHEMA.items()
    )
