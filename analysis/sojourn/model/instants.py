"""Instants: the one grammar of the command line, of configuration files and of the functions. Loads without Polars."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from numbers import Real

from sojourn.model.errors import ArgumentError
from sojourn.model.formatting import printable

Instant = str | datetime | float | None
"""An instant: ISO 8601 with a zone, unix seconds, an age such as 10m, or an aware datetime; None: no limit."""
EPOCH = datetime.fromtimestamp(0, UTC)

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)(?:\s+ago)?")
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_UNIX = re.compile(r"\d{9,10}(\.\d+)?")
_FORMS = "2026-01-31T12:00:00Z, 2026-01-31T13:00:00+01:00, unix seconds, or 10m for ten minutes ago"
# 9999-12-31: later ones have no datetime.
_LAST = 253_402_300_799


def epoch_us(instant: datetime) -> int:
    """Return an aware datetime as unix time, us."""
    return (instant - EPOCH) // timedelta(microseconds=1)


def of_epoch_us(microseconds: int) -> datetime:
    """Return a unix time (us) as a datetime in UTC."""
    return EPOCH + timedelta(microseconds=int(microseconds))


def instant_of(value: str | datetime | float, name: str = "") -> datetime:
    """Return an instant in UTC.

    Args:
        value: ISO 8601 with ``Z`` or an offset, unix seconds (a number or its text), an age such as ``10m``, or an
            aware datetime.
        name: the argument, for the error; empty: none.

    Raises:
        ArgumentError: it is none of these, or has no zone, so that it is another instant in every zone.
    """
    before = f"{name}: " if name else ""
    parsed = _parsed(value)
    if parsed is None:
        milliseconds = ""
        if isinstance(value, Real) and not isinstance(value, bool) and value > _LAST:
            milliseconds = "; unix milliseconds are to be divided by 1000"
        raise ArgumentError(f"{before}{printable(repr(value), 100)} is not an instant: write {_FORMS}{milliseconds}")
    if parsed.tzinfo is None or parsed.utcoffset() is None:
        plain = parsed.replace(tzinfo=None).isoformat()
        remedy = (
            f"write {plain}Z for UTC, or add the offset of your zone, as in {plain}+01:00"
            if isinstance(value, str)
            else "pass one with a zone, as in datetime(2026, 1, 31, 12, tzinfo=UTC)"
        )
        raise ArgumentError(
            f"{before}{printable(repr(value), 100)} has no time zone, so it is another instant in every zone: {remedy}"
        )
    # Subclasses, such as the timestamps of pandas, are not what engines take.
    try:
        utc = parsed.astimezone(UTC)
    except OverflowError:
        raise ArgumentError(
            f"{before}{printable(repr(value), 100)} is before the year 1 or after 9999 in UTC"
        ) from None
    return datetime.combine(utc.date(), utc.time(), UTC)


def _parsed(value: object) -> datetime | None:
    """Return the datetime of a value, aware or not; None if it is no instant."""
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            return _of_text(value.strip())
        if isinstance(value, Real) and not isinstance(value, bool):
            return datetime.fromtimestamp(float(value), UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def _of_text(text: str) -> datetime:
    if ago := _AGO.fullmatch(text):
        return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
    if _UNIX.fullmatch(text):
        return datetime.fromtimestamp(float(text), UTC)
    return datetime.fromisoformat(text)


def limit_of(value: Instant, name: str = "") -> datetime | None:
    """Return ``instant_of`` a limit of a window; None for none."""
    return None if value is None else instant_of(value, name)
