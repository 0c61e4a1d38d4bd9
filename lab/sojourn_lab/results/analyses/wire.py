"""What the packets of a case show, and how far its log agrees: SYNs sent again, resets, the wait for accept().

Of requests that arrived in the window, by the clock of the machine that captured. Durations in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData

if TYPE_CHECKING:
    import polars as pl
    from sojourn.analyses.wire.result import WireResult

SUMMARIES = ("handshake", "syn_dropped", "syn_queue", "accept_wait_lower", "accept_wait_upper", "accept_wait")
HALF_MS = 0.0005


def figures(data: CaseData) -> dict[str, Any]:
    """Return the case's packets in figures; LabError where nothing was captured.

    `packets` and `undecoded` of all the run. Of the case: `joined`, `joined_share` of the log's records; `resent`:
    requests whose connection to the app needed more than one SYN, `syn_retransmissions` their number; `acks_dropped`:
    repeated SYN-ACKs, each of which proves a final ACK that was not taken; `request_resent`: connections on which nginx
    sent the request and had to send it again, which on a loopback that loses nothing proves the same; `resets`:
    connections that the app's kernel reset, `refused` and `unanswered` in place of a handshake. `handshake`,
    `syn_dropped`, `syn_queue`, `accept_wait` and its bounds, from which event to which as in `sojourn pcap`: mean, p50,
    p90, p99, p999, max. `agreement`: of the log's figures, log less wire: median of the difference, p99 and max of its
    size, and `within_1ms`, the share of the requests for which it is a millisecond or less. `queue` is the split's
    queue less accept_wait; it begins at nginx's stamp, which is cut to milliseconds and therefore half of one early in
    the mean: `centred_p99` is p99 of what the difference is off that half. `queue_p99_apart`: how far p99 of the
    split's queue is from p99 of accept_wait, over the same requests.
    """
    from sojourn.analyses.split.run import split_requests  # noqa: PLC0415 - brings Polars

    if data.recordings is None or not data.recordings.captures:
        raise LabError("nothing was captured")
    split = split_requests(data.requests, since=data.since, until=data.until, where={"service": data.name})
    return figures_of(data.recordings.wire(split, data.since, data.until))


def figures_of(found: WireResult) -> dict[str, Any]:
    """Return `figures` of what the packets of a case show."""
    import polars as pl  # noqa: PLC0415 - late, as everywhere in the lab

    backend = found.connections.filter(pl.col("leg") == "backend")
    joined = _connections_of_joined(found)
    ends = dict(backend.group_by(pl.col("end").cast(pl.String)).len().iter_rows())
    return {
        "packets": found.counts.packets,
        "undecoded": sum(found.counts.undecoded.values()),
        "connections": len(backend),
        "joined": found.joined.requests,
        "joined_share": found.joined.share,
        "resent": int((joined["syn_retransmissions"] > 0).sum()),
        "syn_retransmissions": int(joined["syn_retransmissions"].sum()),
        "acks_dropped": int(backend["acks_dropped"].sum()),
        "request_resent": int((backend["client_retransmissions"] > 0).sum()),
        "syn_ack_retransmissions": int(backend["syn_ack_retransmissions"].sum()),
        "resets": ends.get("reset_by_server", 0),
        "refused": ends.get("refused", 0),
        "unanswered": ends.get("unanswered", 0),
        **{name: found.figures.get(name) for name in SUMMARIES},
        "queue_p99_apart": _p99_apart(found),
        "agreement": {
            each.figure: {
                "requests": each.requests,
                "median": each.median,
                "p99": each.p99,
                "max": each.max,
                "within_1ms": (found.differences[each.figure].drop_nulls().abs() <= 0.001).mean(),
                "centred_p99": (found.differences[each.figure].drop_nulls() - HALF_MS).abs().quantile(0.99, "linear"),
            }
            for each in found.agreement
        },
    }


def _p99_apart(found: WireResult) -> float | None:
    """Return the distance of the two p99 of what requests waited to be accepted, s: by the log, and on the wire."""
    import polars as pl  # noqa: PLC0415

    both = found.timeline.filter(pl.col("log_row").is_not_null()).select("accept_wait")
    both = both.with_columns(queue=pl.col("accept_wait") + found.differences["queue"]).drop_nulls()
    if both.is_empty():
        return None
    by_log, on_wire = (float(both[name].quantile(0.99, "linear") or 0.0) for name in ("queue", "accept_wait"))
    return abs(by_log - on_wire)


def _connections_of_joined(found: WireResult) -> pl.DataFrame:
    """Return the connections to the app of the requests that the log knows, too."""
    import polars as pl  # noqa: PLC0415

    known = found.timeline.filter(pl.col("log_row").is_not_null()).select(exchange="backend_exchange").drop_nulls()
    used = found.exchanges.join(known, on="exchange", how="semi").select("connection").unique()
    return found.connections.join(used, on="connection", how="semi")
