"""Compare the log with the wire: for each joined request, nginx's figure minus that of the packets.

    request_time            last byte of the answer - first byte of the request, on the client's side
    upstream_connect_time   final ACK - first SYN, to the backend
    upstream_header_time    first byte of the answer - first SYN (or, on a kept connection, first byte of the request)
    upstream_response_time  last byte of the answer - the same
    queue                   the split's, against app start - final ACK

nginx's clock is truncated, so the stamp is up to a millisecond early. Half a millisecond is subtracted from the queue,
which is then right in the mean and up to half a millisecond off for a request. The clock is read once per turn of the
event loop, so on a busy nginx it is later still: ``Agreed.spread`` leaves the median difference out.
"""

from __future__ import annotations

import polars as pl

from sojourn.analyses.pcap.frames import seconds_on_wire
from sojourn.analyses.pcap.result import Agreed, Joined
from sojourn.model.checks import FAIL, PASS, UNKNOWN, Check
from sojourn.model.formatting import counted, milliseconds, percent

RESOLUTION = 0.002  # s: nginx's millisecond, and one more
SHARE = 0.9  # share of the log's records within the capture that must be joined
OF_NGINX = ("request_time", "upstream_connect_time", "upstream_header_time", "upstream_response_time")


def differences(timeline: pl.DataFrame, log: pl.DataFrame | None) -> pl.DataFrame:
    """Return log minus wire, s: a column per figure, a row per joined request in order; null where one is unknown."""
    if log is None:
        return pl.DataFrame(schema=dict.fromkeys((*OF_NGINX, "queue"), pl.Float64()))
    logged = log.select("log_row", "request_time", "connect", "header", "response", "queue")
    joined = timeline.filter(pl.col("log_row").is_not_null()).join(
        logged, on="log_row", suffix="_log", maintain_order="left"
    )
    begun = pl.coalesce("backend_syn", "backend_request_first")
    # The log has no time of an answer that came after nginx had stopped waiting for the backend.
    answered = pl.when(pl.col("header").is_not_null()).then(pl.col("response"))
    return joined.select(
        request_time=pl.col("request_time") - seconds_on_wire("request_first", "response_last"),
        upstream_connect_time=pl.col("connect") - seconds_on_wire("backend_syn", "backend_established"),
        upstream_header_time=pl.col("header") - seconds_on_wire(begun, "backend_response_first"),
        upstream_response_time=answered - seconds_on_wire(begun, "backend_response_last"),
        queue=pl.col("queue").cast(pl.Float64) - pl.col("accept_wait"),
    ).cast(pl.Float64)


def agreement(table: pl.DataFrame) -> tuple[Agreed, ...]:
    """Return an entry per figure of ``differences`` that at least one request has."""
    rows = []
    for name in table.columns:
        values = table[name].drop_nulls()
        if len(values):
            size = values.abs()
            middle = _number(values.median())
            spread = None if middle is None else _number((values - middle).abs().quantile(0.99, "linear"))
            rows.append(
                Agreed(
                    name, len(values), middle, _number(size.quantile(0.99, "linear")),
                    _number(size.max()), int((size > RESOLUTION + 1e-9).sum()), spread,
                )
            )  # fmt: skip
    return tuple(rows)


def wire_check(agreed: tuple[Agreed, ...], joined: Joined) -> Check:
    """Return the audit's check that the log agrees with the packets, and that they contain its requests."""
    of_nginx = [row for row in agreed if row.figure in OF_NGINX and row.p99 is not None]
    if not joined.log:
        return Check("wire", None, RESOLUTION, UNKNOWN, "no request of the log is within the capture's time")
    share = joined.share or 0.0
    missing = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in joined.unjoined.items())
    if share < SHARE:
        logged = counted(joined.log, "request")
        sentence = f"only {percent(share)} of the log's {logged} are in the capture ({missing})"
        return Check("wire", share, SHARE, FAIL, sentence)
    if not of_nginx:
        return Check("wire", None, RESOLUTION, UNKNOWN, "log and capture have no figure in common")
    worst = max(of_nginx, key=lambda row: row.p99 or 0.0)
    text = f"{worst.figure} by {milliseconds(worst.p99)} ms at p99"
    if (worst.p99 or 0.0) <= RESOLUTION + 1e-9:
        sentence = f"the log agrees with {counted(joined.requests, 'request')} on the wire, at worst {text}"
        return Check("wire", worst.p99, RESOLUTION, PASS, sentence)
    sentence = (
        f"the log differs from the wire: {text}, {worst.beyond:,} of {counted(worst.requests, 'request')} by more than "
        "nginx's resolution explains"
    )
    if worst.figure == "request_time":
        sentence += " (nginx's clock begins when it reads the request, and ends when the kernel has the answer)"
    return Check("wire", worst.p99, RESOLUTION, FAIL, sentence)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
