"""One request: its components, the requests that held the workers while it waited, its span and its log line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from sojourn.model.components import COMPONENTS
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.formatting import iso, printable
from sojourn.model.instants import epoch_us
from sojourn.model.redaction import redacted_text, redacting
from sojourn.readers.inputs import opened_inputs
from sojourn.serve.packets import packets_of
from sojourn.serve.queue import QueueOverTime
from sojourn.serve.session import Session
from sojourn.serve.view import View
from sojourn.timeline.charge import accounts
from sojourn.timeline.named_accounts import ACCOUNTS

MOST_HOLDERS = 20
HALF = 0.5e-6  # s: half a microsecond
SMALLEST = 1e-6  # s: of a share of a wait
CHUNK = 1 << 20  # bytes
LONGEST_LINE = 1 << 16  # bytes
SPAN = ("span_start", "span_seconds", "span_service_time", "span_queueing_delay", "span_route")
TEXTS = ("request_id", "service", "route", "upstream", "worker", "proxy", "stamp", "queue_source", "vantage")
MATCHING = ("request_id", "upstream", "worker", "route", "status")
"""Columns that identify the row of a visit, beside the time at which it ended."""


def one_request(session: Session, view: View, number: int, arrival: int | None = None) -> dict[str, Any]:
    """Return what is known of a request.

    Args:
        session: the requests.
        view: whose queue the request is in.
        number: index into the visits of that queue.
        arrival: of the request, unix time, us; of a log that is followed, requests have other numbers a moment later.
            None: the number is that of this queue.

    Returns:
        ``number``; ``arrival``, ``left``, ``begin`` and ``end`` of the wait and of the hold (unix time, us; None:
        unknown); ``values`` (texts), ``components`` (name -> s), ``accounts`` (name, sentence and seconds of the wait),
        ``holders`` (number, arrival, route, worker, status, begin, end, and seconds of the wait of each request that
        held a worker meanwhile), ``span``, ``packets`` and ``line``.

    Raises:
        ArgumentError: there is no such request.
        SojournError: no wait is known.
    """
    queue = session.queue_of(view)
    visits, services = queue.visits, queue.services
    number = _place(queue, number, arrival)
    row = _row(session, queue, number)
    victims = np.zeros(len(visits), np.bool_)
    victims[number] = True
    charged = accounts(visits, services, victims)
    holders = np.flatnonzero(charged.caused > SMALLEST)
    holders = holders[np.argsort(-charged.caused[holders], kind="stable")]

    def instant(seconds: float) -> int | None:
        return None if math.isnan(seconds) else queue.base + round(seconds * 1e6)

    rows = visits.rows_at(holders[:MOST_HOLDERS])
    return {
        "number": number,
        "arrival": instant(visits.arrival[number]),
        "left": instant(visits.wait_end[number]),
        "begin": instant(services.begin[number]),
        "end": instant(services.end[number]),
        "wait": _or_none(visits.wait[number]),
        "values": {name: printable(row[name], 1_000) for name in TEXTS if row.get(name) is not None}
        | {"status": str(row["status"]), "ended": iso(row["time"])},
        "response_time": row["request_time"],
        "components": {name: row[name] for name in COMPONENTS if row[name] is not None},
        "accounts": [
            {"name": name, "sentence": ACCOUNTS[name][1] if name in ACCOUNTS else DISPATCHED, "seconds": seconds}
            for name, values in charged.others.items()
            if (seconds := float(values[number])) > SMALLEST
        ],
        "holders": [
            {
                "number": int(holder),
                "arrival": instant(visits.arrival[holder]),
                "route": rows["route"][place],
                "worker": rows["worker"][place],
                "status": rows["status"][place],
                "begin": instant(services.begin[holder]),
                "end": instant(services.end[holder]),
                "seconds": float(charged.caused[holder]),
            }
            for place, holder in enumerate(holders[:MOST_HOLDERS].tolist())
        ],
        "more_holders": max(len(holders) - MOST_HOLDERS, 0),
        "span": _span(row),
        "packets": packets_of(session.wire, row.get("request_id")),
        "line": log_line(session.options.sources, row.get("request_id")),
    }


DISPATCHED = "while a worker was free"


def _place(queue: QueueOverTime, number: int, arrival: int | None) -> int:
    """Return the index of a request, which has another number if its arrival is not that of the number.

    Raises:
        ArgumentError: there is no such request, or more than one.
    """
    visits = queue.visits
    if arrival is None:
        if not 0 <= number < len(visits):
            raise ArgumentError(f"number: the last one is {len(visits) - 1}")
        return number
    seconds = (arrival - queue.base) / 1e6
    if 0 <= number < len(visits) and abs(visits.arrival[number] - seconds) < HALF:
        return number
    places = np.flatnonzero(np.abs(visits.arrival - seconds) < HALF)
    if len(places) != 1:
        raise ArgumentError("arrival: no request, or several, arrived then: choose one again")
    return int(places[0])


def _or_none(seconds: float) -> float | None:
    return None if math.isnan(seconds) else float(seconds)


def _row(session: Session, queue: QueueOverTime, number: int) -> dict[str, Any]:
    """Return the row of a visit, with its components."""
    visit = queue.visits.rows_at(np.array([number])).row(0, named=True)
    ended: datetime = visit["time"]
    condition = pl.col("time") == pl.lit(ended)
    for name in MATCHING:
        if name in visit:
            condition &= pl.col(name).eq_missing(pl.lit(visit[name]))
    arrival = epoch_us(queue.visits.base) + round(float(queue.visits.arrival[number]) * 1e6)
    begun = pl.col("start").dt.epoch("us") + ((pl.col("upload") + pl.col("retries")) * 1e6).round().cast(pl.Int64)
    rows = session.requests.rows.filter(condition).with_columns(distance=(begun - arrival).abs())
    return rows.sort("distance").head(1).collect().row(0, named=True)


def _span(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the app's span of a request; None without one."""
    if row.get("span_seconds") is None:
        return None
    values = {name.removeprefix("span_"): row[name] for name in SPAN if row.get(name) is not None}
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in values.items()}


def log_line(sources: Sequence[str], request_id: str | None) -> str | None:
    """Return the first line of the logs with a request id, redacted; None if no log has one.

    Args:
        sources: files that are read again; others have no lines.
        request_id: the id; None: unknown.
    """
    if not request_id:
        return None
    try:
        inputs = opened_inputs([source for source in sources if source != "-"])
    except SojournError:  # removed or rotated since it was read, or no file at all
        return None
    try:
        for log in inputs.logs:
            line = _line_with(log.stream, request_id.encode())
            if line is not None:
                text = line.decode("utf-8", "replace")
                return printable(redacted_text(text) if redacting() else text, LONGEST_LINE)
    except (OSError, EOFError, ValueError):  # damaged compression
        return None
    finally:
        inputs.close()
    return None


def _line_with(stream: BinaryIO, text: bytes) -> bytes | None:
    """Return the first line that contains a text; a line of more than ``LONGEST_LINE`` bytes is cut."""
    before = b""
    while chunk := stream.read(CHUNK):
        data = before + chunk
        place = data.find(text)
        if place >= 0:
            if data.find(b"\n", place) < 0:
                data += stream.read(LONGEST_LINE)
            begin, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
            return data[begin : end if end >= 0 else None][:LONGEST_LINE]
        before = data[-LONGEST_LINE:]
    return None
