"""Detect a closed loop: without think time, the next request is sent when the last one is answered.

Such a source never asks for more than the system gives: it shows the throughput at saturation, and no rate at which an
objective breaks (Schroeder, Wierman & Harchol-Balter 2006). Two signs tell it, both out of windows of load:

- swing: the number in the system hardly changes. Over a window that is long beside a response, arrivals less
  departures of an open system vary as twice the number in system does; for Poisson arrivals that is at least about
  twice its mean. swing = sum (A - D)^2 / (2 sum N), near 1 or above when open, near 0 when the number is constant.
- follow: an arrival comes right after a departure. Seen from an instant that has nothing to do with departures, the
  time since the last one is E[gap^2] / (2 E[gap]) on average (renewal theory; Cox 1962, section 5.2). follow is the
  time that arrivals see, divided by that: near 1 when open, near 0 when departures set off arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SWING = 0.5
SWING_ALONE = 0.05
FOLLOW = 0.15
RESOLVED = 0.004  # s: nginx's clock has steps of 1 ms; departures nearer than a few of them do not tell who followed
ENOUGH = 50  # arrivals


@dataclass(frozen=True)
class ApparentLoop:
    """Signs of a closed loop.

    Attributes:
        closed: True or False; None where there is too little to tell.
        clients: mean number in system while it was looked at: the clients of a closed loop.
        swing, follow: as above; follow is None where departures are too close to one another for the clock.
    """

    closed: bool | None
    clients: float
    swing: float | None
    follow: float | None

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return dict(self.__dict__)


def loop_of(table: pl.DataFrame) -> ApparentLoop:
    """Return whether windows (columns of ``LoadWindows.table``) are those of a closed loop without think time."""
    gaps = pl.col("gaps") / 1e6
    usable = (pl.col("gaps") > 0) & (pl.col("followed") > 0)
    sums = table.select(
        pl.col("arrivals", "concurrency", "gaps").sum(),
        apart=((pl.col("arrivals") - pl.col("departures")) ** 2).sum(),
        between=(pl.col("departures") - 1).clip(lower_bound=0).sum(),
        clients=pl.col("concurrency").mean(),
        # By window: over a ramp, most arrivals are where gaps are short and most of the time is where they are long.
        seen=(pl.col("age") / 1e6).filter(usable).sum(),
        usual=(pl.col("followed") * pl.col("gaps_squared") / (2 * gaps)).filter(usable).sum(),
    ).row(0, named=True)
    clients = sums["clients"] or 0.0
    if sums["arrivals"] < ENOUGH or sums["concurrency"] <= 0:
        return ApparentLoop(None, clients, None, None)
    swing = sums["apart"] / (2 * sums["concurrency"])
    gap = sums["gaps"] / 1e6 / sums["between"] if sums["between"] else 0.0
    follow = sums["seen"] / sums["usual"] if gap >= RESOLVED and sums["usual"] > 0 else None
    closed = swing < SWING_ALONE if follow is None else swing < SWING and follow < FOLLOW
    return ApparentLoop(closed, clients, swing, follow)
