"""Explain a capture's figures in sentences: findings, failures that make them doubtful, and how they were measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from sojourn.analyses.pcap.log_join import ONE_CLOCK
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.vantage import AT_SERVER, is_loopback
from sojourn.model.checks import FAIL, PASS
from sojourn.model.formatting import counted, formatted, milliseconds, percent, printable

MILLISECOND = 1e-3
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


def findings(result: WireResult) -> list[str]:
    """Return the findings that call for action, the most severe first."""
    sentences = []
    for leg, server in (("backend", "backends"), ("client", "the proxy"), ("unknown", "a server")):
        sentences += _of_leg(result, leg, server)
    wait, upper = result.figures.get("accept_wait"), result.figures.get("accept_wait_upper")
    if wait is not None and wait["p99"] is not None and wait["p99"] > MILLISECOND:
        sentences.append(
            f"Connections waited {milliseconds(wait['p50'])} ms in the median, {milliseconds(wait['p99'])} ms at p99, "
            "between their handshake and the app's start: in the accept queue, and in the server before the app."
        )
    elif wait is None and upper is not None:
        sentences.append(
            f"The wait for accept() was {milliseconds(upper['p50'])} ms at most in the median, "
            f"{milliseconds(upper['p99'])} ms at p99; packets alone do not show how much of that it was."
        )
    unread = result.figures.get("proxy_unread")
    if unread is not None and unread["p99"] is not None and unread["p99"] > 10 * MILLISECOND:
        sentences.append(
            f"Requests waited unread at nginx for {milliseconds(unread['p99'])} ms at p99: in its accept queue, or "
            "because its workers were busy."
        )
    return sentences


def _of_leg(result: WireResult, leg: str, server: str) -> list[str]:
    table = result.servers.filter(pl.col("leg") == leg)
    if not len(table):
        return []
    sentences = []
    repeated, unanswered = int(table["syn_retransmissions"].sum()), int(table["unanswered"].sum())
    at_server = bool(table.select(AT_SERVER.all()).item())
    if repeated:
        steps = result.steps.filter(pl.col("leg") == leg, pl.col("answered"))
        when = ", ".join(f"+{row['step']:g} s: {row['connections']:,}" for row in steps.head(6).iter_rows(named=True))
        sentence = f"{counted(repeated, 'SYN')} to {server} had to be repeated: {_why_again(result, leg, at_server)}"
        sentences.append(sentence + (f" (answered at {when})." if when else "."))
    if unanswered:
        sentences.append(f"{counted(unanswered, 'connection')} to {server} never got an answer.")
    dropped = int(table["acks_dropped"].sum())
    if dropped:
        sentences.append(
            f"On {counted(dropped, 'occasion')} a final ACK to {server} was dropped: the accept queue was full when "
            "the handshake ended, while the client considered itself connected."
        )
    doubtful = int(table["acks_doubtful"].sum())
    if doubtful:
        way = "" if at_server else " (the capture is not from the server)"
        sentences.append(
            f"On {counted(doubtful, 'occasion')} a SYN-ACK of {server} was repeated after the client's ACK. Possible: "
            f"the ACK was lost on its way{way}; the accept queue was full and dropped it; the server ignores an "
            "ACK without a request (TCP_DEFER_ACCEPT); TCP Fast Open; packets captured twice or out of order."
        )
    again = result.exchanges.filter(pl.col("leg") == leg, pl.col("number") == 1, pl.col("retransmissions") > 0)
    again = again.join(
        result.connections.filter(pl.col("syn").is_not_null(), pl.col("client_retransmissions") > 0),
        on="connection",
        how="semi",
    )
    if len(again):
        sentences.append(
            f"{counted(len(again), 'first request')} to {server} had to be repeated: lost on the way, or a full "
            "accept queue dropped the final ACK before them (a server with SYN cookies cannot repeat its SYN-ACK)."
        )
    refused, reset = int(table["refused"].sum()), int(table["reset_by_server"].sum())
    if refused:
        sentences.append(f"{counted(refused, 'connection')} to {server} got a reset: no socket listened on the port.")
    if reset:
        sentences.append(
            f"{counted(reset, 'connection')} ended in a reset by {server}: an app that crashed or was "
            "stopped, or a full accept queue with tcp_abort_on_overflow."
        )
    return sentences


def _why_again(result: WireResult, leg: str, at_server: bool) -> str:
    """Return why SYNs of a leg were repeated, as far as the capture's vantage point shows it."""
    again = result.connections.filter(pl.col("leg") == leg, pl.col("syn_retransmissions") > 0)
    if at_server and not (again["syn_answered"] == again["syn"]).any():
        return "the server did not answer the one before"
    return "a full queue dropped the one before, or the network lost it or its answer"


def join_notes(result: WireResult) -> list[str]:
    """Return notes on the figures of joined requests and of backends."""
    sentences = []
    legs = set(result.connections["leg"].cast(pl.String).unique().to_list())
    if len(result.connections) and "backend" not in legs:
        sentences.append(
            "The backends' addresses are unknown (no log, no stamp): name them with --backend ADDR:PORT. The figures "
            "are those of all servers in the capture."
            if not result.has_log
            else "No backend that the log names is in the capture."
        )
    joined = result.joined
    if joined.without_service and "accept_wait_upper" in result.figures:
        sentences.append(
            f"The service time of {counted(joined.without_service, 'request')} is unknown: the upper bound includes it."
        )
    if joined.unjoined:
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in joined.unjoined.items())
        sentences.append(
            f"{percent(1 - (joined.share or 0.0))} of the {counted(joined.log or 0, 'record')} within the capture's "
            f"time could not be joined: {reasons}."
        )
    if joined.clock_offset is not None and abs(joined.clock_offset) > ONE_CLOCK:
        sentences.append(
            f"The capturing machine's clock is {formatted(joined.clock_offset * 1000, '+,.1f')} ms from nginx's; the "
            "log's times are corrected by that."
        )
    return sentences


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
