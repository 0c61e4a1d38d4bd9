"""Spans of the packet sequence chart: a request's queues, from one step to another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sojourn.analyses.pcap.bounds import NGINX_RESOLUTION
from sojourn.analyses.pcap.charts_packet_steps import BACKEND, CLIENT, Row, client_instant, unanswered

KINDS = ("dropped", "syn_queue", "accept_queue", "accept_queue_at_most", "waiting", "proxy", "service")


@dataclass(frozen=True)
class Span:
    """A period in one place, from one step to another.

    Attributes:
        kind: one of ``KINDS``.
        at_proxy: True: in the proxy; False: in the backend.
        begin: key of a step.
        end: key of a step.
        label: the queue's name and its length, ms; three lines at most.
        length: ns.
        column: 1 if another span covers the same time, to draw them side by side.
    """

    kind: str
    at_proxy: bool
    begin: str
    end: str
    label: str
    length: int
    column: int = 0


def proxy_spans(request: Row, connection: Row) -> list[Span]:
    """Return the proxy's queues; ``connection``: that of the client's side, may be empty."""
    spans = []
    syn, answered = request["client_syn"], client_instant(request, connection, "syn_answered")
    established, ack_taken = request["client_established"], client_instant(request, connection, "ack_taken")
    if syn is not None and answered is not None and answered > syn:
        spans.append(_dropped(CLIENT, answered - syn, connection, at_proxy=True))
    if answered is not None and ack_taken is not None:
        spans.append(_syn_queue(CLIENT, request, answered, ack_taken, connection))
    begins = "backend_syn" if request["backend_syn"] is not None else "backend_request_first"
    passed_on = request[begins]
    if passed_on is None:
        return spans
    end = f"{BACKEND}_{begins.removeprefix('backend_')}"
    if established is not None:
        # nginx has accepted before it reads the request or connects to the backend; packets do not show how long
        # before.
        bound = nginx_had_accepted(request)
        length = (passed_on if bound is None else bound) - established
        label = f"accept queue\nat most {ms(length)} ms"
        end = end if bound is None else "nginx_start"
        column = int(ack_taken is not None and ack_taken > established)
        spans.append(Span("accept_queue_at_most", True, f"{CLIENT}_established", end, label, length, column))
    elif request["request_last"] is not None:
        request_end = request["request_last"]
        begin = f"{CLIENT}_request_last" if request_end > request["request_first"] else f"{CLIENT}_request_first"
        label = f"in the proxy\n{ms(passed_on - request_end)} ms"
        spans.append(Span("proxy", True, begin, end, label, passed_on - request_end))
    return spans


def _dropped(where: str, length: int, connection: Row, *, at_proxy: bool) -> Span:
    count = unanswered(connection)
    many = "SYNs" if count is None else "1 SYN" if count == 1 else f"{count} SYNs"
    label = f"{many} without an answer\n{ms(length)} ms"
    return Span("dropped", at_proxy, f"{where}_syn", f"{where}_syn_answered", label, length)


def _syn_queue(where: str, request: Row, answered: int, ack_taken: int, connection: Row) -> Span:
    syn, established = request[f"{where}_syn"], request[f"{where}_established"]
    begin = f"{where}_syn_answered" if answered > syn else f"{where}_syn"
    label = f"SYN queue\n{ms(ack_taken - answered)} ms"
    end = f"{where}_established"
    if established is not None and ack_taken > established:
        end = f"{where}_ack_taken"
        repeats = connection.get("acks_dropped")
        label += f", {repeats} × SYN-ACK again" if repeats else ", final ACK not accepted"
    return Span("syn_queue", where == CLIENT, begin, end, label, ack_taken - answered)


def backend_spans(request: Row, connection: Row) -> list[Span]:
    """Return the backend's queues and the service time; ``connection``: that of the backend's side, may be empty."""
    spans = []
    syn, answered, ack_taken = request["backend_syn"], request["backend_syn_answered"], request["backend_ack_taken"]
    established, started, ended = request["backend_established"], request["app_start"], request["app_end"]
    if syn is not None and answered is not None and answered > syn:
        spans.append(_dropped(BACKEND, answered - syn, connection, at_proxy=False))
    if answered is not None and ack_taken is not None and established is not None:
        spans.append(_syn_queue(BACKEND, request, answered, ack_taken, connection))
    spans += _wait_spans(request, established, ack_taken)
    if started is not None and ended is not None:
        label = f"service time\n{ms(ended - started)} ms"
        spans.append(Span("service", False, "app_start", "app_end", label, ended - started))
    return spans


def _wait_spans(request: Row, established: int | None, ack_taken: int | None) -> list[Span]:
    """Return the backend's accept queue; on a kept connection, the wait for the app."""
    started, request_end = request["app_start"], request["backend_request_last"]
    if established is None:
        if started is None or request_end is None:
            return []
        begin = "backend_request_last" if request_end > request["backend_request_first"] else "backend_request_first"
        label = f"waiting for the app\n{ms(started - request_end)} ms"
        return [Span("waiting", False, begin, "app_start", label, started - request_end)]
    column = int(ack_taken is not None and ack_taken > established)
    if started is not None:
        wait = started - established
        label = f"accept queue\n{ms(wait)} ms"
        return [Span("accept_queue", False, "backend_established", "app_start", label, wait, column)]
    bound = latest_start(request)
    if bound is None:
        return []
    wait, lower = bound - established, round((request["accept_wait_lower"] or 0.0) * 1e9)
    answered = request["backend_response_first"]
    # An unknown service time cannot be subtracted.
    whole = ",\nservice time included" if answered is not None and answered <= bound else ""
    label = f"accept queue\n{ms(lower)} … {ms(wait)} ms{whole}"
    spans = [Span("accept_queue_at_most", False, "backend_established", "latest_start", label, wait, column)]
    if lower > 0 and column:
        spans.append(Span("accept_queue", False, "backend_established", "backend_ack_taken", "", lower, column))
    if answered is not None and answered > bound:
        label = f"service time\n{ms(answered - bound)} ms, or earlier"
        spans.append(Span("service", False, "latest_start", "backend_response_first", label, answered - bound))
    return spans


def nginx_had_accepted(request: Row) -> int | None:
    """Return the end of the ms in which nginx read the first byte; None if it contacted the backend earlier."""
    start, passed_on = request.get("nginx_start"), request["backend_syn"] or request["backend_request_first"]
    if start is None or request["client_established"] is None:
        return None
    bound = int(start) + NGINX_RESOLUTION // timedelta(microseconds=1) * 1_000
    return bound if request["client_established"] < bound and (passed_on is None or bound < passed_on) else None


def latest_start(request: Row) -> int | None:
    """Return the latest possible start of the app (ns), if its own start is unknown."""
    established, upper = request["backend_established"], request["accept_wait_upper"]
    if request["app_start"] is not None or established is None or upper is None:
        return None
    return int(established + max(round(upper * 1e9), 0))


def ms(ns: int) -> str:
    """Format nanoseconds as milliseconds, to the µs below 1 ms: 0.052, 4.31, 299.8, 3,012."""
    value = ns / 1e6
    size = abs(value)
    digits = 3 if size < 1 else 2 if size < 10 else 1 if size < 1000 else 0
    text = f"{value:,.{digits}f}"
    return "0" if float(text.replace(",", "")) == 0 else text
