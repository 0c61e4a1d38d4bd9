"""The time at upstreams whose answer an internal redirect replaced.

nginx lists all upstreams of a request: ``,`` after an attempt that failed, ``:`` after an answer that an internal
redirect follows (``X-Accel-Redirect``, ``error_page``). An attempt that was answered with 2xx or 3xx did not fail:
nginx tries another upstream after errors, timeouts, 403, 404, 429 and 5xx only. So ``$upstream_status`` decides, and
not the separator: a store does not keep it, and it stands after a failed attempt that has an ``error_page``, too.
"""

from __future__ import annotations

import polars as pl

ANSWERED = "^[23][0-9][0-9]$"
_SEPARATOR = ", | : "

REDIRECT_MACROS = (
    # A list of statuses of another length says nothing of the attempts.
    "CREATE OR REPLACE TEMP MACRO redirects_in(s, x) AS (CASE WHEN NOT is_list(x) OR length_of(s) != length_of(x) "
    "THEN 0 ELSE coalesce(TRY_CAST(list_sum(list_transform(parts_of(x)[:-2], lambda e, i: "
    f"CASE WHEN regexp_matches(parts_of(s)[i], '{ANSWERED}') THEN duration(e) END)) AS BIGINT), 0) END)",
)


def redirect_times(status: pl.Series, response: pl.Series) -> pl.Series:
    """Return the time before internal redirects, whole microseconds, by two variables of nginx; null: unknown."""
    texts = {"status": status.cast(pl.String), "response": response.cast(pl.String)}
    lines = pl.DataFrame(texts).with_row_index("line")
    codes, times = (_parts(name) for name in texts)
    has_several = pl.col("response").str.contains(_SEPARATOR) & (codes.list.len() == times.list.len())
    attempts = (
        lines.filter(has_several)
        .select("line", time=times.list.head(times.list.len() - 1), code=codes.list.head(codes.list.len() - 1))
        .explode("time", "code")
        .filter(pl.col("code").str.contains(ANSWERED))
    )
    micros = (pl.col("time").cast(pl.Float64, strict=False) * 1e6).round().cast(pl.Int64)
    sums = attempts.group_by("line").agg(us=micros.sum())
    return lines.join(sums, on="line", how="left", maintain_order="left")["us"].fill_null(0)


def _parts(name: str) -> pl.Expr:
    return pl.col(name).str.replace_all(" : ", ", ", literal=True).str.split(", ")
