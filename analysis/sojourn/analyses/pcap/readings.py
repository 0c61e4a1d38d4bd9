"""Describe each chart of a capture in one sentence."""

from __future__ import annotations

from sojourn.analyses.pcap.result import WireResult
from sojourn.model.formatting import counted, duration, percent, printable


def packets_reading(result: WireResult, row: int, remark: str) -> str:
    """Describe the waits and the duration of the request in a row of the timeline."""
    request = result.timeline.row(row, named=True)
    request_line = " ".join(printable(request[name], 60) for name in ("method", "path") if request[name])
    parts = []
    if request["syn_dropped"]:
        parts.append(f"{duration(request['syn_dropped'])} until a SYN was answered")
    if request["accept_wait"] is not None:
        parts.append(f"{duration(request['accept_wait'])} from the handshake to the app's start")
    elif request["accept_wait_upper"] is not None:
        parts.append(f"at most {duration(request['accept_wait_upper'])} to be accepted")
    first, last = request["request_first"], request["response_first"]
    if first is not None and last is not None:
        parts.append(f"{duration((last - first).total_seconds())} until the client had the first byte of the answer")
    waits = ", ".join(parts) or "its waits are unknown"
    return f"{request_line or 'A request'}, {remark}: {waits}."


def waits_reading(result: WireResult) -> str:
    """State the p99 of the wait for accept() at the backends, or its bounds."""
    wait, upper = (_p99(result, name) for name in ("accept_wait", "accept_wait_upper"))
    if wait is not None:
        text = (
            f"One request in a hundred waited {duration(wait)} or longer between the handshake and the app's start "
            f"(of {result.sizes.get('accept_wait', 0):,})"
        )
    elif upper is not None:
        lower = _p99(result, "accept_wait_lower") or 0.0
        text = f"The p99 of the wait for accept() is between {duration(lower)} and {duration(upper)}"
    else:
        text = "No request shows the backends' accept queue"
    proxy = _p99(result, "proxy_accept_wait_upper")
    return f"{text}; at the proxy it is at most {duration(proxy)}." if proxy is not None else f"{text}."


def steps_reading(result: WireResult) -> str:
    """Count the connections that repeated their SYN, and those without an answer."""
    again = int(result.steps["connections"].sum() or 0)
    never = int(result.steps.filter(~result.steps["answered"])["connections"].sum() or 0)
    last = result.steps["step"].max()
    text = f"{counted(again, 'connection')} repeated their SYN"
    if isinstance(last, int | float):
        text += f", at most {last:g} s after the first"
    return f"{text}; {never:,} of them ({percent(never / again)}) never got an answer." if never else f"{text}."


def agreement_reading(result: WireResult) -> str:
    """Name the figure in which log and packets differ most."""
    figures = [agreed for agreed in result.agreement if agreed.requests and agreed.median is not None]
    if not figures:
        return "No figure is in both the log and the packets."
    worst = max(figures, key=lambda agreed: abs(agreed.median or 0.0))
    return (
        f"Of {counted(len(figures), 'figure')}, {worst.figure.replace('_', ' ')} differs most: by "
        f"{duration(worst.median)} in the median and at most {duration(worst.max)} over "
        f"{counted(worst.requests, 'request')}; {worst.beyond:,} differ by more than nginx's "
        "resolution of 1 ms explains."
    )


def _p99(result: WireResult, name: str) -> float | None:
    summary = result.figures.get(name)
    return None if summary is None else summary["p99"]
