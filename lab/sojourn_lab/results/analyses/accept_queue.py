"""Accept and SYN queues of the app servers: their depth, the kernel's drops, and the times of late connections.

The kernel's counters are read from the begin of the window to the last answer of the case. They belong to the network
namespace: only with a `namespace` of the run's own do they exclude other programs.

The client's kernel repeats a dropped SYN after fixed times. With tcp_syn_linear_timeouts = 0, as before Linux 6.5, 1,
3, 7 and 15 s after the first; with 4, the default since, 1, 2, 3, 4, 5, 7, 11 … s after it (net/ipv4/tcp_timer.c,
tcp_retransmit_timer; RFC 6298 section 2). nginx's $upstream_connect_time shows which one connected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl
from sojourn.host.sample import Sample

from sojourn_lab.results.analyses.data import CaseData

STEPS = (1, 2, 3, 4, 5, 7, 11, 15, 19, 31)
"""Seconds after the first SYN at which kernels repeat it."""

LATE, JITTER = 1.0 / 8.0, 0.05
"""How late a kernel's timer may be, as a share of its length (kernel/time/timer.c: a level of the wheel is an eighth as
fine as it is long), and how much later on a busy machine, s."""

VALLEY = (0.5, 0.95)
"""s; only a wait for a worker puts a response there, and in these scenarios no request waits that long."""


def figures(data: CaseData) -> dict[str, Any]:
    """Return the state of the queues in the window and the connect and response times of its requests.

    Of the sockets: `asked` (codespell:ignore asked), `limit`: the configured backlog and the one in force; `room`: the
    connections that fit; `deepest`: the largest depth of an accept queue, `beyond`: by how many that exceeds `room`;
    `syn_recv`: the largest depth of a SYN queue; `full`: share of the samples with a full accept queue. `overflows`:
    SYNs and final ACKs that met a full accept queue; `drops`: all drops of listening sockets, those included;
    `other_drops`: the difference; `syn_queue_drops`, `cookies_sent`, `cookies_taken`. `findings`: findings of
    `sojourn kernel` in the samples, key -> count.

    Of the requests: `stepped`: connected after a repeated SYN, by the log; `steps`: share of all, by step;
    `unexplained`: took half a second or longer to connect, at no step. `by_response`: share of all whose response time
    is at a step or up to 0.4 s later; `valley`: share with a response time between 0.5 and 0.95 s. `bad_gateway`: 502s;
    `answered_share`: share of all with an answer below 400.
    """
    rows = data.rows
    ended = max((each.done for each in data.records if each.done is not None), default=data.until)
    recordings = data.recordings
    samples = [] if recordings is None else recordings.samples_between(data.since, max(ended, data.until))
    kernel = None if recordings is None else recordings.kernel(samples)
    return {
        "asked": data.topology.backlog,  # codespell:ignore asked
        **kernel_figures(samples),
        "findings": {} if kernel is None else dict(Counter(each.key for each in kernel.findings)),
        **row_figures(rows),
    }


def kernel_figures(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the figures of the app servers' sockets, nginx's excluded; None where the samples have no value."""
    sockets = [each for sample in samples for each in sample.sockets if each.name != "nginx"]
    half_open = [each.syn_recv for each in sockets if each.syn_recv is not None]

    def grown(name: str) -> int | None:
        counts = [sample.counters[name] for sample in samples if name in sample.counters]
        return counts[-1] - counts[0] if counts else None

    overflows, drops = grown("ListenOverflows"), grown("ListenDrops")
    room = max((each.limit + 1 for each in sockets), default=None)
    deepest = max((each.depth for each in sockets), default=None)
    return {
        "limit": max((each.limit for each in sockets), default=None),
        "deepest": deepest,
        "room": room,
        "beyond": None if room is None or deepest is None else deepest - room,
        "syn_recv": max(half_open, default=None),
        "full": sum(each.depth > each.limit for each in sockets) / len(sockets) if sockets else None,
        "overflows": overflows,
        "drops": drops,
        "other_drops": None if overflows is None or drops is None else drops - overflows,
        "syn_queue_drops": grown("TCPReqQFullDrop"),
        "cookies_sent": grown("SyncookiesSent"),
        "cookies_taken": grown("SyncookiesRecv"),
    }


def row_figures(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the log's figures: the step at which connections were made, and the distribution of response times."""
    count = max(rows.height, 1)
    connect, response = pl.col("connect"), pl.col("request_time")
    ends = {step: step * (1.0 + LATE) + JITTER for step in STEPS}
    counts = rows.select(
        *(connect.is_between(step - 0.01, ends[step]).sum().alias(f"c{step}") for step in STEPS),
        *(response.is_between(step - 0.01, ends[step] + 0.4).sum().alias(f"r{step}") for step in STEPS),
        valley=response.is_between(*VALLEY).sum(),
        late=(connect >= 0.5).sum(),
        bad=(pl.col("status") == 502).sum(),
        good=(pl.col("status") < 400).sum(),
    ).row(0, named=True)
    stepped = sum(counts[f"c{step}"] for step in STEPS)
    return {
        "requests": rows.height,
        "stepped": stepped,
        "steps": {str(step): counts[f"c{step}"] / count for step in STEPS},
        "by_response": {str(step): counts[f"r{step}"] / count for step in STEPS},
        "unexplained": counts["late"] - stepped,
        "valley": counts["valley"] / count,
        "bad_gateway": counts["bad"],
        "answered_share": counts["good"] / count,
    }
