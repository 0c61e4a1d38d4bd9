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


def stamp_us(column: str) -> pl.Expr:
    """Return stamps as microseconds since 1970, floored; null where invalid (a list, no number, an unknown unit)."""
    parts = pl.col(column).str.strip_chars(" \t").str.extract_groups(r"^(?:t=)?([1-9][0-9]*)(?:\.([0-9]+))?$")
    whole, fraction = parts.struct.field("1"), parts.struct.field("2").fill_null("")
    digits, more = whole.str.len_bytes(), fraction.str.len_bytes()
    stamp = pl.lit(None, pl.Int64)
    for size, (most, places) in UNITS.items():
        if places >= 0:
            text = pl.concat_str(whole, fraction.str.slice(0, places).str.pad_end(places, "0"))
        else:
            text = whole.str.slice(0, size + places)
        fits = (digits == size) & (more <= most)
        stamp = pl.when(fits).then(text.cast(pl.Int64, strict=False)).otherwise(stamp)
    return stamp
