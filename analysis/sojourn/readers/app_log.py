"""The app's own log: a line with the work of each request, written when it is done, also after the client has gone.

    {"request_id": "…", "service_time": 1.25, "start": 1767225600.123, "route": "/export", "worker": "17"}

``service_time`` (s) is the time the worker was held; ``start`` (unix s, the app's clock), ``route`` and ``worker`` are
optional. Access logs of app servers are read as well (``sojourn.readers.formats.app_logs``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.formatting import milliseconds, tally
from sojourn.model.frame import INSTANT, AppLog, Records
from sojourn.readers.blocks import ParsedBlock, Parsers, blocks_ahead
from sojourn.readers.formats.app_logs import OPTION, AppLogFormat, Until, detected_app_log
from sojourn.readers.formats.fields import CLOCKS, UNITS, field_sql
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.record_sql import extract, fields_in
from sojourn.readers.inputs import LogInput, Source, opened_inputs
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.unwrapping import bare_blocks

REASONS = {
    "empty_line": "the line is empty",
    "other_format": "the line is not that of a request",
    "invalid_json": "not JSON",
    "not_an_object": "JSON, but not an object",
    "missing_request_id": "no request_id",
    "missing_service_time": "no service_time",
    "invalid_service_time": "service_time is not a number of seconds, or negative, or absurd",
    "invalid_start": "start is not unix seconds",
}
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
FINE, COARSEST = 0.001, 0.05  # s
STEPS_US = (1_000_000, 100_000, 10_000, 1_000, 100, 10)
ENOUGH = 20  # durations that show the step in which they count
_STRUCT = '{"request_id": "VARCHAR", "service_time": "JSON", "start": "JSON", "route": "VARCHAR", "worker": "VARCHAR"}'
# A text has the number format of the log record; a JSON number may have an exponent (9e-05).
_MACROS = (
    "CREATE OR REPLACE TEMP MACRO text_of(j) AS (j ->> '$')",
    "CREATE OR REPLACE TEMP MACRO json_micros(j) AS (CASE WHEN starts_with(j, '\"') THEN micros(text_of(j)) "
    "ELSE TRY_CAST(round(TRY_CAST(text_of(j) AS DOUBLE) * 1e6) AS BIGINT) END)",
)
_OWN_QUERY = f"""
    WITH parsed AS (SELECT line, number, TRY(json_transform(object_in(line), '{_STRUCT}')) AS r FROM block),
         numbered AS (SELECT *, short(json_micros(r.service_time)) AS held, json_micros(r.start) AS begun FROM parsed)
    SELECT r.request_id AS request_id, begun AS span_start, TRY(begun + held) AS span_end, held / 1e6 AS span_seconds,
           CASE WHEN NOT blank(r.worker) THEN r.worker END AS span_worker,
           CASE WHEN NOT blank(r.route) THEN r.route END AS span_route,
           begun, number,
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


@dataclass(frozen=True)
class AppLogFile(os.PathLike[str]):
    """An app log whose format the user gave."""

    path: str
    form: AppLogFormat

    def __fspath__(self) -> str:
        return self.path


def read_app_log(paths: Sequence[Source]) -> AppLog:
    """Read the app's own log.

    Args:
        paths: files, plain, gzip or zstd, or globs, whose format is recognised by the lines; or ``AppLogFile``.

    Raises:
        SojournError: a file cannot be opened, a path is a store, or the format of a file is not recognised. Invalid
            lines never raise: they are counted by reason.
    """
    result = AppLog(pl.DataFrame(schema=APP_LOG_SCHEMA))
    forms: dict[str, AppLogFormat] = {}
    frames = [result.rows]
    with contextlib.ExitStack() as stack:
        parsers = stack.enter_context(Parsers(_query, _MACROS))
        opened = [
            (stack.enter_context(closing(opened_inputs([os.fspath(path)]))), _form_of(path))
            for path in dict.fromkeys(paths)
        ]
        for inputs, form in opened:
            if others := (*inputs.stores, *inputs.parquet):
                raise SojournError(f"{others[0]}: the app's log must be a file of lines")
            for log in inputs.logs:
                rows = list(_rows(log, parsers, form, result, forms))
                frames += rows
                result.step = max(result.step, _step_of(rows, forms.get(log.name)))
    result.rows = pl.concat(frames)
    return result


def checked_app_log(log: AppLog) -> AppLog:
    """Return an app log that has a request.

    Raises:
        SojournError: no line could be used, or its durations are too coarse.
    """
    if log.step > COARSEST:
        raise SojournError(
            f"{', '.join(log.titles)}: its durations count in steps of {milliseconds(log.step)} ms, too coarse for a "
            "queueing delay: log milliseconds or finer"
        )
    if len(log.rows):
        return log
    names = ", ".join(log.titles) or "the app's log"
    reasons = f"{log.records.read:,} read ({tally(log.records.reasons)})" if log.records.read else "it is empty"
    raise SojournError(f"{names}: no line could be used as that of a request: {reasons}; {OPTION} sets its format")


def _form_of(path: Source) -> AppLogFormat | None:
    return path.form if isinstance(path, AppLogFile) else None


def _rows(
    log: LogInput, parsers: Parsers, form: AppLogFormat | None, result: AppLog, forms: dict[str, AppLogFormat]
) -> Iterator[pl.DataFrame]:
    """Yield the rows of each block of a log; add its counts to ``result``, and its format to both."""
    for block, _ in blocks_ahead(log, bare_blocks(log, blocks_of_lines(log))):
        form = form or detected_app_log(block.lines.to_list(), log.name)
        forms[log.name] = form
        result.titles[log.name] = " ".join((f"{form.title}.", *form.notes))
        parsed = parsers.of(form.form).parsed(log.name, block)
        _count(result.records, parsed)
        if parsed.accepted is not None:
            yield _typed(parsed.accepted, form)


def _count(records: Records, block: ParsedBlock) -> None:
    records.read += block.lines
    for reject in block.rejects:
        records.reasons[reject.reason] = records.reasons.get(reject.reason, 0) + 1
        records.keep({"source": block.source, "line": reject.line, "reason": reject.reason, "raw": reject.raw})


def _query(form: LineFormat | None) -> str:
    """Return the SQL for the lines of a format."""
    if form is None:
        return _OWN_QUERY
    duration = form.by_field["service_time"]
    instants = {name: CLOCKS[form.by_field[name].unit][0].format(field_sql(name)) for name in ("start", "end")
                if form.has(name)}  # fmt: skip
    begun = instants.get("start") or (f"TRY({instants['end']} - held)" if "end" in instants else "NULL::BIGINT")
    worker = f"trim({field_sql('worker')}, '<>')" if form.has("worker") else "NULL::VARCHAR"
    if form.has("thread"):  # Jetty's %I is a number of bytes
        thread = field_sql("thread")
        worker = f"CASE WHEN NOT regexp_full_match({thread}, '-|\\d+') THEN {thread} END"
    held = f"short(scaled({field_sql('service_time')}, {UNITS[duration.unit]}))"
    route = field_sql("route") if form.has("route") else "NULL::VARCHAR"
    identifier, took = field_sql("request_id"), field_sql("service_time")
    fields = extract(form, fields_in(form, f"{held} {begun} {worker} {route} {identifier} {took}"))
    invalid = "json_valid(line)" if form.json else "true"
    return f"""
        WITH parsed AS (SELECT line, number, {fields} AS f FROM block),
             numbered AS (SELECT *, {held} AS held FROM parsed)
        SELECT {identifier} AS request_id, NULL::BIGINT AS span_start, NULL::BIGINT AS span_end,
               held / 1e6 AS span_seconds, CASE WHEN NOT blank({worker}) THEN {worker} END AS span_worker,
               CASE WHEN NOT blank({route}) THEN {route} END AS span_route,
               {begun} AS begun, number,
               CASE WHEN trim(line, ' \t\r\n') = '' THEN 'empty_line'
                    WHEN NOT {invalid} THEN 'invalid_json'
                    WHEN NOT ({_of_request()}) THEN 'other_format'
                    WHEN blank({identifier}) THEN 'missing_request_id'
                    WHEN blank({took}) THEN 'missing_service_time'
                    WHEN coalesce(held < 0, true) THEN 'invalid_service_time'
               END AS reason,
               rtrim(line, '\r\n') AS raw
        FROM numbered"""  # noqa: S608 - names of fields are ours


def _of_request() -> str:
    """Return SQL for whether a line is that of a request: an app writes its other messages to the same log."""
    return f"coalesce({field_sql('service_time')} != '', false)"


def _typed(rows: pl.DataFrame, form: AppLogFormat) -> pl.DataFrame:
    step = FINE if form.form is None else form.form.step
    rows = rows.with_columns(
        span_service_time="span_seconds", begun_step=pl.lit(step), until_end=pl.lit(form.until is Until.END)
    )
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in APP_LOG_SCHEMA.items()
    )


def _step_of(frames: Sequence[pl.DataFrame], form: AppLogFormat | None) -> float:
    """Return the step in which durations count, s: their unit, or a finer one if they are no multiples of it."""
    unit = 1e-6 if form is None or form.form is None else UNITS[form.form.by_field["service_time"].unit] / 1e6
    durations = [(rows["span_seconds"] * 1e6).round().cast(pl.Int64) for rows in frames]
    micros = pl.concat(durations) if durations else pl.Series([], dtype=pl.Int64)
    multiples = next((step for step in STEPS_US if (micros % step == 0).all()), 1) / 1e6
    return min(unit, multiples if len(micros) >= ENOUGH else FINE)
