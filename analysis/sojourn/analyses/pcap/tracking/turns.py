"""Assign payload bytes to exchanges."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.pcap.tracking.states import ABSENT, ANSWER_ALONE, N_EXCHANGES, NONE, TEXTS
from sojourn.model.compilation import compiled_part


@compiled_part
def begin_exchange(tables, number, time):
    """Append an empty exchange to a connection; return its row."""
    at = tables.counts[N_EXCHANGES]
    tables.counts[N_EXCHANGES] += 1
    connection = tables.connections[number]
    exchange = tables.exchanges[at]
    exchange.connection, exchange.following = number, ABSENT
    exchange.request_first = exchange.request_last = time
    exchange.response_first = exchange.response_last = NONE
    for k in range(len(TEXTS)):
        exchange.text[k] = ABSENT
    connection.exchanges += 1
    exchange.number = connection.exchanges
    if connection.last_request == ABSENT:
        connection.first_request = at
    else:
        tables.exchanges[connection.last_request].following = at
    connection.last_request = at
    return at


@compiled_part
def next_unanswered(tables, connection):
    """Return the exchange that the next answer belongs to; ABSENT: no request is unanswered."""
    if connection.last_answered == ABSENT:
        return connection.first_request
    last_answered = tables.exchanges[connection.last_answered]
    return connection.last_answered if last_answered.response_first == NONE else last_answered.following


@compiled_part
def is_answered(tables, connection):
    """Return whether the answer to the last request has begun."""
    return connection.last_request == ABSENT or (
        connection.last_answered == connection.last_request
        and tables.exchanges[connection.last_request].response_first != NONE
    )


@compiled_part
def note_request(tables, connection, time, size):
    """Add bytes to the last request."""
    if connection.last_request != ABSENT:
        exchange = tables.exchanges[connection.last_request]
        exchange.request_last = max(exchange.request_last, time)
        exchange.request_bytes += size


@compiled_part
def begin_answer(tables, connection):
    """Begin the next answer, whose request may be missing from the capture."""
    waiting = next_unanswered(tables, connection)
    connection.orphan = waiting == ABSENT
    if connection.orphan:
        tables.counts[ANSWER_ALONE] += 1
    else:
        connection.last_answered = waiting


@compiled_part
def note_answer(tables, connection, time, size):
    """Add bytes to the current answer."""
    if connection.last_answered != ABSENT and not connection.orphan:
        exchange = tables.exchanges[connection.last_answered]
        if exchange.response_first == NONE:
            exchange.response_first = exchange.response_last = time
        exchange.response_last = max(exchange.response_last, time)
        exchange.response_bytes += size
