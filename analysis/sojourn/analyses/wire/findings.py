"""What a capture's figures mean, in sentences, and what to know of how they were made."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.wire.log_join import ONE_CLOCK
from sojourn.analyses.wire.result import WireResult
from sojourn.analyses.wire.vantage import AT_SERVER
from sojourn.model.formatting import counted, formatted, milliseconds, percent

MILLISECOND = 1e-3


def findings(found: WireResult) -> list[str]:
    """What a reader should act on, the gravest first."""
    told = []
    for leg, whose in (("backend", "backends"), ("client", "the proxy"), ("unknown", "a server")):
        told += _of_leg(found, leg, whose)
    wait, upper = found.figures.get("accept_wait"), found.figures.get("accept_wait_upper")
    if wait is not None and wait["p99"] is not None and wait["p99"] > MILLISECOND:
        told.append(
            f"Connections waited {milliseconds(wait['p50'])} ms in the median, {milliseconds(wait['p99'])} ms at p99, "
            "between their handshake and the app's start: in the accept queue, and in the server before the app."
        )
    elif wait is None and upper is not None:
        told.append(
            f"The wait for accept() was {milliseconds(upper['p50'])} ms at most in the median, "
            f"{milliseconds(upper['p99'])} ms at p99; packets alone cannot say how much of that it was."
        )
    unread = found.figures.get("proxy_unread")
    if unread is not None and unread["p99"] is not None and unread["p99"] > 10 * MILLISECOND:
        told.append(
            f"Requests lay unread at nginx for {milliseconds(unread['p99'])} ms at p99: in its accept queue, or its "
            "workers were busy with others."
        )
    return told


def _of_leg(found: WireResult, leg: str, whose: str) -> list[str]:
    table = found.servers.filter(pl.col("leg") == leg)
    if not len(table):
        return []
    told = []
    repeated, unanswered = int(table["syn_retransmissions"].sum()), int(table["unanswered"].sum())
    at_server = bool(table.select(AT_SERVER.all()).item())
    if repeated:
        steps = found.steps.filter(pl.col("leg") == leg, pl.col("answered"))
        when = ", ".join(f"+{row['step']:g} s: {row['connections']:,}" for row in steps.head(6).iter_rows(named=True))
        sentence = f"{counted(repeated, 'SYN')} to {whose} had to be sent again: {_why_again(found, leg, at_server)}"
        told.append(sentence + (f" (answered at {when})." if when else "."))
    if unanswered:
        told.append(f"{counted(unanswered, 'connection')} to {whose} never got an answer.")
    dropped = int(table["acks_dropped"].sum())
    if dropped:
        told.append(
            f"On {counted(dropped, 'occasion')} a final ACK to {whose} was dropped: the accept queue was full when "
            "the handshake ended, and the client took itself for connected."
        )
    doubtful = int(table["acks_doubtful"].sum())
    if doubtful:
        way = "" if at_server else ", for the capture does not stand at the server"
        told.append(
            f"On {counted(doubtful, 'occasion')} a SYN-ACK of {whose} came again after the client's ACK. Possible: the "
            f"ACK was lost on its way{way}; it was dropped because the accept queue was full; the server leaves an ACK "
            "without a request aside (TCP_DEFER_ACCEPT); TCP Fast Open; packets captured twice or out of order."
        )
    again = found.exchanges.filter(pl.col("leg") == leg, pl.col("number") == 1, pl.col("retransmissions") > 0)
    again = again.join(
        found.connections.filter(pl.col("syn").is_not_null(), pl.col("client_retransmissions") > 0),
        on="connection",
        how="semi",
    )
    if len(again):
        told.append(
            f"{counted(len(again), 'first request')} to {whose} had to be sent again: lost on the way, or "
            "the final ACK before was dropped for a full accept queue (a server that uses SYN cookies cannot repeat "
            "its SYN-ACK)."
        )
    refused, reset = int(table["refused"].sum()), int(table["reset_by_server"].sum())
    if refused:
        told.append(f"{counted(refused, 'connection')} to {whose} met a reset: nobody listened.")
    if reset:
        told.append(
            f"{counted(reset, 'connection')} ended in a reset by {whose}: an app that crashed or was "
            "stopped, or a full accept queue with tcp_abort_on_overflow."
        )
    return told


def _why_again(found: WireResult, leg: str, at_server: bool) -> str:
    """Why SYNs of a leg were repeated, as far as the place of the capture allows to say."""
    again = found.connections.filter(pl.col("leg") == leg, pl.col("syn_retransmissions") > 0)
    if at_server and not (again["syn_answered"] == again["syn"]).any():
        return "nothing took the one before"
    return "a full queue dropped the one before, or it or its answer was lost on the way"


def notes(found: WireResult) -> list[str]:
    """What the figures of joined requests and of backends rest on."""
    told = []
    legs = set(found.connections["leg"].cast(pl.String).unique().to_list())
    if len(found.connections) and "backend" not in legs:
        told.append(
            "Nothing tells which addresses are backends (no log, no stamp): name them with --backend ADDR:PORT. The "
            "figures are those of whoever was connected to."
            if not found.log_given
            else "No backend that the log names is in the capture."
        )
    joined = found.joined
    if joined.without_service and "accept_wait_upper" in found.figures:
        told.append(
            f"For {counted(joined.without_service, 'request')} nobody tells a service time: the upper bound holds it."
        )
    if joined.unjoined:
        reasons = ", ".join(f"{why.replace('_', ' ')} {count:,}" for why, count in joined.unjoined.items())
        told.append(
            f"{percent(1 - (joined.share or 0.0))} of the {counted(joined.log or 0, 'record')} within the capture's "
            f"time could not be joined: {reasons}."
        )
    if joined.clock_offset is not None and abs(joined.clock_offset) > ONE_CLOCK:
        told.append(
            f"The capturing machine's clock is {formatted(joined.clock_offset * 1000, '+,.1f')} ms from nginx's; "
            "instants of the log were moved by that."
        )
    return told
