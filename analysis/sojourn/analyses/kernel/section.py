"""Lay out the figures of the queues before accept(), by the kernel, and before the workers, by the servers."""

from __future__ import annotations

from functools import partial

from sojourn.analyses.kernel.charts_accept_queue import accept_queue
from sojourn.analyses.kernel.result import KernelResult
from sojourn.host.servers.kinds import KINDS
from sojourn.model.formatting import counted, duration, milliseconds, percent, printable, tally
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Accept queue: from the end of the TCP handshake, or of connect() to a Unix socket, to accept(). SYN_RECV: from "
    "the SYN to the final ACK of the handshake. Depths are what samples saw, counters everything between them, of the "
    "whole network namespace."
)
NOTHING = "–"
MEANINGS = {
    "ListenOverflows": "turned away: accept queue full",
    "ListenDrops": "turned away: for any reason, overflows included",
    "TCPReqQFullDrop": "SYN dropped: SYN queue full, no cookies",
    "TCPReqQFullDoCookies": "SYN met a full SYN queue, cookies on",
    "SyncookiesSent": "SYN cookies sent",
    "SyncookiesRecv": "SYN cookies that came back",
    "SyncookiesFailed": "SYN cookies that were wrong or too old",
    "TCPSynRetrans": "own SYNs and SYN-ACKs sent again",
    "TCPAbortOnMemory": "connections reset: no memory",
    "TCPBacklogDrop": "packets dropped: a busy socket's own backlog",
    "TCPDeferAcceptDrop": "bare ACKs held back until data came",
}


@lay_out.register(KernelResult)
def kernel_section(result: KernelResult) -> Section:
    """Return the section of ``kernel``."""
    return Section(
        key="kernel",
        title="The queues before accept()",
        sentence=sentence(result),
        measures=MEASURES,
        failures=tuple(_failures(result)),
        tables=tuple(_tables(result)),
        pictures=_pictures(result),
        notes=(*(f"{each.sentence} {each.mend}".rstrip() for each in result.findings), *_meanings(result)),
    )


def sentence(result: KernelResult) -> str:
    """Return the result in one sentence."""
    samples = f"{counted(result.samples, 'sample')} in {duration(result.seconds)}"
    if not len(result.sockets):
        text = f"No listening socket matched ({samples})"
        return text + (f"; the kernel turned away {counted(result.overflows, 'packet')}." if result.overflows else ".")
    worst = result.sockets.row(0, named=True)
    socket, most = printable(worst["socket"], 60), worst["limit"] + 1
    if worst["full"]:
        share = percent(worst["full_share"])
        text = f"The accept queue of {socket} was full, {counted(most, 'connection')}, in {share} of {samples}"
        if worst["port"] is None:
            return text + "; what a full Unix socket refuses is not counted."
        if result.overflows is None:
            return text + "; what was turned away meanwhile is unknown."
        return text + f", and the kernel turned away {counted(result.overflows, 'packet')} for a full queue."
    deepest = f"the deepest, of {socket}, held {worst['deepest']:,} of at most {counted(most, 'connection')}"
    if result.overflows:
        return (
            f"The kernel turned away {counted(result.overflows, 'packet')} for a full accept queue, though no sample "
            f"saw one full: {deepest} ({samples})."
        )
    refusals = "" if result.overflows is None else ", and no packet was turned away for one"
    return f"No accept queue was full: {deepest}{refusals} ({samples})."


def _failures(result: KernelResult) -> list[str]:
    failures = [
        f"{what} could not be read in {count:,} of {counted(result.samples, 'sample')}: {reason}."
        for what, (count, reason) in result.unavailable.items()
        if what not in ("netlink", "samples")
    ]
    if result.missing:
        failures.append(
            f"{counted(result.missing, 'sample is', 'samples are')} missing: depths of those moments are unknown, "
            "counters have no gap."
        )
    if result.resets:
        failures.append(
            f"Counters went back {counted(result.resets, 'time')}: another boot or network namespace, or a 32-bit "
            "counter that restarted. Changes across a restart are not counted."
        )
    if result.backward:
        failures.append(f"The clock was set back {counted(result.backward, 'time')} while this was recorded.")
    records = result.records
    if records is not None and records.rejected:
        failures.append(
            f"{records.rejected:,} of {counted(records.read, 'line')} {'was' if records.rejected == 1 else 'were'} "
            f"refused: {tally(records.reasons)}."
        )
    if "netlink" in result.unavailable:
        failures.append(f"netlink: {result.unavailable['netlink'][1]}.")
    return failures


def _tables(result: KernelResult) -> list[Table]:
    sockets = Table(
        ("socket", "last", "deepest", "mean", "full at", "full", "requested", "SYN_RECV"),
        tuple(
            (
                row["socket"], f"{row['last']:,}", f"{row['deepest']:,}", f"{row['mean']:,.1f}",
                f"{row['limit'] + 1:,}", percent(row["full_share"]), _number(row["asked"]), _number(row["syn_recv"]),
            )
            for row in result.sockets.iter_rows(named=True)
        ),
        "Accept queues, connections",
    )  # fmt: skip
    counters = Table(
        ("counter", "", "increase", "per s"),
        tuple(
            (name, MEANINGS[name], f"{increase:,}", _rate(increase, result.seconds))
            for name, increase in result.increases.items()
            if increase or name in ("ListenOverflows", "ListenDrops")
        ),
        "Counted meanwhile",
        text_columns=2,
        shown=len(MEANINGS),
    )
    settings = Table(
        ("setting", "in force"),
        tuple(
            (name, f"{value:,}" + (" (changed)" if name in result.changed else ""))
            for name, value in result.settings.items()
        ),
        "Settings",
    )
    return [table for table in (sockets, *_server_tables(result), counters, settings) if table.rows]


def _server_tables(result: KernelResult) -> list[Table]:
    servers = result.servers.to_dicts()
    names = _short_names([row["server"] for row in servers])
    queues = Table(
        ("server", "kind", "busy", "mean", "waiting", "deepest", "mean", "limit", "reached"),
        tuple(
            (
                names[row["server"]], row["kind"], _busy(row["busy"], row["workers"]),
                _number(row["busy_mean"], ",.1f"), _number(row["waiting"]), _number(row["deepest"]),
                _number(row["waiting_mean"], ",.1f"), _number(row["limit"]), _number(row["limit_reached"]),
            )
            for row in servers
        ),
        "Queues before the workers, as the servers report them",
        text_columns=2,
    )  # fmt: skip
    loops = Table(
        ("server", "event loop: p99 of delay (ms)", "longest (ms)", "busy at most"),
        tuple(
            (
                row["server"], milliseconds(row["event_loop_delay_p99"]), milliseconds(row["event_loop_delay_max"]),
                percent(row["event_loop_utilisation"]),
            )
            for row in servers
            if row["event_loop_delay_p99"] is not None or row["event_loop_utilisation"] is not None
        ),
    )  # fmt: skip
    answers = Table(
        ("server", "answers", "none", "slowest (ms)"),
        tuple(
            (row["server"], f"{row['answers']:,}", f"{row['unanswered']:,}", milliseconds(row["slowest"]))
            for row in servers
        ),
        "Answers of the servers",
    )
    return [queues, loops, answers]


def _short_names(servers: list[str]) -> dict[str, str]:
    """Return address -> host and port, or path of the socket, for a narrow column; the whole address if ambiguous."""
    short = {}
    for server in servers:
        place = server.rpartition("://")[2]
        if place.startswith("unix:"):
            short[server] = place.split(":")[1]
        else:
            short[server] = place.partition("/")[0].rpartition("@")[2]
    names = list(short.values())
    return {server: name if names.count(name) == 1 else server for server, name in short.items()}


def _meanings(result: KernelResult) -> list[str]:
    """Return what the figures of each kind of server count."""
    return [KINDS[kind].counts for kind in result.servers["kind"].unique(maintain_order=True) if kind in KINDS]


def _busy(busy: int | None, workers: int | None) -> str:
    return _number(busy) if workers is None else f"{_number(busy)} of {workers:,}"


def _number(value: float | None, form: str = ",") -> str:
    return NOTHING if value is None else format(value, form)


def _rate(increase: int, seconds: float) -> str:
    return NOTHING if seconds <= 0 else f"{increase / seconds:,.1f}"


def _pictures(result: KernelResult) -> tuple[Picture, ...]:
    if result.samples < 2:
        return ()
    workers = ", and what waits before the workers" if result.servers["deepest"].max() else ""
    return (
        Picture(
            "accept-queue",
            "The accept queue over time",
            f"Connections that wait for accept(), and how many the queue holds (dashed){workers}; below, packets that "
            "were turned away and handshakes under way.",
            partial(accept_queue, result),
            reading(result),
        ),
    )


def reading(result: KernelResult) -> str:
    """Return a sentence on the deepest queue, its time, and what was turned away."""
    if not len(result.sockets):
        return f"No listening socket was seen in {counted(result.samples, 'sample')}."
    worst = result.sockets.sort("deepest", descending=True).row(0, named=True)
    socket = printable(worst["socket"], 60)
    text = f"The queue of {socket} was the deepest, {worst['deepest']:,} of at most {worst['limit'] + 1:,}"
    if worst["deepest"] and worst["deepest_at"] is not None:
        text += f", at {worst['deepest_at']:%H:%M:%S} UTC"
    if result.overflows is None:
        return f"{text}; what was turned away is unknown."
    drops = result.overflows + (result.other_drops or 0)
    return (
        f"{text}; {counted(drops, 'packet was', 'packets were')} turned away."
        if drops
        else f"{text}; nothing was turned away."
    )
