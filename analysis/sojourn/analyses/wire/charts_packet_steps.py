"""The steps of the packet sequence chart: one request's packets, and what is known of the app between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.model.formatting import printable

CLIENT, BACKEND, APP, NOWHERE = "client", "backend", "app", "nowhere"
"""Where a step is seen: between client and proxy, between proxy and backend, within the app, or in no packet at all."""

REQUEST = 25  # characters between two lines

Row = Mapping[str, Any]
"""A row of TIMELINE or of CONNECTIONS, its instants in ns."""


@dataclass(frozen=True)
class Step:
    """One arrow or mark.

    Attributes:
        key: what spans call it.
        at: ns since the request's first packet.
        where: ``CLIENT``, ``BACKEND``, ``APP`` or ``NOWHERE``.
        to_server: the direction of a packet.
        label: what is written at it.
        lost: nothing answered it.
    """

    key: str
    at: int
    where: str
    label: str = ""
    to_server: bool = True
    lost: bool = False


def _request(told: Row) -> str:
    return printable(f"{told['method'] or ''} {told['path'] or ''}".strip(), REQUEST) or "request (head not seen)"


def asked_steps(told: Row, connection: Row) -> list[Step]:
    """Handshake and request of the client's side."""
    steps = _handshake(
        CLIENT,
        {
            "syn": told["client_syn"],
            "syn_answered": client_taken(told, connection, "syn_answered"),
            "syn_ack": told["client_syn_ack"],
            "established": told["client_established"],
            "ack_taken": client_taken(told, connection, "ack_taken"),
        },
        connection,
    )
    first, last = told["request_first"], told["request_last"]
    return steps + _bytes(CLIENT, "request", first, last, _request(told), to_server=True)


def answered_steps(told: Row, connection: Row) -> list[Step]:
    """Answer of the client's side, and a reset."""
    first, last = told["response_first"], told["response_last"]
    steps = _bytes(CLIENT, "response", first, last, _answer(told), to_server=False)
    return steps + _reset(CLIENT, connection)


def backend_steps(told: Row, connection: Row) -> list[Step]:
    """Everything between proxy and backend, and what the app tells of itself."""
    names = ("syn", "syn_answered", "syn_ack", "established", "ack_taken")
    steps = _handshake(BACKEND, {name: told[f"backend_{name}"] for name in names}, connection)
    first, last = told["backend_request_first"], told["backend_request_last"]
    steps += _bytes(BACKEND, "request", first, last, _request(told), to_server=True)
    if told["app_start"] is not None:
        steps.append(Step("app_start", told["app_start"], APP, "the app starts"))
    if told["app_end"] is not None:
        steps.append(Step("app_end", told["app_end"], APP, "the app is done"))
    first, last = told["backend_response_first"], told["backend_response_last"]
    steps += _bytes(BACKEND, "response", first, last, _answer(told), to_server=False)
    return steps + _reset(BACKEND, connection)


def _answer(told: Row) -> str:
    return "answer" if told["status"] is None else f"answer {told['status']}"


def _handshake(where: str, at: Mapping[str, int | None], connection: Row) -> list[Step]:
    steps = []
    syn, answered = at["syn"], at["syn_answered"]
    if syn is not None:
        repeated = answered is not None and answered > syn
        steps.append(Step(f"{where}_syn", syn, where, "SYN", lost=repeated or at["syn_ack"] is None))
        if repeated and answered is not None:
            count = unanswered(connection)
            nth = "SYN again" if count is None or count < 2 else f"SYN, the {_ordinal(count + 1)}"
            steps.append(Step(f"{where}_syn_answered", answered, where, nth))
    if at["syn_ack"] is not None:
        steps.append(Step(f"{where}_syn_ack", at["syn_ack"], where, "SYN-ACK", to_server=False))
    if at["established"] is not None:
        steps.append(Step(f"{where}_established", at["established"], where, "ACK"))
    taken = at["ack_taken"]
    if taken is not None and at["established"] is not None and taken > at["established"]:
        steps.append(Step(f"{where}_ack_taken", taken, where, "ACK or data, taken at last"))
    return steps


def _bytes(where: str, what: str, first: int | None, last: int | None, label: str, *, to_server: bool) -> list[Step]:
    if first is None:
        return []
    if last is None or last <= first:
        return [Step(f"{where}_{what}_first", first, where, label, to_server)]
    return [
        Step(f"{where}_{what}_first", first, where, label, to_server),
        Step(f"{where}_{what}_last", last, where, "last byte", to_server),
    ]


def _reset(where: str, connection: Row) -> list[Step]:
    """The reset that ended the connection, where this was its last request."""
    at, end = connection.get("reset"), connection.get("end")
    if at is None or connection["number"] < (connection["exchanges"] or 0):
        return []
    return [Step(f"{where}_reset", at, where, "reset (RST)", to_server=end == "reset_by_client")]


def unanswered(connection: Row) -> int | None:
    """SYNs without an answer before the one that had one; None: not known."""
    return connection.get("syn_retransmissions") or None


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def client_taken(told: Row, connection: Row, name: str) -> int | None:
    """An instant of the client's handshake: of the row, else of its connection, else what it is where all went well."""
    if told["client_syn"] is None:
        return None
    simple = {"syn_answered": "client_syn", "ack_taken": "client_established"}[name]
    known = (told.get(f"client_{name}"), connection.get(name), told[simple])
    return next((int(value) for value in known if value is not None), None)
