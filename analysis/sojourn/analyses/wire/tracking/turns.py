"""The rows of exchanges, and which of them a byte belongs to."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.wire.tracking.states import ABSENT, ANSWER_ALONE, N_EXCHANGES, NONE, TEXTS
from sojourn.model.compilation import compiled_part


@compiled_part
def begin_exchange(tables, number, time):
    """Another exchange on a connection, of which nothing is known yet."""
    at = tables.counts[N_EXCHANGES]
    tables.counts[N_EXCHANGES] += 1
    one = tables.connections[number]
    exchange = tables.exchanges[at]
    exchange.connection, exchange.following = number, ABSENT
    exchange.request_first = exchange.request_last = time
    exchange.response_first = exchange.response_last = NONE
    for k in range(len(TEXTS)):
        exchange.text[k] = ABSENT
    one.exchanges += 1
    exchange.number = one.exchanges
    if one.last_request == ABSENT:
        one.first_request = at
    else:
        tables.exchanges[one.last_request].following = at
    one.last_request = at
    return at


@compiled_part
def awaited(tables, one):
    """The exchange that the next answer belongs to; ABSENT: none waits for one."""
    if one.last_answered == ABSENT:
        return one.first_request
    last_answered = tables.exchanges[one.last_answered]
    return one.last_answered if last_answered.response_first == NONE else last_answered.following


@compiled_part
def is_answered(tables, one):
    """Whether the answer to the last request has begun."""
    return one.last_request == ABSENT or (
        one.last_answered == one.last_request and tables.exchanges[one.last_request].response_first != NONE
    )


@compiled_part
def note_request(tables, one, time, size):
    """Bytes of the last request."""
    if one.last_request != ABSENT:
        exchange = tables.exchanges[one.last_request]
        exchange.request_last = max(exchange.request_last, time)
        exchange.request_bytes += size


@compiled_part
def begin_answer(tables, one):
    """The next answer begins; it may be to no request that is in the capture."""
    waiting = awaited(tables, one)
    one.orphan = waiting == ABSENT
    if one.orphan:
        tables.counts[ANSWER_ALONE] += 1
    else:
        one.last_answered = waiting


@compiled_part
def note_answer(tables, one, time, size):
    """Bytes of the answer that is coming in."""
    if one.last_answered != ABSENT and not one.orphan:
        exchange = tables.exchanges[one.last_answered]
        if exchange.response_first == NONE:
            exchange.response_first = exchange.response_last = time
        exchange.response_last = max(exchange.response_last, time)
        exchange.response_bytes += size
