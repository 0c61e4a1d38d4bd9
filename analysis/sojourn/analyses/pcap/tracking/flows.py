"""Find the connection of a segment."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from sojourn.analyses.pcap.tracking.heads import copy
from sojourn.analyses.pcap.tracking.states import ABSENT, N_CONNECTIONS, NONE, UNDECIDED
from sojourn.model.compilation import compiled, compiled_part


@compiled_part
def place(low, high, salt):
    """Hash both endpoints of a flow to a slot (the finaliser of SplitMix64, Steele et al. 2014)."""
    mixed = np.uint64(low) * np.uint64(0x9E3779B97F4A7C15) ^ salt
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) ^ np.uint64(high)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1))


@compiled_part
def slot_of(tables, flows, low, high):
    """Return the slot of a flow, or the empty slot where it would be stored."""
    last = len(flows.slots) - 1
    at = place(low, high, flows.salt[0]) & last
    while flows.slots[at] != ABSENT:
        connection = tables.connections[flows.slots[at]]
        if connection.low == low and connection.high == high:
            break
        at = (at + 1) & last
    return at


@compiled
def refill(tables, flows, old):
    """Copy every flow of the old slots into the new, empty slots of ``flows``."""
    for number in old:
        if number != ABSENT:
            connection = tables.connections[number]
            flows.slots[slot_of(tables, flows, connection.low, connection.high)] = number


@compiled_part
def new_connection(tables, flows, low, high, slot, time):
    """Add a connection to a flow and return its number; an earlier connection of the flow gets no more segments."""
    number = tables.counts[N_CONNECTIONS]
    tables.counts[N_CONNECTIONS] += 1
    flows.slots[slot] = number
    connection = tables.connections[number]
    connection.low, connection.high = low, high
    connection.client, connection.protocol, connection.reset_by = ABSENT, UNDECIDED, ABSENT
    connection.first = connection.last = time
    connection.syn = connection.syn_answered = connection.syn_last = connection.syn_ack = connection.syn_ack_last = NONE
    connection.established = connection.ack_taken = connection.reset = NONE
    connection.client_hello = connection.server_hello = connection.tls_ready = NONE
    connection.last_request = connection.last_answered = connection.first_request = ABSENT
    for side in (tables.sides[2 * number], tables.sides[2 * number + 1]):
        side.isn, side.fin, side.data, side.hole = ABSENT, NONE, NONE, ABSENT
    low_serves, high_serves = flows.servers[low & 0xFFFF], flows.servers[high & 0xFFFF]
    if low_serves != high_serves:
        connection.client = 1 if low_serves else 0
    return number


@compiled
def compact_heads(tables, to):
    """Copy the incomplete heads into ``to`` without gaps; return the number of bytes used."""
    used = 0
    for row in range(2 * tables.counts[N_CONNECTIONS]):
        side = tables.sides[row]
        if side.head_room > 0:
            copy(to, used, tables.heads_read, side.head_at, side.head_length)
            side.head_at = used
            used += side.head_room
    return used
