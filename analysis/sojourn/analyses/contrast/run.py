"""Contrast of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sojourn.analyses.contrast.analysis import ContrastResult, contrast_of
from sojourn.analyses.contrast.columns import DESCRIPTIVE, Coded, columns_of, ordered_columns
from sojourn.analyses.contrast.culprits import charged_of
from sojourn.analyses.contrast.selection import TIMES, Select, Selection, checked_choice, incident_selection
from sojourn.model.arrays import Ints
from sojourn.model.column_errors import not_read
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import OpenedRequests, Where
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike


def contrast(
    requests: RequestsLike,
    *,
    begin: Instant = None,
    end: Instant = None,
    above: float | None = None,
    below: float | None = None,
    select: Select = None,
    of: str = "response_time",
    column: Sequence[str] | str = (),
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> ContrastResult:
    """Compare selected requests with the rest: which values are over-represented, and which held the workers?

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> result = sojourn.contrast(shop, spans=spans, above=2.0, column="tenant")
    >>> [(row["column"], row["value"], round(row["share"], 2)) for row in result.culprits.head(1).to_dicts()]
    [('route', '/export', 0.83)]

    Args:
        requests: sources, a split, or a frame; see ``sojourn.sources.opening.requests_from``.
        begin: select requests that arrived at or after this instant, an instant as for ``since``.
        end: select requests that arrived before this instant.
        above: select requests with at least so many seconds of ``of``.
        below: select requests with less than so many seconds of ``of``.
        select: select requests with these values: column -> value, or a list of values.
        of: the time that ``above`` and ``below`` are of: response_time, queueing_delay or service_time.
        column: columns to compare besides the canonical ones, such as keys that a user added to the log.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        spans: the app's spans, if ``requests`` are sources.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant are compared: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant are compared.
        where: only requests with these values are compared; all requests hold workers.

    Returns:
        Over-represented values (``differences``), and values of the requests that held the workers (``culprits``).

    Raises:
        SojournError: a source cannot be read, a column does not exist, no request is selected or all are, or nothing
            selects and the log has no incident.
    """
    selection = Selection.of_options(begin, end, above, below, of, select)
    more = (column,) if isinstance(column, str) else tuple(column)
    source = requests_from(
        requests, columns=columns_to_read(more, selection), spans=spans, app_log=app_log, since=since, until=until,
        where=where, workers=workers,
    )  # fmt: skip
    names = source.rows.collect_schema().names()
    for name in selection.columns:
        if name not in names:
            raise SojournError(not_read(name, names))
    columns = columns_of(names, more)
    # Another selection of the same requests has the same rows and codes.
    key = ("contrast", columns, selection.columns)
    rows, order, coded = source.once(key, lambda: _compared(source, columns, selection))
    if selection.is_empty:
        selection = incident_selection(source.measures, rows, of)
    chosen = checked_choice(selection.chosen(rows), selection, rows[TIMES[of]])
    charged = charged_of(source, selection, columns, workers)
    # What selects distinguishes the selected requests by definition, but not those that held their workers.
    compared = {name: each for name, each in coded.items() if name not in selection.select}
    return contrast_of(rows, chosen, selection, compared, order, charged)


def _compared(
    source: OpenedRequests, columns: Sequence[str], selection: Selection
) -> tuple[pl.DataFrame, Ints, dict[str, Coded]]:
    """Return the requests with their times and the columns that select, and ``ordered_columns`` of them."""
    read = source.rows.collect_schema().names()
    few = tuple(dict.fromkeys((*selection.columns, *TIMES.values())))
    needed = dict.fromkeys((*few, *columns, "service"))
    rows = source.served.select(name for name in needed if name in read).collect(engine="streaming")
    if rows.is_empty():
        raise SojournError("no request to compare: check the sources, since, until and where")
    return rows.select(few), *ordered_columns(rows, columns)


def columns_to_read(more: Sequence[str], selection: Selection) -> tuple[str, ...]:
    """Return the columns to read besides those of the components.

    Args:
        more: columns of the user's own.
        selection: the selection, whose columns are read.
    """
    return tuple(dict.fromkeys((*DESCRIPTIVE, *more, *selection.select)))
