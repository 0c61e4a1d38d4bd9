"""Lay out the result of a capture."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import polars as pl

from sojourn.analyses.pcap import charts
from sojourn.analyses.pcap.charts_packets import example_rows, packet_sequence
from sojourn.analyses.pcap.notes import failures_of, notes_of, ranked
from sojourn.analyses.pcap.readings import agreement_reading, packets_reading, steps_reading, waits_reading
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.vantage import AT_SERVER
from sojourn.analyses.question import ReportContext
from sojourn.model.figures import Summary
from sojourn.model.formatting import counted, milliseconds, percent
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "A connection waits in the kernel's SYN queue from its SYN to the final ACK of its handshake, then in the accept "
    "queue until the server calls accept(), which no packet shows. Times are by the capturing machine's clock."
)
SERVERS = 50
EXACT, AT_MOST, AT_LEAST, ROUND_TRIP, UNKNOWN = "known", "at most", "at least", "round trip", "unknown"
# Figure -> the queue, the kind of figure, its first and last event.
QUEUES = {
    "proxy_syn_dropped": ("proxy: SYN dropped", EXACT, "SYN → last SYN"),
    "proxy_syn_queue": ("proxy SYN queue", EXACT, "last SYN → ACK accepted"),
    "proxy_round_trip": ("proxy: handshake", ROUND_TRIP, "last SYN → ACK"),
    "proxy_accept_wait_upper": ("proxy accept queue", AT_MOST, "ACK → nginx reads"),
    "syn_dropped": ("backend: SYN dropped", EXACT, "SYN → last SYN"),
    "syn_queue": ("backend SYN queue", EXACT, "last SYN → ACK accepted"),
    "round_trip": ("backend: handshake", ROUND_TRIP, "last SYN → ACK"),
    "accept_wait": ("backend accept queue", EXACT, "ACK → app starts"),
    "accept_wait_lower": ("backend accept queue", AT_LEAST, "ACK → ACK accepted"),
    "accept_wait_upper": ("backend accept queue", AT_MOST, "ACK → latest start"),
}
# Figures of dropped SYNs -> the servers of these SYNs.
SIDE_OF_DROPPED = {"proxy_syn_dropped": pl.col("leg") == "client", "syn_dropped": pl.col("leg") != "client"}
ENDS = {
    "open": "still open",
    "fin": "closed in order",
    "reset_by_client": "reset by the client",
    "reset_by_server": "reset by the server",
    "refused": "refused: a reset in answer to the SYN",
    "unanswered": "no answer to any SYN",
}


@lay_out.register(WireResult)
def wire_section(result: WireResult, *, audited: bool = False) -> Section:
    """Return the section of ``pcap``; ``audited``: an audit on the same page shows the failed checks."""
    return Section(
        key="wire",
        title="Packets and the queues before accept()",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(failures_of(result, audited=audited)),
        tables=tuple(
            table
            for table in (_queues(result), _steps(result), _servers(result), _ends(result), _agreement(result))
            if table.rows
        ),
        pictures=tuple(_pictures(result)),
        notes=tuple(notes_of(result)),
    )


def sentence(result: WireResult) -> str:
    """Return the main finding in one sentence."""
    connections = result.connections
    if connections.is_empty():
        packets = f"the {counted(result.counts.packets, 'packet')}" if result.counts.packets else "an empty capture"
        return f"There is no TCP connection in {packets}{_content(result)}."
    opened = connections.filter(pl.col("syn").is_not_null())
    repeated = int((opened["syn_retransmissions"] > 0).sum())
    if opened.is_empty():
        text = f"{counted(len(connections), 'connection')}, all older than the capture"
    else:
        text = f"{counted(len(opened), 'connection')} requested, "
        text += f"{repeated:,} of them ({percent(repeated / len(opened))})" if repeated else "none of them"
        text += " with a repeated SYN"
    lost = sum(result.ends.get(end, 0) for end in ("refused", "unanswered"))
    if lost:
        text += f", {lost:,} refused or never answered"
    return f"{text}; {_accept_queue(result)}."


def _accept_queue(result: WireResult) -> str:
    wait, upper = _figure(result, "accept_wait"), _figure(result, "accept_wait_upper")
    if wait is not None:
        return (
            f"requests waited {milliseconds(wait['p50'])} ms (p50), {milliseconds(wait['p99'])} ms (p99) in the "
            "backends' accept queue, up to the app's own start"
        )
    if upper is not None:
        lower = _figure(result, "accept_wait_lower")
        return (
            "packets only bound the wait in the backends' accept queue: between "
            f"{milliseconds(lower['p99'] if lower else 0.0)} and {milliseconds(upper['p99'])} ms at p99"
        )
    return "the wait in the backends' accept queue is unknown: no request opened a connection to a backend"


def _figure(result: WireResult, name: str) -> Summary | None:
    summary = result.figures.get(name)
    return summary if summary is not None and summary["p99"] is not None else None


def _content(result: WireResult) -> str:
    """Describe the packets of a capture without TCP, and their tunnels."""
    counts = result.counts
    content = ranked(counts.other)
    if not counts.tunnels:
        return f": {content}" if content else ""
    return f": {ranked(counts.tunnels)} through tunnels; inside: {content or 'no packet that could be decoded'}"


def _queues(result: WireResult) -> Table:
    rows = []
    for name, (queue, usual, events) in QUEUES.items():
        summary = _figure(result, name)
        if summary is not None:
            kind = _kind_of_dropped(result, summary, SIDE_OF_DROPPED[name]) if name in SIDE_OF_DROPPED else usual
            figures = (milliseconds(None if kind == UNKNOWN else summary[figure]) for figure in ("p50", "p99", "max"))
            rows.append((queue, kind, events, f"{result.sizes.get(name, 0):,}", *figures))
    headings = ("queue", "kind", "from → to", "n", "p50", "p99", "max")
    return Table(headings, tuple(rows), "The queues before accept(), ms", text_columns=3)


def _kind_of_dropped(result: WireResult, summary: Summary, side: pl.Expr) -> str:
    """Return the kind of the time until the answered SYN; only a capture at the server proves dropped SYNs."""
    repeated = result.servers.filter(side, pl.col("syn_retransmissions") > 0)
    if repeated.is_empty():
        return EXACT
    if not summary["max"]:  # the repeated SYNs belong to other connections, or their answers were lost
        return UNKNOWN
    return EXACT if repeated.select(AT_SERVER.all()).item() else AT_MOST


def _steps(result: WireResult) -> Table:
    if "step" not in result.steps.columns:
        return Table((), ())
    rows = tuple(
        (
            f"+{row['step']:g} s",
            _side(row["leg"]),
            "answered" if row["answered"] else "never answered",
            f"{row['connections']:,}",
            f"{row['retransmissions']:,}",
        )
        for row in result.steps.iter_rows(named=True)
    )
    headings = ("last SYN", "to", "result", "connections", "repeats")
    return Table(headings, rows, "Repeated SYNs: time from the first to the last", text_columns=3, shown=12)


def _servers(result: WireResult) -> Table:
    if "server" not in result.servers.columns:
        return Table((), ())
    columns = {
        "connections": "connections",
        "syn_retransmissions": "SYN again",
        "acks_dropped": "ACK lost",
        "acks_doubtful": "ACK lost?",
        "refused": "refused",
        "unanswered": "silent",
        "reset_by_server": "reset",
        "zero_windows": "window 0",
    }
    # Columns of zeros are left out.
    nonzero = [name for name in columns if name == "connections" or bool(result.servers[name].sum())]
    rows = tuple(
        (
            row["server"],
            _side(row["leg"]),
            *(f"{row[name]:,}" for name in nonzero),
            milliseconds(row["handshake_p99"]),
        )
        for row in result.servers.head(SERVERS).iter_rows(named=True)
    )
    headings = ("server", "role", *(columns[name] for name in nonzero), "p99")
    more = max(len(result.servers) - SERVERS, 0)
    return Table(headings, rows, "Servers; p99 of the handshake, ms", text_columns=2, more=more)


def _side(leg: str) -> str:
    return {"client": "proxy", "backend": "backend"}.get(leg, "unknown")


def _ends(result: WireResult) -> Table:
    ends: Mapping[str, int] = {name: count for name, count in result.ends.items() if count}
    total = sum(ends.values())
    rows = tuple(
        (ENDS.get(name, name), f"{count:,}", percent(count / total))
        for name, count in sorted(ends.items(), key=lambda item: -item[1])
    )
    return Table(("connections", "", "share"), rows, "How connections ended")


def _agreement(result: WireResult) -> Table:
    rows = tuple(
        (
            agreed.figure,
            f"{agreed.requests:,}",
            milliseconds(agreed.median),
            milliseconds(agreed.p99),
            milliseconds(agreed.max),
            f"{agreed.beyond:,}",
        )
        for agreed in result.agreement
        if agreed.requests
    )
    headings = ("figure", "requests", "median", "p99", "max", "beyond")
    return Table(
        headings,
        rows,
        "Log minus wire, ms: p99 and max are absolute; beyond: more than nginx's resolution explains",
    )


def _pictures(result: WireResult) -> list[Picture]:
    if result.connections.is_empty():
        return []
    pictures = []
    for number, (row, remark) in enumerate(example_rows(result.timeline)):
        drawn = functools.partial(
            packet_sequence, result.timeline, row, result.connections, result.exchanges, remark=remark
        )
        pictures.append(
            Picture(
                f"wire-packets-{number + 1}",
                "One request, packet by packet" if not number else "A median request, packet by packet",
                "Time goes down, not to scale; labels are in ms since the first packet. Orange is time in a queue, "
                "pale where it is an upper bound; blue is the service time.",
                drawn,
                packets_reading(result, row, remark),
            )
        )
    if any(len(charts.wait_table(result, side)) for side in charts.LINES):
        pictures.append(
            Picture(
                "wire-waits",
                "Waits before accept()",
                "The share of requests that waited no longer than a time, in each queue. Waits below 0.01 ms are at "
                "the left edge; where only bounds are known, the wait is in the shaded area.",
                functools.partial(charts.waits_chart, result),
                waits_reading(result),
            )
        )
    if len(charts.step_table(result)):
        pictures.append(
            Picture(
                "wire-steps",
                "Repeated SYNs",
                "Connections by the time from their first to their last SYN; response times have modes at the same "
                "places.",
                functools.partial(charts.steps_chart, result),
                steps_reading(result),
            )
        )
    if len(charts.agreement_table(result)):
        pictures.append(
            Picture(
                "wire-agreement",
                "The log against the wire",
                "The log's figure minus that of the packets: the median, the middle half and 98 % of the requests; the "
                "grey band is nginx's resolution of 1 ms.",
                functools.partial(charts.agreement_chart, result),
                agreement_reading(result),
            )
        )
    return pictures


def report_section(context: ReportContext) -> Section | None:
    """Return the section of a report; None without a capture."""
    packets = getattr(context.requests, "wire", None)
    return None if packets is None else wire_section(packets, audited=True)  # the audit has its checks
