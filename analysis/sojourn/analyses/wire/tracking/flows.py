"""Which connection a segment belongs to."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from sojourn.analyses.wire.tracking.heads import copy
from sojourn.analyses.wire.tracking.states import ABSENT, N_CONNECTIONS, NONE, UNDECIDED
from sojourn.model.compilation import compiled, compiled_part


@compiled_part
def place(low, high, salt):
    """A number that spreads flows over the slots (the finaliser of SplitMix64, Steele et al. 2014, on both ends)."""
    mixed = np.uint64(low) * np.uint64(0x9E3779B97F4A7C15) ^ salt
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) ^ np.uint64(high)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1))


@compiled_part
def slot_of(tables, flows, low, high):
    """The slot of a flow, or the empty one it would have."""
    last = len(flows.slots) - 1
    at = place(low, high, flows.salt[0]) & last
    while flows.slots[at] != ABSENT:
        one = tables.connections[flows.slots[at]]
        if one.low == low and one.high == high:
            break
        at = (at + 1) & last
    return at


@compiled
def refill(tables, flows, old):
    """Put every flow of the old slots into the new, empty ones of ``flows``."""
    for found in old:
        if found != ABSENT:
            one = tables.connections[found]
            flows.slots[slot_of(tables, flows, one.low, one.high)] = found


@compiled_part
def new_connection(tables, flows, low, high, slot, time):
    """The number of a new connection of that flow; an earlier one of it gets no segments any more."""
    number = tables.counts[N_CONNECTIONS]
    tables.counts[N_CONNECTIONS] += 1
    flows.slots[slot] = number
    one = tables.connections[number]
    one.low, one.high = low, high
    one.client, one.protocol, one.reset_by = ABSENT, UNDECIDED, ABSENT
    one.first = one.last = time
    one.syn = one.syn_answered = one.syn_last = one.syn_ack = one.syn_ack_last = NONE
    one.established = one.ack_taken = one.reset = NONE
    one.client_hello = one.server_hello = one.tls_ready = NONE
    one.last_request = one.last_answered = one.first_request = ABSENT
    for side in (tables.sides[2 * number], tables.sides[2 * number + 1]):
        side.isn, side.fin, side.data, side.hole = ABSENT, NONE, NONE, ABSENT
    low_serves, high_serves = flows.servers[low & 0xFFFF], flows.servers[high & 0xFFFF]
    if low_serves != high_serves:
        one.client = 1 if low_serves else 0
    return number


@compiled
def compact_heads(tables, to):
    """Copy the heads that are not complete into ``to``, without what lies between them; returns the bytes used."""
    used = 0
    for row in range(2 * tables.counts[N_CONNECTIONS]):
        side = tables.sides[row]
        if side.head_room > 0:
            copy(to, used, tables.heads_read, side.head_at, side.head_length)
            side.head_at = used
            used += side.head_room
    return used
