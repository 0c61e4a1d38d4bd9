"""Distributions: heatmaps and percentiles over time, and the whole distribution by nines."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from sojourn_dashboards.datasource import sql
from sojourn_dashboards.filters import ROLLUP, rollup_variables
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import against, heat, lines, to_requests
from sojourn_dashboards.sketches import ACCURACY, merged

FINE = 20  # buckets to a decade in the store
COARSE = 4  # of them to one row of a heatmap
LOWEST, HIGHEST = -60, 40  # 1 ms to 100 s; what lies outside is in the first and the last row

PARTS = {
    "response": ("Response time", "from the first byte nginx read to the last it wrote", "Greys"),
    "queueing": (
        "Queueing delay",
        "from nginx asking the backend to a worker beginning, the network included",
        "Oranges",
    ),
    "service": ("Service time", "from a worker beginning to its response headers, by the app's own clock", "Blues"),
}


def edges() -> list[tuple[str, str]]:
    """Return (name, condition on the fine bucket ``b``) of each row; the name is its upper edge in seconds."""
    rows = [(_seconds(LOWEST), f"b < {LOWEST}")]
    rows += [(_seconds(low + COARSE), f"b >= {low} AND b < {low + COARSE}") for low in range(LOWEST, HIGHEST, COARSE)]
    return [*rows, ("+Inf", f"b >= {HIGHEST}")]


def _seconds(bucket: int) -> str:
    return f"{10 ** (bucket / FINE):.3g}"


def heatmap_of(part: str) -> str:
    """Return SQL: requests by time and by bucket, a column for each."""
    return sql(
        """
        SELECT t, @columns@
        FROM
        (
            SELECT $__timeInterval(minute) AS t, sumMap(@part@_histogram) AS h
            FROM rollup_minute FINAL WHERE @rollup@ GROUP BY t
        )
        WHERE notEmpty(h) ORDER BY t
        """,
        columns=",\n    ".join(
            f'arraySum(mapValues(mapFilter((b, n) -> {condition}, h))) AS "{name}"' for name, condition in edges()
        ),
        part=part,
        rollup=ROLLUP,
    )


def percentiles_of(part: str) -> str:
    """Return SQL: p50, p90, p99 and p99.9 from sketches merged over each interval."""
    return sql(
        """
        SELECT t, q[1] AS "p50", q[2] AS "p90", q[3] AS "p99", q[4] AS "p99.9"
        FROM
        (
            SELECT $__timeInterval(minute) AS t,
                @merged@ AS q
            FROM rollup_minute FINAL WHERE @rollup@ GROUP BY t
        )
        WHERE isFinite(q[1]) ORDER BY t
        """,
        merged=merged(part),
        rollup=ROLLUP,
    )


# As many nines as there are requests for: a quantile with less than one request beyond it is left out.
BY_NINES = """
SELECT step / 10 AS "nines", @quantiles@
FROM
(
    SELECT @cumulated@
    FROM (SELECT @histograms@ FROM rollup_minute FINAL WHERE @where@)
)
ARRAY JOIN range(0, 51) AS step
WHERE @some@ ORDER BY step
"""


def by_nines(names: dict[str, str], where: str = ROLLUP) -> str:
    """Return SQL: each part's quantile 1 - 10^-nines, as the upper edge of its bucket. ``names``: part -> column."""
    return sql(
        BY_NINES,
        quantiles=", ".join(
            f"if(c_{part}[-1] * exp10(-step / 10) >= 1, "
            f"exp10((b_{part}[arrayFirstIndex(c -> c >= (1 - exp10(-step / 10)) * c_{part}[-1], c_{part})] + 1) / "
            f"{FINE}),"
            f' NULL) AS "{name}"'
            for part, name in names.items()
        ),
        cumulated=", ".join(
            f"arraySort(mapKeys(h_{part})) AS b_{part}, arrayCumSum(arrayMap(b -> h_{part}[b], b_{part})) AS c_{part}"
            for part in names
        ),
        histograms=", ".join(f"sumMap({part}_histogram) AS h_{part}" for part in names),
        some=" OR ".join(f"c_{part}[-1] * exp10(-step / 10) >= 1" for part in names),
        where=where,
    )


def distributions() -> Dashboard:
    """Return the dashboard with uid ``sojourn-distributions``."""
    board = dashboard(
        "sojourn-distributions",
        "Distributions",
        "How response, queueing and service times are distributed, and when.",
        rollup_variables(),
    )
    for part, (title, meaning, scheme) in PARTS.items():
        add_row(
            board,
            title,
            heat(
                heatmap_of(part),
                scheme,
                f"{title}: heatmap",
                f"Requests by when they ended and by their {title.lower()}, {meaning}. Five rows to a "
                "decade; the lowest holds all under 1 ms, the highest all over 100 s.",
                "short",
                height=9,
            ),
            lines(
                percentiles_of(part),
                f"{title}: percentiles",
                f"Of the requests that ended in the interval: {meaning}. From sketches that are merged, "
                f"never averaged; {ACCURACY}.",
                "s",
                height=9,
                links={"": to_requests()},
                log=True,
            ),
        )
    add_row(
        board,
        "By nines",
        against(
            by_nines({"response": "response time", "queueing": "queueing delay", "service": "service time"}),
            "nines",
            "By nines",
            "The whole distribution: at 1 what nine of ten requests took at most (p90), at 2 p99, at 3 p99.9, as "
            "far as there are requests for it. Upper edge of the histogram bucket, 12 % wide.",
            "s",
            width=24,
            height=10,
            units={"nines": "none"},
            log=True,
        ),
    )
    return board
