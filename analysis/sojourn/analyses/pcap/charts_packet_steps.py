"""Steps of the packet sequence chart: one request's packets, and the app's start and end between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.model.formatting import printable

CLIENT, BACKEND, APP, NOWHERE = "client", "backend", "app", "nowhere"
"""The place of a step: between client and proxy, between proxy and backend, in the app, or in no packet."""

REQUEST = 25  # characters between two lines

Row = Mapping[str, Any]
"""A row of TIMELINE or of CONNECTIONS, its instants in ns."""


@dataclass(frozen=True)
class Step:
    """One arrow or mark.

    Attributes:
        key: its name in spans.
        at: ns since the request's first packet.
        where: ``CLIENT``, ``BACKEND``, ``APP`` or ``NOWHERE``.
        to_server: the direction of a packet.
        label: its text.
        lost: whether it has no answer.
    """

    key: str
    at: int
    where: str
    label: str = ""
    to_server: bool = True
    lost: bool = False


def _request(request: Row) -> str:
    return printable(f"{request['method'] or ''} {request['path'] or ''}".strip(), REQUEST) or "request (head not seen)"


def request_steps(request: Row, connection: Row) -> list[Step]:
    """Return the handshake and the request of the client's side."""
    steps = _handshake(
        CLIENT,
        {
            "syn": request["client_syn"],
            "syn_answered": client_instant(request, connection, "syn_answered"),
            "syn_ack": request["client_syn_ack"],
            "established": request["client_established"],
            "ack_taken": client_instant(request, connection, "ack_taken"),
        },
        connection,
    )
    first, last = request["request_first"], request["request_last"]
    return steps + _bytes(CLIENT, "request", first, last, _request(request), to_server=True)


def response_steps(request: Row, connection: Row) -> list[Step]:
    """Return the answer of the client's side, and a reset."""
    first, last = request["response_first"], request["response_last"]
    steps = _bytes(CLIENT, "response", first, last, _answer(request), to_server=False)
    return steps + _reset(CLIENT, connection)


def backend_steps(request: Row, connection: Row) -> list[Step]:
    """Return the steps between proxy and backend, and the app's own start and end."""
    names = ("syn", "syn_answered", "syn_ack", "established", "ack_taken")
    steps = _handshake(BACKEND, {name: request[f"backend_{name}"] for name in names}, connection)
    first, last = request["backend_request_first"], request["backend_request_last"]
    steps += _bytes(BACKEND, "request", first, last, _request(request), to_server=True)
    if request["app_start"] is not None:
        steps.append(Step("app_start", request["app_start"], APP, "the app starts"))
    if request["app_end"] is not None:
        steps.append(Step("app_end", request["app_end"], APP, "the app is done"))
    first, last = request["backend_response_first"], request["backend_response_last"]
    steps += _bytes(BACKEND, "response", first, last, _answer(request), to_server=False)
    return steps + _reset(BACKEND, connection)


def _answer(request: Row) -> str:
    return "answer" if request["status"] is None else f"answer {request['status']}"


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
    ack_taken = at["ack_taken"]
    if ack_taken is not None and at["established"] is not None and ack_taken > at["established"]:
        steps.append(Step(f"{where}_ack_taken", ack_taken, where, "ACK or data, accepted"))
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
    """Return the reset that ended the connection, if this was its last request."""
    at, end = connection.get("reset"), connection.get("end")
    if at is None or connection["number"] < (connection["exchanges"] or 0):
        return []
    return [Step(f"{where}_reset", at, where, "reset (RST)", to_server=end == "reset_by_client")]


def unanswered(connection: Row) -> int | None:
    """Return the number of unanswered SYNs before the answered one; None: unknown."""
    return connection.get("syn_retransmissions") or None


def _ordinal(n: int) -> str:
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def client_instant(request: Row, connection: Row, name: str) -> int | None:
    """Return an instant of the client's handshake: of the row, else of its connection, else the default."""
    if request["client_syn"] is None:
        return None
    simple = {"syn_answered": "client_syn", "ack_taken": "client_established"}[name]
    instants = (request.get(f"client_{name}"), connection.get(name), request[simple])
    return next((int(value) for value in instants if value is not None), None)
