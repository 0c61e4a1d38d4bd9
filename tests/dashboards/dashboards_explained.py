"""Requests that were given up on while their work went on; blame and held workers of files, without a store."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import polars as pl
from dashboards_support import BEGIN, END
from sojourn.analyses.blame.by_minute import blame_by_minute
from sojourn.analyses.split.run import split
from sojourn.timeline.held_minutes import held_by_minute
from sojourn.timeline.visits import visits


def given_up(records: list[dict[str, str]]) -> list[tuple[dict[str, str], float]]:
    """Some abandoned requests, and the seconds that a worker spent on each."""
    gone = [r for r in records if r["status"] in {"499", "504"} and r["request_id"] not in {"", "-"}]
    return [(record, 0.5 + 0.125 * number) for number, record in enumerate(gone[::3][:24])]


def spans_of(gone: list[tuple[dict[str, str], float]]) -> bytes:
    lines = []
    for number, (record, seconds) in enumerate(gone):
        begin = round(float(record["time"]) * 1000) * 1_000_000
        span = {
            "traceId": f"{number + 1:032x}", "spanId": f"{number + 1:016x}", "kind": 2, "name": "late",
            "startTimeUnixNano": str(begin), "endTimeUnixNano": str(begin + round(seconds * 1e9)),
            "attributes": [
                {"key": "http.request.header.x-request-id", "value": {"stringValue": record["request_id"]}},
                {"key": "http.route", "value": {"stringValue": record["route"]}},
                {"key": "queueing.worker", "value": {"stringValue": record["worker"]}},
            ],
        }  # fmt: skip
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": record["service"]}}]}
        lines.append(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}))
    return "".join(f"{line}\n" for line in lines).encode()


def blame_of(log: Path, spans: Path) -> pl.DataFrame:
    """Columns minute (unix s), service, upstream, victim, who, seconds: of the first run."""
    rows = split(log, spans=[spans], until=END, columns=("request_id",)).rows
    table = blame_by_minute(visits(rows), "route").with_columns(pl.col("victim", "culprit").fill_null(""))
    waiting = (
        pl.when(pl.col("account") != "blamed")
        .then(pl.format("({})", "account"))
        .when(pl.col("culprit") == "")
        .then(pl.lit("-"))
        .otherwise("culprit")
    )
    return table.select(
        (pl.col("minute").dt.epoch("s")).alias("minute"),
        "service",
        "upstream",
        "victim",
        waiting.alias("who"),
        "seconds",
    ).filter(pl.col("minute") <= int(END.timestamp()))


def held_of(log: Path, spans: Path) -> pl.DataFrame:
    """Columns minute (unix s), service, upstream, phase, seconds, workers: of the first run."""
    rows = split(log, spans=[spans], until=END, columns=("request_id",)).rows
    table = held_by_minute(rows, visits(rows), BEGIN, END + timedelta(minutes=1))
    return table.with_columns(pl.col("minute").dt.epoch("s"))
