"""Load windows from a store, which sends one row per window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from sojourn.analyses.capacity.knee import Slo
from sojourn.analyses.capacity.mix import SCHEMA, Mix
from sojourn.model.figures import QUANTILES
from sojourn.model.formatting import counted
from sojourn.model.frame import Selection
from sojourn.model.instants import epoch_us
from sojourn.sources.store_measures import EXACT_ROWS
from sojourn.store import statements as sql
from sojourn.store.client import connect, in_utc, plainly
from sojourn.store.statements import route_in_store
from sojourn.timeline.load_windows import (
    RAW,
    LoadWindows,
    empty_stretches,
    extent,
    finished,
    instances,
    width_of,
    without_silences,
)


def store_load_windows(
    dsn: str,
    selection: Selection | None = None,
    *,
    width: float | None = None,
    by_instance: bool = False,
    exact_rows: int = EXACT_ROWS,
) -> LoadWindows:
    """Return the same windows as ``load_windows``, computed by a store.

    Quantiles of more than ``exact_rows`` requests are cut after four digits.

    Raises:
        SojournError: as ``load_windows``; or the store cannot be reached or queried.
    """
    which = sql.chosen(selection or Selection())
    condition = "upstream IS NOT NULL" if by_instance else "1"

    def statement(name: str, **parts: str) -> str:
        return sql.over_chosen(name, which, taken=condition, **parts)

    with connect(dsn) as store, plainly(store, "counting its load by window"):

        def rows_of(text: str, **parameters: object) -> list[dict[str, object]]:
            answer = store.client.query(text, parameters=which.bound(text, **parameters))
            return [dict(zip(answer.column_names, row, strict=True)) for row in answer.result_rows]

        (row,) = rows_of(statement("extent_of_load"))
        for name in ("first", "last"):
            if isinstance(value := row[name], datetime):
                row[name] = in_utc(value)
        span = extent(row)
        micros = width_of(span, width)
        exact = span.requests <= exact_rows
        quantiles = sql.quantiles("request_time", tuple(QUANTILES.values()), exact=exact, only="arrives")
        raws = []
        for column in instances(by_instance):
            instance = "''" if column is None else f"assumeNotNull({column})"
            text = statement("windows_of_load", instance=instance, quantiles=quantiles)
            raws.append(_raw(rows_of(text, begin=epoch_us(span.first), width=micros)))
    cut = f"There are more than {counted(exact_rows, 'request')}: quantiles have four digits."
    windows = finished(raws, span, micros, by_instance=by_instance, notes=() if exact else (cut,))
    return without_silences(windows, empty_stretches(windows))


def store_mix(dsn: str, selection: Selection, windows: LoadWindows, slos: Sequence[Slo]) -> Mix:
    """Return the same mix as ``mix_of``, by the service times in the apps' headers, computed by a store.

    Raises:
        SojournError: the store cannot be reached or queried.
    """
    which = sql.chosen(selection)
    if windows.by_instance or not slos:
        return Mix(())
    tables = []
    with connect(dsn) as store, plainly(store, "counting the routes of its load"):

        def rows_of(text: str, **parameters: object) -> list[dict[str, object]]:
            answer = store.client.query(text, parameters=which.bound(text, **parameters))
            return [dict(zip(answer.column_names, row, strict=True)) for row in answer.result_rows]

        (count,) = rows_of(sql.over_chosen("services", which, taken="1"))
        text = sql.over_chosen(
            "routes_of_load", which, taken="1", route=route_in_store("chosen", several=int(str(count["services"])) > 1)
        )
        for slo in slos:
            rows = rows_of(text, begin=epoch_us(windows.begin), width=round(windows.width * 1e6), limit=slo.limit)
            tables.append(pl.DataFrame(rows, SCHEMA))
    return Mix(tables)


def _raw(rows: list[dict[str, object]]) -> pl.DataFrame:
    """Return rows of ``windows_of_load`` with the columns of ``RAW``."""
    flat = [{**row, **dict(zip(QUANTILES, row["quantiles"], strict=True))} for row in rows]  # type: ignore[call-overload]
    return pl.DataFrame([{name: row[name] for name in RAW} for row in flat], RAW)
