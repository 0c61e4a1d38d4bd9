"""What a pipeline writes besides requests, as rows whose figures are easy to say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dashboards_support import BEGIN, NAMED, ROOT_SPAN, TRACE, Boards

AT = int(BEGIN.timestamp())
HOUR = 3600
SAMPLES = [
    (AT + second, machine, "app", 8000, (second * 7 + shift) % 40, 64)
    for second in range(600)
    for shift, machine in ((0, "one"), (3, "two"))
]
SOURCE = "edge:/var/log/nginx/sojourn.jsonl"
ARRIVED = [
    (AT + 60, "requests", SOURCE, 1_100),
    (AT + 120, "dead_letters", SOURCE, 50),
    (AT + 180, "requests", SOURCE, 30),
]
# 1,180 lines of 100 bytes, and room for 20 between them.
RUNS = [(0, 110_000, 1_100, AT, AT + 59, AT + 60), (112_000, 120_000, 80, AT + 60, AT + 170, AT + 180)]
OUTSTANDING = 20
# Samples of another host: 2,000 bytes more in the last minute, of which the agent has not read 1,500.
FILES = [
    ("web", "web", "", 0, 0, 0, -1, 0),
    ("web", "web:/log", "f", 0, 500, 500, 500, 1_000),
    ("web", "web", "", 120, 0, 0, -1, 0),
    ("web", "web:/log", "f", 120, 2_500, 2_500, 1_000, 1_000),
]
REFUSED = [
    (AT + 60, "requests", SOURCE, 100, "invalid_json", "not json"),
    (AT + 60, "requests", SOURCE, 100, "invalid_json", "not json"),  # delivered again
    (AT + 90, "requests", SOURCE, 200, "invalid_json", "<script>alert(1)</script>"),
    (AT + 150, "spans", "otlp", 0, "invalid_span", "\x1b[31m" + "x" * 5_000),
]
COUNTERS = [
    (AT + second, component, metric, value)
    for component, metric, values in (
        ("store", "component_errors_total", (0, 3, 1, 4)),  # 3, then again 1, then 3 more
        ("parse", "component_discarded_events_total", (10, 10, 12, 12)),
        ("store", "buffer_size_bytes", (0, 4_096, 1_024, 0)),
        ("store", "buffer_size_events", (0, 8, 2, 0)),
    )
    for second, value in zip((0, 60, 120, 180), values, strict=True)
]
SPAN_COUNTS = ("service", "route", "source", "requests", "without_span")
SPANS = [
    # began after, s; took, s; name; kind; id; parent; request id; status; error
    (0.5, 0.25, "GET /orders/:id", "server", "22" * 8, ROOT_SPAN, NAMED, 200, False),
    (0.6, 0.05, "SELECT", "client", "33" * 8, "22" * 8, "", 0, True),
]


def when(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# Requests with the headers of the app, and those of them without a span, by second: an hour, and the first minutes.
MATCHED = dict.fromkeys(range(-HOUR, 180, 60), (10, 0)) | {60: (10, 7)}


CAPACITY = 20.0  # requests/s, of the service shop


def fill(client: Any) -> None:
    # A part that is put aside, of a row that no panel has.
    client.insert("capacity", [["gone", 1.0]], column_names=["service", "rate"])
    client.command("ALTER TABLE capacity DETACH PARTITION tuple()")
    for rate in (900.0, CAPACITY):  # noted twice: the last one counts
        client.insert("capacity", [["shop", rate]], column_names=["service", "rate"])
    client.insert(
        "listen_queue",
        [[when(row[0]), *row[1:]] for row in SAMPLES],
        column_names=["time", "machine", "socket", "port", "depth", "backlog"],
    )
    client.insert(
        "pipeline_metrics",
        [
            [when(at), "edge", component, metric, "", {"pid": "1"}, float(value)]
            for at, component, metric, value in COUNTERS
        ],
        column_names=["time", "agent", "component", "metric", "file", "tags", "value"],
    )
    client.command("SYSTEM STOP VIEW spans_refresh")  # it would count the requests of these minutes
    client.insert(
        "spans_minute",
        [
            [when(AT + second), when(AT + second), *([value] for value in ("shop", "/r", SOURCE, *numbers))]
            for second, numbers in MATCHED.items()
        ],
        column_names=["minute", "computed", *(f"counts.{name}" for name in SPAN_COUNTS)],
    )
    client.insert(
        "lines_received",
        [[when(row[0]), *row[1:]] for row in ARRIVED],
        column_names=["minute", "kind", "source", "lines"],
    )
    client.insert(
        "line_runs",
        [[SOURCE, *run[:3], *map(when, run[3:5]), False, when(run[5])] for run in RUNS],
        column_names=["source", "begin", "end", "lines", "since", "until", "refused", "arrived"],
    )
    client.insert(
        "log_files",
        [
            [host, source, file, when(AT + after), when(AT + after), when(AT + after), when(AT + after), *of_file]
            for host, source, file, after, *of_file in FILES
        ],
        column_names=[
            "host", "source", "file", "slot", "sampled", "arrived", "present", "low", "size", "read", "judged",
        ],
    )  # fmt: skip
    for row in REFUSED:  # one insert each: what is delivered again comes in another
        client.insert(
            "dead_letters",
            [[when(row[0]), *row[1:]]],
            column_names=["time", "kind", "source", "position", "reason", "raw"],
        )
    for _ in range(2):
        client.insert(
            "spans",
            [
                [
                    when(AT + began),
                    when(AT + began + took),
                    TRACE,
                    span,
                    parent,
                    request,
                    "shop",
                    name,
                    kind,
                    "/orders/:id",
                    "1000",
                    status,
                    error,
                    {"http.request.method": "GET"},
                    {"host.name": "app-1"},
                ]
                for began, took, name, kind, span, parent, request, status, error in SPANS
            ],
            column_names=[
                "start",
                "end",
                "trace_id",
                "span_id",
                "parent_span_id",
                "request_id",
                "service",
                "name",
                "kind",
                "route",
                "worker",
                "status_code",
                "error",
                "attributes",
                "resource",
            ],
        )


NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


def serve(
    store: Boards, minutes: range, *, waiting: float, service: float = 0.1, name: str = "shop", each: int = 60,
    workers: int = 1, stamped: bool = False, now: datetime = NOW,
) -> None:  # fmt: skip
    """``each`` requests in each of the minutes before now's; ``stamped``: the app says when it began."""
    from sojourn.store.rollups import REFRESH  # noqa: PLC0415

    last, took = now.replace(second=0, microsecond=0), waiting + service
    rows = []
    for minute in minutes:
        for number in range(each):
            end = last - timedelta(minutes=minute) + timedelta(seconds=number * 60 / each)
            start = end - timedelta(seconds=took)
            row = {
                "time": end, "request_time": took, "proxy_start": start, "request_start": start if stamped else None,
                "status": 200, "service": name, "route": "/", "proxy": "edge", "worker": f"w{number % workers}",
                "request_id": f"{name}{minute}.{number}", "attempt_addr": ["a:1"], "attempt_status": [200],
                "attempt_connect": [0.0], "attempt_header": [took], "attempt_response": [took],
                "app_service_time": service, "app_queueing_delay": waiting if stamped else None,
            }  # fmt: skip
            rows.append(row)
    store.client.insert("incoming_rows", [list(row.values()) for row in rows], column_names=list(rows[0]))
    store.client.command(REFRESH)
