"""Reasons why a law does not apply to a station."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sojourn.timeline.station import Station

NEAR = 0.2  # a squared coefficient of variation so near to 1 is that of an exponential
BURSTY = 0.5  # an index of dispersion so far from 1 is not that of a Poisson process


def reason_against(law: str, station: Station, stationary: bool | None, trend: str) -> str | None:
    """Return the reason that a law does not apply; None if it applies."""
    if station.in_one_worker > 1:
        return "a worker serves several requests at a time"
    if station.silence is not None:
        return station.silence
    if law == "closed_loop":
        return next(_against_a_closed_loop(station, stationary, trend), None)
    if station.dependence is not None:
        return station.dependence
    return next(_against(law, station, stationary, trend), None)


def _against_a_closed_loop(station: Station, stationary: bool | None, trend: str) -> Iterator[str]:
    if not station.loop.closed:
        yield "not a closed loop"
    if stationary is False:
        yield f"not stationary: {trend}"
    if station.loop.clients < station.workers:
        yield f"{station.loop.clients:.1f} clients do not keep {station.workers} workers busy"


def _against(law: str, station: Station, stationary: bool | None, trend: str) -> Iterator[str]:
    """Yield the reasons against a law of open arrivals, the most serious first."""
    if stationary is False:
        yield f"not stationary: {trend}"
    if station.loop.closed:
        yield f"closed loop, {station.loop.clients:.1f} in the system all the time"
    if station.utilisation >= 1:
        yield f"utilisation {station.utilisation:.2f}, the queue only grows"
    if law in ("pollaczek_khinchine", "kingman") and station.workers > 1:
        yield f"a law of one worker, not {station.workers}"
    if law in ("erlang_c", "pollaczek_khinchine"):
        if abs(station.ca2 - 1) > (max(NEAR, 3 * station.ca2_error) if math.isfinite(station.ca2_error) else NEAR):
            yield f"arrivals not Poisson, c_a² {station.ca2:.2f}"
        if station.dispersion is not None and abs(station.dispersion - 1) > max(BURSTY, 3 * station.dispersion_error):
            yield f"arrivals not Poisson, index of dispersion {station.dispersion:.2f}"
    if law == "erlang_c" and abs(station.cs2 - 1) > NEAR:
        yield f"services not exponential, c_s² {station.cs2:.2f}"
