"""The rows of exchanges, and which of them a byte belongs to."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from sojourn.analyses.wire.tracking.states import ANSWER_ALONE, N_EXCHANGES, NOBODY, NONE, TEXTS
from sojourn.model.compilation import compiled_part


@compiled_part
def begin_exchange(tables, number, time):
    """Another exchange on a connection, of which nothing is known yet."""
    at = tables.counts[N_EXCHANGES]
    tables.counts[N_EXCHANGES] += 1
    one = tables.connections[number]
    exchange = tables.exchanges[at]
    exchange.connection, exchange.following = number, NOBODY
    exchange.request_first = exchange.request_last = time
    exchange.response_first = exchange.response_last = NONE
    for k in range(len(TEXTS)):
        exchange.text[k] = NOBODY
    one.exchanges += 1
    exchange.number = one.exchanges
    if one.asked == NOBODY:
        one.first_asked = at
    else:
        tables.exchanges[one.asked].following = at
    one.asked = at
    return at


@compiled_part
def awaited(tables, one):
    """The exchange that the next answer belongs to; NOBODY: none waits for one."""
    if one.answered == NOBODY:
        return one.first_asked
    answered = tables.exchanges[one.answered]
    return one.answered if answered.response_first == NONE else answered.following


@compiled_part
def is_answered(tables, one):
    """Whether the answer to the last request has begun."""
    return one.asked == NOBODY or (one.answered == one.asked and tables.exchanges[one.asked].response_first != NONE)


@compiled_part
def note_request(tables, one, time, size):
    """Bytes of the last request."""
    if one.asked != NOBODY:
        exchange = tables.exchanges[one.asked]
        exchange.request_last = max(exchange.request_last, time)
        exchange.request_bytes += size


@compiled_part
def begin_answer(tables, one):
    """The next answer begins; it may be to no request that is in the capture."""
    waiting = awaited(tables, one)
    one.orphan = waiting == NOBODY
    if one.orphan:
        tables.counts[ANSWER_ALONE] += 1
    else:
        one.answered = waiting


@compiled_part
def note_answer(tables, one, time, size):
    """Bytes of the answer that is coming in."""
    if one.answered != NOBODY and not one.orphan:
        exchange = tables.exchanges[one.answered]
        if exchange.response_first == NONE:
            exchange.response_first = exchange.response_last = time
        exchange.response_last = max(exchange.response_last, time)
        exchange.response_bytes += size
