"""Logs whose figures are known, and the dashboards' queries run on the store that holds them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import sojourn
from grafana_expand import ALL, View, expanded
from simulator import BAD_LINES, EPOCH, Settings, as_lines, simulated_log

HERE = Path(__file__).parents[2] / "dashboards"
JSON = HERE / "grafana" / "dashboards"
BEGIN = datetime.fromtimestamp(EPOCH, UTC)
END = BEGIN + timedelta(minutes=15)
LATER = timedelta(hours=1)  # when the second run begins

HOSTILE = (
    r"/it's",
    r"/\' OR 1=1 --",
    "/back\\",
    '/"quoted" $__timeFilter ${service}',
    "/a,b&c=d;e{f}",
    "/naïve/☃",
    "/percent%27%5c",
    "/*c*/ -- ;DROP TABLE requests",
    "-x",
)
ROUTES = ("/orders/:id", "/search")
NAMED = "4" * 31 + "e"  # a request id to look for, of one that was tried twice
TRACE, ROOT_SPAN = "ab" * 16, "11" * 8
NO_IDS = 37  # every so many requests have none


def boards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(JSON.glob("*.json"))}


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All but rows; those within collapsed rows too."""
    for panel in board["panels"]:
        yield from ([panel] if panel["type"] != "row" else panel.get("panels") or [])


def text_of(target: dict[str, Any]) -> str:
    """SQL of ClickHouse, or PromQL."""
    return target["expr"] if "expr" in target else target["rawSql"]


def has_column(panel: dict[str, Any], name: str) -> bool:
    """Whether an answer of the panel's queries has a column, a series or a label of this name."""
    for target in panel["targets"]:
        if "rawSql" in target and f'"{name}"' in target["rawSql"]:
            return True
        if "expr" in target and (target["legendFormat"] == name or re.search(rf"by \([^)]*\b{name}\b", target["expr"])):
            return True
    return False


def queries() -> list[tuple[str, str, str]]:
    """(dashboard, panel, SQL) of every panel that asks ClickHouse."""
    return [
        (name, panel["title"], target["rawSql"])
        for name, board in boards().items()
        for panel in panels(board)
        for target in panel.get("targets") or []
        if "rawSql" in target
    ]


def variables(board: dict[str, Any]) -> dict[str, str | list[str]]:
    """Each variable's value as the dashboard opens."""
    return {v["name"]: v.get("current", {}).get("value", "") for v in board["templating"].get("list") or []}


def whole(name: str, **values: str | list[str]) -> View:
    """A dashboard over everything that was loaded for the first run."""
    return View(BEGIN, END, 60, variables(boards()[name]) | values)


@dataclass
class PanelAnswer:
    """An answer as the plugin gets it."""

    columns: list[str]
    types: list[str]
    rows: list[dict[str, Any]]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]


class Boards:
    """A store, and the questions of the dashboards to it."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def sql(self, text: str) -> PanelAnswer:
        answer = self.client.query(text)
        names = list(answer.column_names)
        types = [kind.name for kind in answer.column_types]
        return PanelAnswer(names, types, [dict(zip(names, row, strict=True)) for row in answer.result_rows])

    def panel(self, name: str, title: str, view: View) -> PanelAnswer:
        matches = [text for board, panel, text in queries() if (board, panel) == (name, title)]
        assert len(matches) == 1, f"{name} has {len(matches)} panels {title!r}"
        return self.sql(expanded(matches[0], view))


def records() -> list[dict[str, str]]:
    """A quarter of an hour of two services, failures and hostile names among them; later the second run of one."""
    items = []
    for service, settings in (
        ("shop", Settings(requests=9_000, rate=12.0)),
        ("api", Settings(requests=4_000, rate=6.0, service=0.05, seed=11)),
    ):
        rows, _ = simulated_log(settings)
        for number, row in enumerate(rows):
            row["upstream_addr"] = row["upstream_addr"].replace("10.0.0.", f"10.0.{len(service)}.")
            row |= {"service": service, "route": ROUTES[number % 7 == 0], "method": ("GET", "POST")[number % 5 == 0]}
            if number % 40 == 3:
                row["route"] = HOSTILE[number // 40 % len(HOSTILE)]
            if number % NO_IDS == 0:
                row["request_id"] = ("", "-")[number % 2]
            spoil(row, number)
        items += rows
    items = [row for row in items if float(row["time"]) < END.timestamp() - 60]
    result = next(
        row
        for row in items
        if row["service"] == "shop"
        and ", " in row["upstream_addr"]
        and row["status"] == "200"
        and float(row["queueing_delay"]) > 0
    )
    result |= {"request_id": NAMED, "trace_id": TRACE, "span_id": ROOT_SPAN}
    slow, _ = simulated_log(Settings(requests=1_500, rate=10.0, service=0.12, seed=5))
    for row in slow:
        row |= {
            "service": "shop",
            "route": ROUTES[0],
            "time": f"{float(row['time']) + LATER.total_seconds():.3f}",
            "request_start": f"{float(row['request_start']) + LATER.total_seconds():.3f}",
        }
        row["queueing_delay"] = ""
    return items + slow


def spoil(row: dict[str, str], number: int) -> None:
    """Failures of every kind, each known by its place."""
    last = {key: row[key].rpartition(", ")[0] for key in row if key.startswith("upstream_")}
    if number % 97 == 5:  # nginx gave up: no answer from the app
        row |= {
            "status": "504",
            "queueing_delay": "-",
            "service_time": "-",
            "upstream_status": _with(last, "status", "504"),
            "upstream_header_time": _with(last, "header_time", "-"),
        }
    elif number % 101 == 7:  # the client gave up
        row |= {
            "status": "499",
            "queueing_delay": "-",
            "service_time": "-",
            "upstream_status": _with(last, "status", "-"),
            "upstream_header_time": _with(last, "header_time", "-"),
        }
    elif number % 103 == 9:
        row["status"] = "500"
    elif number % 107 == 11:  # answered, without the middleware
        row |= {"queueing_delay": "-", "service_time": "-"}


def _with(before: dict[str, str], key: str, value: str) -> str:
    earlier = before[f"upstream_{key}"]
    return f"{earlier}, {value}" if earlier else value


def log_of(rows: list[dict[str, str]]) -> bytes:
    return b"".join(as_lines(rows)) + b"".join(line for line, _ in BAD_LINES)


def truth(log: Path) -> pl.DataFrame:
    """Each record and its parts in seconds, as ``sojourn split`` has them."""
    rows = sojourn.split(log, columns=("request_id", "method")).rows.lazy().collect()
    return rows.select(
        (pl.col("time").dt.epoch("us") / 1e6).round(3).alias("time"),
        *("service", "upstream", "method", "status", "service_time", "upload", "retries", "send", "attempts"),
        *(pl.col(name).fill_null("") for name in ("route", "worker", "request_id")),
        response=pl.col("request_time").round(6),
        queueing="queueing_delay",
        waited=pl.coalesce("queueing_delay", "connect", 0.0),
        worked=pl.col("service_time").fill_null(0.0),
        network=pl.col("network").fill_null(0.0),
        transfer=pl.col("transfer").fill_null(0.0),
        unattributed="unattributed",
        unmeasured=pl.col("answered") & pl.col("queueing_delay").is_null() & pl.col("service_time").is_null(),
    ).with_columns(minute=(pl.col("time") // 60 * 60).cast(pl.Int64))


def bucket(seconds: float) -> int:
    """The histogram's bucket, by its definition."""
    return -80 if seconds < 1e-4 else math.floor(math.log10(seconds) * 20 + 1e-9)


def first_run(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("time") < END.timestamp())


def stamp(instant: datetime) -> int:
    """A DateTime of the engine as unix seconds."""
    return int(instant.replace(tzinfo=UTC).timestamp())


def opened(name: str) -> dict[str, str | list[str]]:
    return variables(boards()[name])


def placeholders(text: str) -> set[str]:
    """Names of the variables a query or a link speaks of."""
    matches = re.findall(r"\$\{(\w+)(?:[.:\[][^}]*)?\}|\$(\w+)", text)
    return {a or b for a, b in matches if not (a or b).startswith("__")}


__all__ = [name for name in dir() if not name.startswith("_")] + ["ALL"]
