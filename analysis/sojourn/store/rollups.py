"""Update what the store computes from time to time: rollups every 15 s, and counts of spans every minute."""

from __future__ import annotations

from sojourn.model.errors import SojournError
from sojourn.store.client import Store, plainly, rows, store_time

IN_VAIN = 20  # refreshes in a row: minutes touched in the meantime come first, but not for ever
# The views behind rollup_results in parallel: otherwise the engine computes the rollup with one thread, too.
REFRESH = "INSERT INTO rollup_results SELECT * FROM rollup_due SETTINGS parallel_view_processing = 1"

REFRESH_SPANS = "INSERT INTO spans_minute SELECT * FROM spans_counted"


def refresh_rollups(store: Store) -> int:
    """Compute every minute that is due, the same way the store does by itself every 15 s; returns how many there were.

    What was in the store when this is called is in the rollups when it returns. A minute with new rows is due for
    60 s whatever is done (collector/clickhouse/views/rollup_results.sql says why), so a minute counts as done once it
    was begun after the call. On a cluster this does nothing: every machine makes its own.

    Raises:
        SojournError: the store failed.
    """
    with plainly(store, "bringing the rollups up to date"):
        if not rows(store, "EXISTS TABLE rollup_results")[0][0]:
            return 0
        begun = store_time(store)
        left = before = _left(store, begun)
        in_vain = 0
        while left and in_vain < IN_VAIN:
            store.client.command(REFRESH)
            was, left = left, _left(store, begun)
            in_vain = in_vain + 1 if left >= was else 0
    if left:
        raise SojournError(
            f"{store.dsn}: the rollups of {left} minutes were not completed; the rows are loaded. Load again to retry"
        )
    return before


def refresh_spans(store: Store) -> int:
    """Count the requests without a span of every minute that is due, as the store does by itself every minute.

    An embedded store does it only while a process has it open, so commands that write into one call this. A minute is
    due ten minutes after its last request arrived. On a cluster this does nothing: every machine counts its own.

    Returns:
        The number of minutes counted.

    Raises:
        SojournError: the store failed.
    """
    counted = 0
    with plainly(store, "counting the requests without a span"):
        if not rows(store, "EXISTS TABLE spans_due")[0][0]:
            return 0
        while due := int(rows(store, "SELECT count() FROM spans_due")[0][0]):
            store.client.command(REFRESH_SPANS)
            counted += due
    return counted


def _left(store: Store, begun: str) -> int:
    sql = """
        SELECT count() FROM minutes_known
        WHERE touched > computed - INTERVAL 60 SECOND AND computed < toDateTime64({begun:String}, 3, 'UTC')
            AND touched <= toDateTime64({begun:String}, 3, 'UTC')"""
    return int(rows(store, sql, {"begun": begun})[0][0])
