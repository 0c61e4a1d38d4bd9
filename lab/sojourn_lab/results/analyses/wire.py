"""Packets of a case, and how far its log agrees with them: repeated SYNs, resets, the wait for accept().

Of requests that arrived in the window, by the clock of the capturing machine. Durations in seconds.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.split.run import split_requests

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData

SUMMARIES = ("handshake", "syn_dropped", "syn_queue", "accept_wait_lower", "accept_wait_upper", "accept_wait")
HALF_MS = 0.0005


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case's packets; LabError where nothing was captured.

    `packets` and `undecoded`: of the whole run. Of the case: `joined`, `joined_share` of the log's records; `resent`:
    requests whose connection to the app needed more than one SYN, `syn_retransmissions` their number; `acks_dropped`:
    repeated SYN-ACKs, each of which proves that a final ACK was dropped; `request_resent`: connections on which nginx
    sent the request again, which proves the same on a loopback without loss; `resets`: connections that the app's
    kernel reset; `refused` and `unanswered`: connections without a handshake. `handshake`, `syn_dropped`, `syn_queue`,
    `accept_wait` and its bounds, with the events of `sojourn pcap`: mean, p50, p90, p99, p999, max. `agreement`: log
    minus wire, for each of the log's figures: median of the difference, p99 and max of its absolute value, and
    `within_1ms`, the share of the requests for which it is at most a millisecond. `queue` is the split's queue minus
    accept_wait; it begins at nginx's stamp, which is truncated to milliseconds and therefore half a millisecond early
    on average: `centred_p99` is p99 of the difference after that half is subtracted. `queue_p99_apart`: the distance of
    p99 of the split's queue from p99 of accept_wait, over the same requests.
    """
    if data.recordings is None or not data.recordings.captures:
        raise LabError("nothing was captured: the analysis `wire` needs `capture = true` in the scenario, or --capture")
    split = split_requests(data.requests, since=data.since, until=data.until, where={"service": data.name})
    return figures_of(data.recordings.wire(split, data.since, data.until))


def figures_of(result: WireResult) -> dict[str, Any]:
    """Return `figures` of the packets of a case."""
    backend = result.connections.filter(pl.col("leg") == "backend")
    joined = _connections_of_joined(result)
    ends = dict(backend.group_by(pl.col("end").cast(pl.String)).len().iter_rows())
    return {
        "packets": result.counts.packets,
        "undecoded": sum(result.counts.undecoded.values()),
        "connections": len(backend),
        "joined": result.joined.requests,
        "joined_share": result.joined.share,
        "resent": int((joined["syn_retransmissions"] > 0).sum()),
        "syn_retransmissions": int(joined["syn_retransmissions"].sum()),
        "acks_dropped": int(backend["acks_dropped"].sum()),
        "request_resent": int((backend["client_retransmissions"] > 0).sum()),
        "syn_ack_retransmissions": int(backend["syn_ack_retransmissions"].sum()),
        "resets": ends.get("reset_by_server", 0),
        "refused": ends.get("refused", 0),
        "unanswered": ends.get("unanswered", 0),
        **{name: result.figures.get(name) for name in SUMMARIES},
        "queue_p99_apart": _p99_apart(result),
        "agreement": {
            each.figure: {
                "requests": each.requests,
                "median": each.median,
                "p99": each.p99,
                "max": each.max,
                "within_1ms": (result.differences[each.figure].drop_nulls().abs() <= 0.001).mean(),
                "centred_p99": (result.differences[each.figure].drop_nulls() - HALF_MS).abs().quantile(0.99, "linear"),
            }
            for each in result.agreement
        },
    }


def _p99_apart(result: WireResult) -> float | None:
    """Return the distance, s, of two p99 of the wait for accept(): by the log, and on the wire."""
    both = result.timeline.filter(pl.col("log_row").is_not_null()).select("accept_wait")
    both = both.with_columns(queue=pl.col("accept_wait") + result.differences["queue"]).drop_nulls()
    if both.is_empty():
        return None
    by_log, on_wire = (float(both[name].quantile(0.99, "linear") or 0.0) for name in ("queue", "accept_wait"))
    return abs(by_log - on_wire)


def _connections_of_joined(result: WireResult) -> pl.DataFrame:
    """Return the connections to the app whose requests are in the log too."""
    logged = result.timeline.filter(pl.col("log_row").is_not_null()).select(exchange="backend_exchange").drop_nulls()
    used = result.exchanges.join(logged, on="exchange", how="semi").select("connection").unique()
    return result.connections.join(used, on="connection", how="semi")
