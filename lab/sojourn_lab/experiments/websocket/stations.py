"""The time of a connection by station, and the rate at which queueing begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sojourn_lab.experiments.websocket.plan import Connection

SLICES = 12
"""A ramp is cut into this many slices of equally many connections: a quantile needs connections, not seconds."""

QUEUEING = 8.0
"""Queueing begins where p95 of the wait remains beyond this many evaluations. By chance alone, far from saturation, a
connection meets one or two others, at each of the turns of the event loop that it needs."""

WAITS = ("accept", "upgrade", "message")
"""The stations at which one waits for the app."""


def stations_of(connection: Connection) -> dict[str, float] | None:
    """Return the seconds at each station, None for a connection that was not made. They add up to `whole`.

    generator   intended → begun: the client's own lateness
    connect     begun → TCP connected, to nginx
    proxy       connected → the stamp of nginx (steps of 1 ms, so it may be slightly negative)
    accept      stamp → accept() in the app: the accept queue
    upgrade     accepted → 101 at the client: turns of the app's event loop
    message     data-sync sent → evaluation begins: one more turn
    work        the evaluation
    answer      evaluated → answer at the client
    """
    server, answered, upgraded = connection.server, connection.answered, connection.upgraded
    if server is None or answered is None or upgraded is None:
        return None
    # A generator that does not see the connect (k6) gives it to the station after it, as an app without a stamp does.
    connected = connection.began if connection.connected is None else connection.connected
    stamp = connected if server.stamp is None else server.stamp
    sent = upgraded if connection.sent is None else connection.sent
    return {
        "generator": connection.began - connection.intended,
        "connect": connected - connection.began,
        "proxy": stamp - connected,
        "accept": server.accepted - stamp,
        "upgrade": sent - server.accepted,
        "message": server.started - sent,
        "work": server.ended - server.started,
        "answer": answered - server.ended,
        "whole": answered - connection.intended,
    }


def waited(stations: dict[str, float]) -> float:
    """Return the seconds for which a connection waited for the app."""
    return sum(stations[name] for name in WAITS)


def described(seconds: Iterable[float]) -> dict[str, float | None]:
    """Return mean, p50, p95, p99 and max of seconds; None without values."""
    values = np.fromiter(seconds, dtype=np.float64)
    names = ("mean", "p50", "p95", "p99", "max")
    if not values.size:
        return dict.fromkeys(names)
    figures = [float(values.mean()), *np.quantile(values, [0.5, 0.95, 0.99, 1.0]).tolist()]
    return dict(zip(names, figures, strict=True))


def slices_of(
    connections: Sequence[Connection], since: float, rate_per_second: float, count: int = SLICES
) -> list[Any]:
    """Return the ramp cut into `count` slices of equally many connections, in the intended order.

    `since` is when the ramp began (unix s), `rate_per_second` by how much its rate grows. Each slice has its `rate`,
    the new connections a second intended at its middle, p95 of wait and response, and the mean wait at each station.
    """
    ordered = sorted(connections, key=lambda each: each.intended)
    slices = []
    for part in np.array_split(np.arange(len(ordered)), count):
        members = [ordered[number] for number in part]
        stations = [waits for each in members if (waits := stations_of(each)) is not None]
        if not stations:
            continue
        middle = (members[0].intended + members[-1].intended) / 2.0 - since
        slices.append(
            {
                "rate": middle * rate_per_second,
                "connections": len(stations),
                "wait_p95": described(waited(each) for each in stations)["p95"],
                "response_p95": described(each.answered - each.sent for each in members if each.answered and each.sent)[
                    "p95"
                ],
                **{f"{name}_mean": described(each[name] for each in stations)["mean"] for name in WAITS},
            }
        )
    return slices


def onset_of(slices: Sequence[dict[str, Any]], threshold: float, capacity: float) -> dict[str, Any]:
    """Return where queueing begins: the first slice from which on p95 of the wait remains beyond `threshold` seconds.

    `found` is 1 or 0; `rate`, and `offered_load` as a share of the capacity, are of that slice; `station` is where most
    of its wait was.
    """
    begins = len(slices)
    while begins and slices[begins - 1]["wait_p95"] > threshold:
        begins -= 1
    if begins == len(slices):
        return {"found": 0, "threshold": threshold, "rate": None, "offered_load": None, "station": None}
    first = slices[begins]
    station = max(WAITS, key=lambda name: first[f"{name}_mean"])
    return {
        "found": 1,
        "threshold": threshold,
        "rate": first["rate"],
        "offered_load": first["rate"] / capacity,
        "station": station,
    }
