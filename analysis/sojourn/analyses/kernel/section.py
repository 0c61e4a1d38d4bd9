"""The kernel's figures of the queues before accept(), laid out for people."""

from __future__ import annotations

from sojourn.analyses.kernel.result import KernelResult
from sojourn.model.formatting import counted, duration, milliseconds, percent, printable, tally
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Accept queue: from the end of the TCP handshake to accept(). SYN_RECV: from the SYN to the final ACK of the "
    "handshake. Depths are what samples saw, counters everything between them, of the whole network namespace."
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
def kernel_section(found: KernelResult) -> Section:
    """The section of ``kernel``."""
    return Section(
        key="kernel",
        title="The queues before accept()",
        sentence=sentence(found),
        measures=MEASURES,
        failures=tuple(_failures(found)),
        tables=tuple(_tables(found)),
        pictures=_pictures(found),
        notes=tuple(f"{each.sentence} {each.mend}".rstrip() for each in found.findings),
    )


def sentence(found: KernelResult) -> str:
    """The finding in one sentence."""
    looked = f"{counted(found.samples, 'sample')} in {duration(found.seconds)}"
    if not len(found.sockets):
        text = f"No listening socket was there to look at ({looked})"
        return text + (f"; the kernel turned away {counted(found.overflows, 'packet')}." if found.overflows else ".")
    worst = found.sockets.row(0, named=True)
    socket, most = printable(worst["socket"], 60), worst["limit"] + 1
    if worst["full"]:
        share = percent(worst["full_share"])
        text = f"The accept queue of {socket} was full, {counted(most, 'connection')}, in {share} of {looked}"
        if found.overflows is None:
            return text + "; what was turned away meanwhile is not known."
        return text + f", and the kernel turned away {counted(found.overflows, 'packet')} for a full queue."
    deepest = f"the deepest, of {socket}, held {worst['deepest']:,} of at most {counted(most, 'connection')}"
    if found.overflows:
        return (
            f"The kernel turned away {counted(found.overflows, 'packet')} for a full accept queue, though no sample "
            f"saw one full: {deepest} ({looked})."
        )
    known = "" if found.overflows is None else ", and nobody was turned away for one"
    return f"No accept queue was full: {deepest}{known} ({looked})."


def _failures(found: KernelResult) -> list[str]:
    failures = [
        f"{what} could not be asked in {count:,} of {counted(found.samples, 'sample')}: {reason}."
        for what, (count, reason) in found.unavailable.items()
        if what not in ("netlink", "samples")
    ]
    if found.missing:
        failures.append(
            f"{counted(found.missing, 'sample is', 'samples are')} missing: depths of those moments are not known, "
            "counters have no gap."
        )
    if found.resets:
        failures.append(
            f"Counters went back {counted(found.resets, 'time')}: another boot or network namespace, or a 32-bit "
            "counter that began anew. What happened across that is not counted."
        )
    if found.backward:
        failures.append(f"The clock was set back {counted(found.backward, 'time')} while this was recorded.")
    records = found.records
    if records is not None and records.rejected:
        failures.append(
            f"{records.rejected:,} of {counted(records.read, 'line')} {'was' if records.rejected == 1 else 'were'} "
            f"refused: {tally(records.reasons)}."
        )
    if "netlink" in found.unavailable:
        failures.append(f"netlink: {found.unavailable['netlink'][1]}.")
    return failures


def _tables(found: KernelResult) -> list[Table]:
    sockets = Table(
        ("socket", "last", "deepest", "mean", "full at", "full", "asked", "SYN_RECV"),
        tuple(
            (
                row["socket"], f"{row['last']:,}", f"{row['deepest']:,}", f"{row['mean']:,.1f}",
                f"{row['limit'] + 1:,}", percent(row["full_share"]), _number(row["asked"]), _number(row["syn_recv"]),
            )
            for row in found.sockets.iter_rows(named=True)
        ),
        "Accept queues, connections",
    )  # fmt: skip
    counters = Table(
        ("counter", "", "increase", "per s"),
        tuple(
            (name, MEANINGS[name], f"{increase:,}", _rate(increase, found.seconds))
            for name, increase in found.increases.items()
            if increase or name in ("ListenOverflows", "ListenDrops")
        ),
        "Counted meanwhile",
        text_columns=2,
        shown=len(MEANINGS),
    )
    settings = Table(
        ("setting", "in force"),
        tuple(
            (name, f"{value:,}" + (" (changed)" if name in found.changed else ""))
            for name, value in found.settings.items()
        ),
        "Settings",
    )
    raindrops = Table(
        ("raindrops", "answers", "none", "calling", "queued", "slowest (ms)"),
        tuple(
            (
                row["endpoint"], f"{row['answers']:,}", f"{row['unanswered']:,}", _number(row["calling"]),
                _number(row["queued"]), milliseconds(row["slowest"]),
            )
            for row in found.raindrops.iter_rows(named=True)
        ),
        "What unicorn says, the most",
    )  # fmt: skip
    return [table for table in (sockets, counters, settings, raindrops) if table.rows]


def _number(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _rate(increase: int, seconds: float) -> str:
    return NOTHING if seconds <= 0 else f"{increase / seconds:,.1f}"


def _pictures(found: KernelResult) -> tuple[Picture, ...]:
    if found.samples < 2:
        return ()
    from sojourn.analyses.kernel.charts_accept_queue import accept_queue  # noqa: PLC0415 - drawn for pages only

    return (
        Picture(
            "accept-queue",
            "The accept queue over time",
            "Connections that wait for accept(), and how many the queue holds (dashed); below, packets that were "
            "turned away and handshakes under way.",
            lambda: accept_queue(found),
            reading(found),
        ),
    )


def reading(found: KernelResult) -> str:
    """The deepest queue, when that was, and what was turned away."""
    if not len(found.sockets):
        return f"No listening socket was seen in {counted(found.samples, 'sample')}."
    worst = found.sockets.sort("deepest", descending=True).row(0, named=True)
    socket = printable(worst["socket"], 60)
    text = f"The queue of {socket} was the deepest, {worst['deepest']:,} of at most {worst['limit'] + 1:,}"
    if worst["deepest"] and worst["deepest_at"] is not None:
        text += f", at {worst['deepest_at']:%H:%M:%S} UTC"
    if found.overflows is None:
        return f"{text}; what was turned away is not known."
    drops = found.overflows + (found.other_drops or 0)
    return (
        f"{text}; {counted(drops, 'packet was', 'packets were')} turned away."
        if drops
        else f"{text}; nothing was turned away."
    )
