"""Blame per minute, as a store keeps it and a dashboard sums it."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.frame import INSTANT
from sojourn.timeline.charge import accounts, matrices
from sojourn.timeline.classes import classes_of, largest, summed
from sojourn.timeline.services import services_of
from sojourn.timeline.tables import BLAMED
from sojourn.timeline.visits import Visits
from sojourn.timeline.windows import Windows

MINUTE = 60.0
MINUTE_SCHEMA = {
    "minute": INSTANT,
    "service": pl.String(),
    "upstream": pl.String(),
    "pool": pl.String(),
    "victim": pl.String(),
    "account": pl.String(),
    "culprit": pl.String(),
    "seconds": pl.Float64(),
}


def blame_by_minute(visits: Visits, by: str = "route", *, seconds: float = MINUTE) -> pl.DataFrame:
    """Return waits by the minute in which they ended, by service, backend and class.

    The sum over all rows is the measured wait.

    Args:
        visits: with ``by`` among the columns of its frame.
        by: column that names victims and culprits.
        seconds: length of a window.

    Returns:
        Columns of ``MINUTE_SCHEMA``. ``account`` is blamed, imbalance, dispatch or one of ``SUSPECT_ACCOUNTS``;
        ``culprit`` is null unless the account is blamed, and null for requests without a service time. Rows of 0 s are
        left out.
    """
    if not len(visits):
        return pl.DataFrame(schema=MINUTE_SCHEMA)
    services = services_of(visits)
    charged = accounts(visits, services)
    windows = Windows.over(visits.base, float(visits.wait_end.min()), float(visits.wait_end.max()), seconds=seconds)
    window = windows.of(visits.wait_end)
    value, values = classes_of(visits.rows[by])
    few, names = largest(value, values, summed(value, np.abs(visits.wait) + charged.caused, len(values)))
    # One row per service, backend and victim.
    service = visits.rows["service"].fill_null("").to_physical()
    keys = pl.DataFrame({"service": service, "backend": visits.backend, "victim": few}).with_columns(
        row=pl.struct("service", "backend", "victim").rank("dense").cast(pl.Int64) - 1
    )
    row = keys["row"].to_numpy()
    places = keys.unique("row").sort("row").drop("row")
    culprit_index = np.where(services.known, few, len(names))
    tables = []
    for first, matrix in matrices(
        visits, services, row, culprit_index, window, (windows.count, len(places), len(names) + 1)
    ):
        at, victim, culprit = np.nonzero(matrix > 0)
        tables.append(_minutes(at + first, victim, BLAMED, culprit, matrix[at, victim, culprit]))
    for account, spent in charged.others.items():
        cells, cell = np.unique(window * len(places) + row, return_inverse=True)
        sums = summed(cell, spent, len(cells))
        cells, sums = cells[sums != 0], sums[sums != 0]
        no_culprit = np.full(len(cells), len(names))
        tables.append(_minutes(cells // len(places), cells % len(places), account, no_culprit, sums))
    backends = pl.Series([*visits.backends], dtype=pl.String)
    pools = pl.Series([visits.pools[p] for p in visits.pool], dtype=pl.String)
    table = pl.concat(tables)
    place = places[table["place"].to_numpy()]
    return pl.DataFrame(
        {
            "minute": pl.Series(windows.begins, dtype=INSTANT)[table["window"].to_numpy()],
            "service": place["service"],
            "upstream": backends[place["backend"].to_numpy()],
            "pool": pools[place["backend"].to_numpy()],
            "victim": pl.Series(names, dtype=pl.String)[place["victim"].to_numpy()],
            "account": table["account"],
            "culprit": pl.Series([*names, None], dtype=pl.String)[table["culprit"].to_numpy()],
            "seconds": table["seconds"],
        },
        schema=MINUTE_SCHEMA,
    ).sort("minute", "service", "upstream", "victim", "account", "culprit", nulls_last=True)


def _minutes(window: Ints, place: Ints, account: str, culprit: Ints, seconds: Floats) -> pl.DataFrame:
    return pl.DataFrame({"window": window, "place": place, "culprit": culprit, "seconds": seconds}).with_columns(
        account=pl.lit(account)
    )
