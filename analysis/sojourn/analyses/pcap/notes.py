"""Failures that make a capture's figures doubtful, and notes on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.vantage import is_loopback
from sojourn.model.checks import FAIL, PASS
from sojourn.model.formatting import counted, percent, printable

FEW = 0.9  # the share of the log's records that must be on the wire
MOST = 5
MISSING = "packets that seem missing may have been sent"
# Reason of ``TrackingResult.unparsed`` -> its text, singular and plural.
UNPARSED = {
    "http2": ("connection speaks HTTP/2", "connections speak HTTP/2"),
    "tls_http2": (
        "connection speaks HTTP/2 over TLS (its requests cannot be counted)",
        "connections speak HTTP/2 over TLS (their requests cannot be counted)",
    ),
    "not_http": ("connection speaks another protocol", "connections speak another protocol"),
    "not_captured": ("connection has no payload in the capture", "connections have no payload in the capture"),
    "head_cut": ("request has an incomplete head", "requests have incomplete heads"),
    "answer_without_request": (
        "answer belongs to a request from before the capture", "answers belong to requests from before the capture",
    ),
    "upgraded": ("connection changed to another protocol", "connections changed to another protocol"),
}  # fmt: skip


def failures_of(result: WireResult, *, audited: bool) -> Iterator[str]:
    """Yield what makes the figures doubtful; ``audited``: without failed checks, which the audit shows."""
    counts = result.counts
    for name, reason in list(counts.damaged.items())[:MOST]:
        yield f"{printable(name, 80)}: {printable(reason, 200)}; no figure includes the packets after that"
    if len(counts.damaged) > MOST:
        yield f"{counted(len(counts.damaged) - MOST, 'more file')} could not be read to their end"
    undecoded = sum(counts.undecoded.values())
    if undecoded:
        yield f"{undecoded:,} of {counted(counts.packets, 'packet')} could not be decoded: {ranked(counts.undecoded)}"
    if counts.dropped:
        share = percent(counts.dropped / (counts.dropped + counts.packets))
        yield (
            f"The capture lost {counted(counts.dropped, 'packet')} ({share}): {MISSING}. A larger buffer (tcpdump -B) "
            "or a smaller snaplen loses fewer"
        )
    failed = [check for check in result.checks if check.verdict == FAIL]
    yield from (check.sentence for check in failed if not audited)
    share_joined = result.joined.share
    if not failed and result.joined.log and share_joined is not None and share_joined < FEW:
        yield (
            f"{result.joined.requests:,} of {counted(result.joined.log, 'record')} of the log "
            f"({percent(share_joined)}) are on the wire"
            + (f": {ranked(result.joined.unjoined)}" if result.joined.unjoined else "")
        )


def notes_of(result: WireResult) -> list[str]:
    """Return the findings, the most severe first, then the notes on the figures, without duplicates."""
    return list(dict.fromkeys([*result.findings, *_notes(result), *result.notes]))


def _notes(result: WireResult) -> Iterator[str]:
    connections, counts = result.connections, result.counts
    if connections.is_empty():
        return
    yield from (check.sentence for check in result.checks if check.verdict == PASS)
    if result.sizes.get("accept_wait_upper") and not result.sizes.get("accept_wait"):
        yield (
            "Packets only bound the wait for accept(). The app's own start, in the log (--log) or in the header "
            "X-Queueing-Delay of its answers, gives the wait itself."
        )
    tls = int((connections["protocol"] == "tls").sum())
    if tls:
        speak = counted(tls, "connection speaks", "connections speak")
        yield f"{speak} TLS: handshakes and times are visible; methods, paths and request ids are not."
    other = {reason: count for reason, count in result.unparsed.items() if reason != "tls" and count}
    if other:
        texts = ", ".join(
            counted(count, *UNPARSED[reason]) if reason in UNPARSED else f"{count:,} {printable(reason)}"
            for reason, count in other.items()
        )
        yield f"Not read as requests: {texts}."
    if counts.cut and other.get("head_cut"):
        cut = counted(counts.cut, "packet was", "packets were")
        yield f"{cut} cut short by the capture: a larger snaplen keeps whole heads."
    if result.duplicates:
        yield (
            f"{counted(result.duplicates, 'packet is a duplicate', 'packets are duplicates')} of one before (several "
            "interfaces, a mirror port, files joined): each packet counts once, and no duplicate is a retransmission."
        )
    if counts.tunnels:
        yield f"Packets inside tunnels were read; the outer packets are not counted: {ranked(counts.tunnels)}."
    for earlier, later in counts.overlapping[:MOST]:
        first, second = printable(earlier, 80), printable(later, 80)
        yield (
            f"{second} begins before {first} ends, and was read after it. If they hold packets of the same "
            f"connections, join them first: mergecap -w OUT {first} {second}."
        )
    gaps = int(connections["gaps"].sum() or 0)
    if gaps and not counts.dropped:
        yield f"{counted(gaps, 'gap is', 'gaps are')} in the captured payload: {MISSING}."
    if all(is_loopback(str(address)) for address in connections["server"].unique()):
        yield "All traffic is loopback: handshakes include no network time; both sides of the proxy have one address."
    windows = int((connections["client_zero_windows"] + connections["server_zero_windows"]).sum() or 0)
    if windows:
        yield (
            f"{counted(windows, 'segment')} announced a window of 0: a receiver did not read. This is not a queue "
            "before accept()."
        )
    below = {name: count for name, count in result.negative.items() if count}
    if below:
        yield f"Some values are below 0 because clocks differ; they are unchanged: {ranked(below)}."


def ranked(counts: Mapping[str, int]) -> str:
    """Return reasons with how often each occurred, the most frequent first, ``MOST`` of them."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    text = ", ".join(f"{printable(reason, 80).replace('_', ' ')} {count:,}" for reason, count in ordered[:MOST])
    return text + (f" and {len(ordered) - MOST} more" if len(ordered) > MOST else "")
