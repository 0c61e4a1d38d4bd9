"""Convert times in headers and logs to numbers; no value overflows or raises.

The magnitude of a stamp (X-Request-Start) determines its unit, as strictly as in the middleware.
"""

from __future__ import annotations

import polars as pl

# Digits of the whole part -> (most digits of the fraction, decimal places to microseconds): s, ms, us, ns.
UNITS = {10: (9, 6), 13: (6, 3), 16: (0, 0), 19: (0, -3)}

LONGEST = 1e9  # s: a longer value is no duration


def nanoseconds(seconds: pl.Expr) -> pl.Expr:
    """Return seconds as whole nanoseconds; null where they are no duration."""
    sound = seconds.is_finite() & (seconds.abs() < LONGEST)
    return (pl.when(sound).then(seconds) * 1e9).round().cast(pl.Int64)


def duration(column: str) -> pl.Expr:
    """Return a column of seconds, null where it is no duration (infinite, NaN, longer than ``LONGEST``)."""
    return pl.when(pl.col(column).is_finite() & (pl.col(column).abs() < LONGEST)).then(column)


def stamp_us(stamps: pl.Series) -> pl.Series:
    """Return stamps as microseconds since 1970, floored; null where invalid (a list, no number, an unknown unit)."""
    text = pl.lit(stamps).str.strip_chars(" \t").str.strip_prefix("t=")
    parts = pl.select(
        sound=text.str.contains(r"^[1-9][0-9]*(?:\.[0-9]+)?$"),
        length=text.str.len_bytes().cast(pl.Int64),
        whole=text.str.find(".", literal=True).cast(pl.Int64),
        # An integer: a float has too few digits. 20 digits fit.
        number=text.str.replace(".", "", literal=True).cast(pl.UInt64, strict=False),
    )
    parts = parts.with_columns(
        fraction=(pl.col("length") - pl.col("whole") - 1).fill_null(0), whole=pl.coalesce("whole", "length")
    )
    beyond = pl.lit(None, pl.Int64)  # digits after the microseconds; less than 0: missing before
    for size, (most, places) in UNITS.items():
        unit = pl.col("sound") & (pl.col("whole") == size) & (pl.col("fraction") <= most)
        beyond = pl.when(unit).then(pl.col("fraction") - places).otherwise(beyond)
    ten = pl.lit(10, pl.UInt64)
    parts = parts.with_columns(beyond=beyond).with_columns(
        scale=ten.pow(-pl.col("beyond").clip(None, 0)), divisor=ten.pow(pl.col("beyond").clip(0, None))
    )
    return parts.select((pl.col("number") * pl.col("scale") // pl.col("divisor")).cast(pl.Int64)).to_series()
