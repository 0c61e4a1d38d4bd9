"""Lay out the part of a split that packets show: connect + queue, divided further."""

from __future__ import annotations

from sojourn.analyses.pcap.result import WireResult
from sojourn.model.formatting import counted, milliseconds, percent
from sojourn.present.section import Section, Table

# Figure -> its part of connect + queue.
PARTS = {
    "syn_dropped": "unanswered SYNs",
    "handshake": "handshake, repeats included",
    "syn_queue": "in the SYN queue",
    "accept_wait": "accept queue, to the app's start",
    "accept_wait_lower": "accept queue, at least",
    "accept_wait_upper": "accept queue, at most",
}
MEASURES = "From nginx's first SYN to the backend to the app's own start, or bounds of it where the start is unknown."


def split_wire_section(result: WireResult) -> Section:
    """Return a short section to follow the split's; ``sojourn pcap`` shows more."""
    joined = result.joined
    if not joined.requests:
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in joined.unjoined.items())
        sentence = "On the wire: no request of the log is in the capture" + (f" ({reasons})." if reasons else ".")
        return Section("wire", "On the wire", sentence, notes=tuple(result.notes))
    sentence = f"On the wire: {joined.requests:,} of {counted(joined.log or 0, 'request')} ({percent(joined.share)})"
    if result.split is not None:
        total = result.split["queueing_delay"]
        sentence += f"; their mean queueing delay of {milliseconds(total)} ms is"
        labels = {"syn_dropped": "dropped SYNs", "handshake": "handshake", "accept_wait": "accept queue"}
        sentence += " " + " + ".join(f"{label} {milliseconds(result.split[key])}" for key, label in labels.items())
    is_exact = "accept_wait" in result.figures
    rows = []
    for name, label in PARTS.items():
        summary = result.figures.get(name)
        if summary is None or (is_exact and name.startswith("accept_wait_")):
            continue
        cells = (milliseconds(summary[figure]) for figure in ("mean", "p50", "p90", "p99", "max"))
        rows.append((label, f"{result.sizes[name]:,}", *cells))
    table = Table(("connect + queue, ms", "requests", "mean", "p50", "p90", "p99", "max"), tuple(rows))
    return Section("wire", "On the wire", sentence + ".", MEASURES, tables=(table,), notes=tuple(result.findings))
