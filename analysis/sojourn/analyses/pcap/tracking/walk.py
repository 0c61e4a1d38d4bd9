"""Process a batch of segments in order."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from sojourn.analyses.pcap.tracking.flows import new_connection, slot_of
from sojourn.analyses.pcap.tracking.heads import HEAD_LIMIT
from sojourn.analyses.pcap.tracking.segments import RST, SYN, is_another, is_copy, remember, take_segment
from sojourn.analyses.pcap.tracking.states import ABSENT, N_CONNECTIONS, N_EXCHANGES, N_HEADS, N_HOLES, N_TEXTS
from sojourn.model.compilation import compiled, compiled_part


@compiled_part
def has_room(tables, flows, captured):
    """Return whether the tables have room for a segment with ``captured`` bytes of captured payload."""
    used = tables.counts
    return (
        used[N_CONNECTIONS] + 1 <= len(tables.connections)
        and 2 * (used[N_CONNECTIONS] + 1) <= len(flows.slots)
        and used[N_EXCHANGES] + captured // 4 + 2 <= len(tables.exchanges)
        and used[N_HOLES] + 2 <= len(tables.holes)
        and used[N_HEADS] + 8 * HEAD_LIMIT <= len(tables.heads)
        and used[N_TEXTS] + captured + 2 * HEAD_LIMIT <= len(tables.texts)
    )


@compiled_part
def needs_servers(flags):
    """Return whether the client of a connection with this first segment depends on the ports of servers.

    A SYN determines the client; one with a reset is not processed as a SYN.
    """
    return not flags & SYN or flags & RST


@compiled
def walk(
    tables,
    flows,
    time,
    source,
    target,
    source_port,
    target_port,
    seq,
    ack,
    flags,
    window,
    ip_id,
    length,
    payload,
    captured,
    buffer,
    at,
):
    """Process the segments from ``at`` on.

    Returns:
        The index of the first segment for which the tables have no room; its complement (less than 0) if the segment
        needs the ports of servers, which are not known yet; else the number of segments.
    """
    for i in range(at, len(time)):
        if not has_room(tables, flows, np.int64(captured[i])):
            return i
        sent_from = (np.int64(source[i]) << 16) | np.int64(source_port[i])
        sent_to = (np.int64(target[i]) << 16) | np.int64(target_port[i])
        low, high = min(sent_from, sent_to), max(sent_from, sent_to)
        d = 0 if sent_from == low else 1
        s, a, f = np.int64(seq[i]), np.int64(ack[i]), np.int64(flags[i])
        w, size, identity = np.int64(window[i]), np.int64(length[i]), np.int32(ip_id[i])
        numbers = (s << 32) | a
        rest = (size << 28) | (w << 12) | (f & 0xFFF)
        slot = slot_of(tables, flows, low, high)
        number = int(flows.slots[slot])
        if number != ABSENT:
            if is_copy(flows, 2 * number + d, tables.sides[2 * number + d].packets, time[i], numbers, rest, identity):
                tables.connections[number].copies += 1
                continue
            if is_another(tables, number, d, s, a, f, size):
                number = ABSENT
        if number == ABSENT:
            if not flows.servers_complete[0] and needs_servers(f):
                return ~i
            number = new_connection(tables, flows, low, high, slot, time[i])
        remember(tables, flows, 2 * number + d, time[i], numbers, rest, identity)
        take_segment(tables, number, d, time[i], s, a, f, w, size, buffer, payload[i], np.int64(captured[i]))
    return len(time)
