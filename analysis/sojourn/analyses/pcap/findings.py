"""Explain a capture's figures in sentences, and note how they were measured."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.pcap.log_join import ONE_CLOCK
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.vantage import AT_SERVER
from sojourn.model.formatting import counted, formatted, milliseconds, percent

MILLISECOND = 1e-3


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


def notes(result: WireResult) -> list[str]:
    """Return notes on the figures of joined requests and of backends."""
    sentences = []
    legs = set(result.connections["leg"].cast(pl.String).unique().to_list())
    if len(result.connections) and "backend" not in legs:
        sentences.append(
            "The backends' addresses are unknown (no log, no stamp): name them with --backend ADDR:PORT. The figures "
            "are those of all servers in the capture."
            if not result.log_given
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
