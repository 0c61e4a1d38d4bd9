"""Draw the queues before accept() and before the workers."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from sojourn.analyses.kernel.result import KernelResult
from sojourn.model.formatting import printable
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import OTHER, QUEUEING, RESPONSE

SOCKETS = 4  # panels: the sockets that were full most; those without waiting connections are left out
VISIBLE = 0.05  # of its limit: a queue that was never deeper is drawn without the line of its limit
REFUSED = {
    "accept queue full": QUEUEING,
    "SYN queue full": "#F2BF99",
    "other": OTHER,
}  # the second: a tint of the first


def accept_queue(result: KernelResult) -> alt.VConcatChart:
    """Draw the depth of each socket's accept queue over time and its limit; below, packets turned away.

    Between them, what waited for the workers of servers that report it. Last, handshakes under way, where they are
    known. All panels share one axis of time.
    """
    ends = (result.begin, max(result.end, result.begin + timedelta(seconds=1)))
    # Not by ``domain``: of a mark from one instant to another, Vega takes the second end's for numbers, and complains.
    first, last = (end.timestamp() * 1000 for end in ends)
    scale = alt.Scale(type="utc", domainMin=first, domainMax=last)
    used = result.sockets.filter((pl.col("deepest") > 0) | (pl.col("syn_recv") > 0))
    sockets = (used if len(used) else result.sockets.head(1))["socket"].head(SOCKETS).to_list()
    panels: list[alt.Chart | alt.LayerChart] = [_depth(result, socket, scale) for socket in sockets]
    servers = result.servers.filter(pl.col("deepest") > 0).sort("deepest", descending=True, maintain_order=True)
    panels += [_waiting(result, server, scale) for server in servers["server"].head(SOCKETS)]
    panels.append(_turned_away(result, scale))
    if any(used["syn_recv"].head(SOCKETS)):
        panels.append(_handshakes(result, sockets, scale))
    return alt.vconcat(*panels).resolve_scale(color="independent", strokeDash="independent")


def _time(scale: alt.Scale) -> alt.X:
    return alt.X("begin:T", title="time (UTC)", scale=scale)


def _depth(result: KernelResult, socket: str, scale: alt.Scale) -> alt.Chart | alt.LayerChart:
    rows = result.depths.filter(pl.col("socket") == socket).with_columns(most=pl.col("limit") + 1)
    data = inline(rows.drop("socket", "syn_recv"))
    most = max((value for value in rows["most"] if value is not None), default=0)
    deepest = max((value for value in rows["depth"] if value is not None), default=0)
    visible = deepest >= VISIBLE * most
    top = max(deepest, most if visible else 1)
    area = (
        alt.Chart(data)
        .mark_area(interpolate="step-after", color=QUEUEING, opacity=0.8)
        .encode(
            x=_time(scale),
            y=alt.Y("depth:Q", title="connections", scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickMinStep=1)),
            tooltip=[
                alt.Tooltip("depth:Q", title="waiting for accept()"),
                alt.Tooltip("most:Q", title="full at"),
                alt.Tooltip("begin:T", format="%H:%M:%S.%L"),
            ],
        )
    )
    limit = f"full at {most:,}" + ("" if visible else ", far above this scale")
    title = _title(f"accept queue of {printable(socket, 60)} ({limit})")
    sized = area.properties(width=WIDTH, height=HEIGHT // 2, title=title)
    if not visible:
        return sized
    line = alt.Chart(data).mark_line(interpolate="step-after", color=RESPONSE, strokeDash=[4, 3])
    return (sized + line.encode(x=_time(scale), y=alt.Y("most:Q"))).properties(
        width=WIDTH, height=HEIGHT // 2, title=title
    )


def _waiting(result: KernelResult, server: str, scale: alt.Scale) -> alt.Chart:
    """Draw what waits for the workers of a server."""
    rows = result.queues.filter(pl.col("server") == server)
    kind = result.servers.filter(pl.col("server") == server)["kind"][0]
    return (
        alt.Chart(inline(rows.drop("server")))
        .mark_area(interpolate="step-after", color=QUEUEING, opacity=0.8)
        .encode(
            x=_time(scale),
            y=alt.Y("waiting:Q", title="waiting", axis=alt.Axis(tickMinStep=1)),
            tooltip=[
                alt.Tooltip("waiting:Q", title="waiting for a worker"),
                alt.Tooltip("busy:Q", title="busy"),
                alt.Tooltip("workers:Q", title="workers"),
                alt.Tooltip("begin:T", format="%H:%M:%S.%L"),
            ],
        )
        .properties(
            width=WIDTH,
            height=HEIGHT // 2,
            title=_title(f"before the workers of {printable(kind, 20)} at {printable(server, 60)}"),
        )
    )


def _turned_away(result: KernelResult, scale: alt.Scale) -> alt.Chart:
    """Draw the packets per second that the kernel turned away, by reason."""
    seconds = (pl.col("end") - pl.col("begin")).dt.total_microseconds() / 1e6
    syn = pl.col("syn_drops").fill_null(0)
    rates = [pl.col("overflows") / seconds, syn / seconds, (pl.col("other_drops") - syn) / seconds]
    table = (
        result.events.filter(seconds > 0)
        .select("begin", "end", *(rate.alias(reason) for rate, reason in zip(rates, REFUSED, strict=True)))
        .unpivot(list(REFUSED), index=["begin", "end"], variable_name="reason", value_name="rate")
        # Read one after the other, two counters may differ by a packet: a negative bar is an artefact.
        .filter(pl.col("rate") > 0)
        .with_columns(top=pl.col("rate").cum_sum().over("begin"))
        .with_columns(
            pl.col("rate", "top").round_sig_figs(6), bottom=(pl.col("top") - pl.col("rate")).round_sig_figs(6)
        )
    )
    top = max(table["top"], default=1.0)
    return (
        alt.Chart(inline(table))
        .mark_rect()
        .encode(
            x=_time(scale),
            x2=alt.X2("end:T"),
            y=alt.Y("bottom:Q", title="packets / s", scale=alt.Scale(domain=[0, top])),
            y2=alt.Y2("top:Q"),
            color=alt.Color(
                "reason:N", title=None, scale=alt.Scale(domain=list(REFUSED), range=list(REFUSED.values()))
            ),
            tooltip=[
                alt.Tooltip("reason:N"),
                alt.Tooltip("rate:Q", format=".3~f"),
                alt.Tooltip("begin:T", format="%H:%M:%S.%L"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT // 3, title=_title("turned away (SYNs and final ACKs)"))
    )


def _handshakes(result: KernelResult, sockets: list[str], scale: alt.Scale) -> alt.Chart:
    socket = pl.col("socket").map_elements(printable, return_dtype=pl.String)
    table = result.depths.filter(pl.col("socket").is_in(sockets)).select("begin", socket, "syn_recv")
    return (
        alt.Chart(inline(table))
        .mark_line(interpolate="step-after", color=QUEUEING)
        .encode(
            x=_time(scale),
            y=alt.Y("syn_recv:Q", title="handshakes", axis=alt.Axis(tickMinStep=1)),
            strokeDash=alt.StrokeDash("socket:N", title=None, sort=None),
            tooltip=[alt.Tooltip("socket:N"), alt.Tooltip("syn_recv:Q"), alt.Tooltip("begin:T", format="%H:%M:%S.%L")],
        )
        .properties(width=WIDTH, height=HEIGHT // 3, title=_title("handshakes under way (SYN_RECV)"))
    )


def _title(text: str) -> alt.TitleParams:
    return alt.TitleParams(text, anchor="start", fontSize=12, fontWeight="normal")
