"""Track TCP segments as connections and exchanges.

Segments are processed one by one in the order of the capture. State is kept per connection and per exchange (about
0.7 kB and 0.3 kB each), so memory does not limit the number of packets.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable

import numpy as np

from sojourn.analyses.pcap.tracking.flows import compact_heads, refill
from sojourn.analyses.pcap.tracking.heads import HEAD_LIMIT
from sojourn.analyses.pcap.tracking.messages import give_up_heads
from sojourn.analyses.pcap.tracking.states import (
    ABSENT,
    N_CONNECTIONS,
    N_EXCHANGES,
    N_HEADS,
    N_HOLES,
    N_TEXTS,
    Flows,
    Tables,
    grown,
    new_flows,
    new_tables,
    read_only,
)
from sojourn.analyses.pcap.tracking.walk import walk
from sojourn.analyses.pcap.tracking_frames import connections_frame, exchanges_frame, unparsed_counts
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.readers.capture.batch import Batch

COLUMNS = (
    "time",
    "source",
    "target",
    "source_port",
    "target_port",
    "seq",
    "ack",
    "flags",
    "window",
    "ip_id",
    "length",
    "payload",
    "captured",
    "buffer",
)
"""Columns of a batch, in the order of the parameters of ``walk``."""


def track(
    batches: Iterable[Batch], addresses: list[str], *, servers: Collection[int] | Callable[[], Collection[int]] = ()
) -> TrackingResult:
    """Return the connections and exchanges of a capture.

    Args:
        batches: segments in the order of time.
        addresses: the texts that ``Batch.source`` and ``Batch.target`` index; it may grow while batches are read.
        servers: ports of servers; they determine the client of a connection whose SYN is not in the capture. A function
            is called when the first such connection begins.
    """
    tables, flows = new_tables(), new_flows(secrets.randbits(64))
    ports = servers if callable(servers) else lambda: servers
    for batch in batches:
        tables, flows = _with_batch(tables, flows, batch, ports)
    tables = tables._replace(texts=grown(tables.texts, int(tables.counts[N_TEXTS] + tables.counts[N_HEADS])))
    give_up_heads(tables)
    connections = connections_frame(tables, addresses)
    exchanges = exchanges_frame(tables)
    return TrackingResult(connections, exchanges, unparsed_counts(tables, connections, exchanges))


def _with_batch(
    tables: Tables, flows: Flows, batch: Batch, servers: Callable[[], Collection[int]]
) -> tuple[Tables, Flows]:
    """Return the state after all segments of a batch."""
    columns = [read_only(getattr(batch, name)) for name in COLUMNS]
    at = 0
    while (at := walk(tables, flows, *columns, at)) < len(batch):
        if at < 0:
            at = ~at
            flows.servers[[port for port in servers() if 0 <= port < 1 << 16]] = True
            flows.servers_complete[0] = True
        else:
            tables, flows = _with_room(tables, flows, int(batch.captured[at]))
    return tables, flows


def _with_room(tables: Tables, flows: Flows, payload_bytes: int) -> tuple[Tables, Flows]:
    """Return the state with room for a segment with ``payload_bytes`` captured bytes of payload, and for many more."""
    used = tables.counts
    connections = int(used[N_CONNECTIONS]) + 1
    tables = tables._replace(
        connections=grown(tables.connections, connections),
        sides=grown(tables.sides, 2 * connections),
        exchanges=grown(tables.exchanges, int(used[N_EXCHANGES]) + payload_bytes // 4 + 2),
        holes=grown(tables.holes, int(used[N_HOLES]) + 2),
        texts=grown(tables.texts, int(used[N_TEXTS]) + payload_bytes + 2 * HEAD_LIMIT),
    )
    if used[N_HEADS] + 8 * HEAD_LIMIT > len(tables.heads):
        heads = np.zeros(len(tables.heads), np.uint8)
        used[N_HEADS] = compact_heads(tables, heads)
        heads = grown(heads, 2 * int(used[N_HEADS]) + 8 * HEAD_LIMIT)
        tables = tables._replace(heads=heads, heads_read=read_only(heads))
    flows = flows._replace(recent=grown(flows.recent, 2 * connections))
    if 2 * connections > len(flows.slots):
        old = flows.slots
        flows = flows._replace(slots=np.full(4 * len(old), ABSENT, np.int32))
        refill(tables, flows, old)
    return tables, flows
