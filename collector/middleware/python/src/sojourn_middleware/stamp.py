"""Read the instant at which the proxy sent the request from the headers it put on it.

Several proxies stamp in several units: seconds with milliseconds (nginx), milliseconds, microseconds
(HAProxy, Apache) and nanoseconds. The prefix ``t=`` says nothing about the unit, so the number of digits
decides, strictly. A value that does not fit is refused with a reason; nothing is guessed and nothing is
clamped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

#: The headers that may carry a stamp: the first one decides, and the next one is read only where it is missing.
STAMP_HEADERS = ("X-Request-Start", "X-Queue-Start")

#: Why a stamp was not accepted.
REASONS = ("missing", "list", "not_a_number", "unit", "future", "stale")

DEFAULT_MAX_AGE = 3600.0
DEFAULT_MAX_FUTURE = 10.0

_NUMBER = re.compile(r"[ \t]*(?:t=)?([0-9]+)(?:\.([0-9]+))?[ \t]*", re.ASCII)

# Digits of the integer part → (most digits allowed in the fraction, decimal places from this unit to
# microseconds).
_UNITS = {10: (9, 6), 13: (6, 3), 16: (0, 0), 19: (0, -3)}


class Stamp(NamedTuple):
    """What the headers said: exactly one of the two fields is None."""

    start_us: int | None
    """The stamp, whole microseconds since the Unix epoch."""

    reason: str | None
    """One of `REASONS` when there was no valid stamp."""

    @property
    def status(self) -> str:
        """The value of the span attribute ``queueing.status``: ok, missing, unparsable, future or stale."""
        if self.reason is None:
            return "ok"
        return "unparsable" if self.reason in {"list", "not_a_number", "unit"} else self.reason


_MISSING = Stamp(None, "missing")


def parse_stamp(value: str) -> int | str:
    """Return microseconds since the Unix epoch, floored; or the reason why `value` is not a stamp.

    The reason is ``list``, ``not_a_number`` or ``unit``. A blank value is ``missing``. The age is not
    judged here.
    """
    match = _NUMBER.fullmatch(value)
    if match is None:
        if not value.strip(" \t"):
            return "missing"
        # A proxy that appends instead of replacing joins two stamps; reading either one would be a guess.
        return "list" if "," in value else "not_a_number"
    whole, fraction = match.groups("")
    unit = _UNITS.get(len(whole))
    if unit is None or whole[0] == "0" or len(fraction) > unit[0]:
        return "unit"
    places = unit[1]
    if places < 0:
        return int(whole[:places])
    return int(whole + fraction[:places].ljust(places, "0"))


class StampReader:
    """Choose the stamp among a request's headers.

    max_age and max_future are in seconds and bound how far before and after the app's clock a stamp may
    lie; a stamp exactly at a limit is accepted. Raises ValueError when a limit is negative or not a number.
    """

    def __init__(self, max_age: float = DEFAULT_MAX_AGE, max_future: float = DEFAULT_MAX_FUTURE) -> None:
        self.max_age_us = _limit_us("max_age", max_age)
        self.max_future_us = _limit_us("max_future", max_future)

    def read(self, values_by_header: Sequence[Sequence[str]], now_us: int) -> Stamp:
        """Return the stamp of the first header that is not missing, or the reason why that one was refused.

        A later header never replaces a refused one: whatever the proxy does not overwrite, a client can send.

        Args:
            values_by_header: For each of `STAMP_HEADERS` in that order, every value the request had for it. No value
                and a blank one are both missing.
            now_us: The app's clock, microseconds since the Unix epoch.
        """
        for values in values_by_header:
            if not values:
                continue
            reading = parse_stamp(values[0]) if len(values) == 1 else "list"
            if isinstance(reading, int):
                if reading > now_us + self.max_future_us:
                    return Stamp(None, "future")
                if reading < now_us - self.max_age_us:
                    return Stamp(None, "stale")
                return Stamp(reading, None)
            if reading != "missing":
                return Stamp(None, reading)
        return _MISSING


def _limit_us(name: str, seconds: float) -> int:
    try:
        limit = round(seconds * 1_000_000)
    except (TypeError, ValueError, OverflowError):
        limit = -1
    if limit < 0:
        raise ValueError(f"{name} must be a number of seconds, zero or more, not {seconds!r}")
    return limit
