"""The section of ``contrast``."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

from sojourn.analyses.contrast.analysis import ContrastResult
from sojourn.analyses.contrast.charts import shares_chart
from sojourn.model.formatting import counted, duration, formatted, milliseconds, percent, printable, three_digits
from sojourn.model.one_worker import doubt, unnamed
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table
from sojourn.timeline.classes import NO_VALUE

TITLE = "What distinguishes the selected requests"
DOUBTFUL = 0.1  # share of the charged seconds without a known holder
ROWS = 10
MANY_TIMES = 1_000.0  # a larger lift is of a rest with hardly any such request
TIME_NAMES = {"response_time": "response time", "queueing_delay": "queueing delay", "service_time": "service time"}


@lay_out.register(ContrastResult)
def contrast_section(result: ContrastResult) -> Section:
    """Return the section of ``contrast``: times of both sides, differences and culprits."""
    return Section(
        key="contrast",
        title=TITLE,
        sentence=sentence(result),
        measures=(
            f"Selected are the requests that {result.selection.clause}. The shares of each value are compared with "
            "the rest, and the seconds for which workers were held while selected requests waited with all requests. "
            "Listed are the values with a larger share, with intervals that hold at 95 % for all compared values "
            "together."
        ),
        failures=tuple(_failures(result)),
        tables=tuple(table for table in _tables(result) if table.rows),
        pictures=_pictures(result),
        notes=tuple(result.notes),
    )


def sentence(result: ContrastResult) -> str:
    """Return the largest difference and the largest culprit, in two sentences."""
    return f"{_difference(result)} {_culprit(result)}"


def _difference(result: ContrastResult) -> str:
    requests = counted(result.selected.requests, "selected request")
    if result.differences.is_empty():
        values, columns = result.ranking.values, len(result.ranking.columns)
        if not values:
            return f"{requests[:1].upper()}{requests[1:]}: there is no column whose values can be compared."
        return (
            f"Nothing distinguishes {requests} from the rest: no value of {counted(columns, 'column')} "
            f"({counted(values, 'value')}) is significantly more frequent."
        )
    top = result.differences.row(0, named=True)
    return f"Of {requests} {percent(top['selected'])} are of {_name(top)} (rest: {percent(top['rest'])})."


def _culprit(result: ContrastResult) -> str:
    if result.culprits_unknown or result.waits is None:
        return result.culprits_unknown
    waited = f"While they waited, workers were held for {duration(result.waits.blamed)}"
    if result.culprits.is_empty():
        return f"{waited}, by no value significantly more than by others."
    top = result.culprits.row(0, named=True)
    return f"{waited}, {percent(top['share'])} of it by {_name(top)} ({percent(top['of_requests'])} of the requests)."


def _name(row: dict[str, Any]) -> str:
    value = NO_VALUE if row["value"] is None else printable(row["value"], 60)
    return f"{printable(row['column'], 60)} {value}"


def _failures(result: ContrastResult) -> list[str]:
    waits = result.waits
    if waits is None or result.culprits_unknown:
        return []
    failures = doubt(waits.workers, "contrast")
    if waits.unknown > DOUBTFUL * max(waits.blamed, 0.0):
        failures.append(
            f"{percent(waits.unknown / waits.blamed)} of the seconds are charged to requests without a service time, "
            "and are of no culprit. Add the app's spans (--spans)."
        )
    if waits.queue_source.bounds:
        failures.append(
            f"The queue of {printable(waits.queue_source.bounds[0], 60)} is inferred as a lower bound: requests waited "
            "longer, and workers were held for longer than is shown."
        )
    return [*failures, *waits.queue_source.moved, *unnamed(waits.workers)]


def _tables(result: ContrastResult) -> list[Table]:
    parts = (("selected", result.selected), ("rest", result.rest))
    figures = tuple(next(iter(result.selected.times.values())))
    tables = [
        Table(
            ("ms", *figures),
            tuple(
                (f"{TIME_NAMES[time]}, {name}", *(milliseconds(part.times[time][figure]) for figure in figures))
                for time in result.selected.times
                for name, part in parts
                if part.times[time]["mean"] is not None
            ),
            title=f"{counted(result.selected.requests, 'selected request')}, {result.rest.requests:,} others",
        ),
        Table(
            ("column", "value", "selected", "rest", "difference", "95 %", "lift", "requests"),
            tuple(
                (*_cells(row), percent(row["selected"]), percent(row["rest"]), *_statistics(row))
                for row in result.differences.head(ROWS).iter_rows(named=True)
            ),
            title="Differences: values that are more frequent among the selected requests",
            text_columns=2,
            more=max(len(result.differences) - ROWS, 0),
        ),
        Table(
            ("column", "value", "seconds", "held", "requests", "difference", "95 %", "lift"),
            tuple(
                (
                    *_cells(row), _seconds(row["seconds"]), percent(row["share"]), percent(row["of_requests"]),
                    *_statistics(row)[:-1],
                )
                for row in result.culprits.head(ROWS).iter_rows(named=True)
            ),
            title="Culprits: values of the requests that held the workers while selected requests waited",
            text_columns=2,
            more=max(len(result.culprits) - ROWS, 0),
        ),
    ]  # fmt: skip
    if result.waits is not None and result.waits.waited > 0:
        accounts = {"charged to the requests that held the workers": result.waits.blamed, **result.waits.accounts}
        tables.append(
            Table(
                ("waits of the selected requests", "seconds", "share"),
                tuple(
                    (name.replace("_", " "), _seconds(seconds), percent(seconds / result.waits.waited))
                    for name, seconds in accounts.items()
                ),
            )
        )
    return tables


def _cells(row: dict[str, Any]) -> tuple[str, str]:
    return row["column"], NO_VALUE if row["value"] is None else row["value"]


def _statistics(row: dict[str, Any]) -> tuple[str, str, str, str]:
    points = [formatted(row[name] * 100, "+.0f") for name in ("difference", "low", "high")]
    lift = row["lift"]
    times = NO_VALUE if lift is None else f"×{three_digits(lift)}" if lift < MANY_TIMES else f"> ×{MANY_TIMES:,.0f}"
    return f"{points[0]} points", f"{points[1]} … {points[2]}", times, f"{row['requests']:,}"


def _seconds(value: float) -> str:
    return formatted(value, ",.1f") if abs(value) < 1000 else formatted(value, ",.0f")


def _pictures(result: ContrastResult) -> tuple[Picture, ...]:
    pictures = []
    for key, title, rows, sides, text in (
        ("differences", "Shares of the selected requests and of the rest", result.differences,
         ("selected", "rest"), _difference(result)),
        ("culprits", "Shares of the held workers and of all requests", result.culprits,
         ("share", "of_requests"), _culprit(result)),
    ):  # fmt: skip
        if not rows.is_empty():
            table = rows.head(ROWS).select(
                pl.format("{} {}", pl.col("column"), pl.col("value").fill_null(NO_VALUE)).alias("value"),
                pl.col(sides[0]).alias("first"), pl.col(sides[1]).alias("second"), "low", "high",
            )  # fmt: skip
            names = ("selected", "rest") if key == "differences" else ("held workers", "all requests")
            caption = f"Bar: {names[0]}; tick: {names[1]}; line: the 95 % interval of their difference."
            pictures.append(Picture(f"contrast-{key}", title, caption, partial(shares_chart, table, names), text))
    return tuple(pictures)
