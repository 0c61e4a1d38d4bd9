"""`python -m sojourn_lab.experiments.pipeline.store PLAN.json`: insert into an embedded engine.

Rows are log records as the store has parsed them, inserted as JSON into the table of rows: lines are not parsed.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from sojourn.store import connect, init, load
from sojourn.store.schema import schema_files

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.pipeline.plan import Inserted, Inserts
from sojourn_lab.experiments.pipeline.records import FIRST, log_lines

PATTERN = 2_000
"""Different records; a batch repeats them, each row with its own instant and id."""

MARK = b"5040f1ed"
"""Stands where every insert has its own number, in the id of each row."""

PARTITIONS = {
    "day": "PARTITION BY toYYYYMMDD(time)",
    "hour": "PARTITION BY toStartOfHour(time)",
    "none": "",
}
"""What the table is cut by, in ClickHouse's words; the shipped one is cut by the day."""


def table_statement(statement: str, table: str) -> str:
    """Return the shipped CREATE TABLE of requests with another name, partitioned as `PARTITIONS` defines.

    LabError where the statement does not look as it did when this was written.
    """
    head, cut = "CREATE TABLE IF NOT EXISTS requests", PARTITIONS["day"]
    if head not in statement or cut not in statement:
        raise LabError("the shipped table of requests is no longer partitioned by day: update the lab")
    return statement.replace(head, f"{head}_{table}", 1).replace(cut, PARTITIONS[table], 1)


def batch_text(rows: list[dict[str, Any]], count: int, spread: float) -> bytes:
    """Return `count` rows as lines of JSON, their instants evenly within `spread` seconds; MARK is in every id."""
    first = datetime.fromtimestamp(FIRST, UTC)
    lines = []
    for number in range(count):
        instant = first + timedelta(seconds=spread * (number + 0.5) / count)
        own = {"time": f"{instant:%Y-%m-%d %H:%M:%S.%f}", "request_id": f"{MARK.decode()}{number:024x}"}
        lines.append(msgspec.json.encode({**rows[number % len(rows)], **own}))
    return b"\n".join(lines)


def inserted(plan: Inserts) -> Inserted:
    """Insert for the duration of the plan, at least twice, and return the result."""
    began = time.time()
    dsn = f"chdb://{plan.folder}"
    init(dsn)
    log = Path(f"{plan.folder}.jsonl")
    log.write_bytes(b"".join(log_lines(PATTERN, plan.seed)))
    load(dsn, [str(log)])
    with connect(dsn) as store:
        client = store.client
        names = client.query(
            "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'incoming_rows'"
            " ORDER BY position"
        ).result_rows
        columns = ", ".join(name for (name,) in names)
        answer = client.raw_query(f"SELECT {columns} FROM requests", fmt="JSONEachRow")  # noqa: S608 - names of ours
        rows = [msgspec.json.decode(line, type=dict[str, Any]) for line in answer.splitlines()]
        table = "requests"
        if plan.table != "shipped":
            table = f"requests_{plan.table}"
            shipped, view = (
                next(each for each in schema_files() if each.name == name).statements()[0]
                for name in ("tables/requests", "incoming/rows")
            )
            client.command(table_statement(shipped, plan.table))
            client.command("DROP VIEW rows_to_requests SYNC")
            client.command(view.replace(" TO requests\n", f" TO {table}\n", 1))
        loaded = client.query(f"SELECT count() FROM {table}").result_rows[0][0]  # noqa: S608
        text = batch_text(rows, plan.batch, plan.spread)
        settings = {
            "max_threads": plan.threads,
            "max_insert_threads": plan.threads,
            "max_partitions_per_insert_block": 0,
        }
        number = 0

        def insert() -> float:
            nonlocal number
            block = text.replace(MARK, b"%08x" % number)
            number += 1
            before = time.monotonic()
            client.raw_insert("incoming_rows", insert_block=block, fmt="JSONEachRow", settings=settings)
            return time.monotonic() - before

        ready = time.monotonic()
        insert()
        while time.monotonic() - ready < plan.warmup:
            insert()
        since, cpu = time.time(), time.process_time()
        took: list[float] = []
        while not took or time.time() - since < plan.duration:
            took.append(insert())
        until, cpu = time.time(), time.process_time() - cpu
        figures = {
            "rows_per_s": len(took) * plan.batch / sum(took),
            "insert_seconds": sum(took) / len(took),
            "inserts": len(took),
            "cores": cpu / (until - since),
            "row_cpu": cpu / (len(took) * plan.batch),
            **_of_table(client, table, plan.spread),
        }
        expected = number * plan.batch + loaded
        figures["lost"] = expected - client.query(f"SELECT count() FROM {table} FINAL").result_rows[0][0]  # noqa: S608
    return Inserted(began, since, until, figures)


def _of_table(client: Any, table: str, spread: float) -> dict[str, float | None]:
    """Return `partitions`, `parts` (at this instant) and `read_share`.

    That is the share of the table's rows that the engine means to read for one hour of log time, the middle one.
    """
    partitions, parts, rows = client.query(
        "SELECT uniqExact(partition_id), count(), sum(rows) FROM system.parts"
        " WHERE database = currentDatabase() AND active AND table = {table:String}",
        parameters={"table": table},
    ).result_rows[0]
    middle = FIRST + spread / 2.0
    hour = datetime.fromtimestamp(middle - middle % 3600.0, UTC)
    bounds = [f"'{each:%Y-%m-%d %H:%M:%S}'" for each in (hour, hour + timedelta(hours=1))]
    question = (
        f"EXPLAIN ESTIMATE SELECT quantile(0.99)(request_time) FROM {table}"  # noqa: S608 - names and times of ours
        f" WHERE time >= {bounds[0]} AND time < {bounds[1]}"
    )
    estimate = sum(row[3] for row in client.query(question).result_rows)
    return {"partitions": partitions, "parts": parts, "read_share": estimate / rows if rows else None}


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for an invalid plan, 1 if the store failed."""
    try:
        (path,) = arguments
        plan = msgspec.json.decode(Path(path).read_bytes(), type=Inserts)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"store: needs one plan file: {error}\n")
        return 2
    try:
        result = inserted(plan)
    except Exception as error:  # the engine's errors are of many kinds; the parent process shows this text
        sys.stderr.write(f"store: {type(error).__name__}: {' '.join(str(error).split())[:600]}\n")
        return 1
    Path(plan.result).write_bytes(msgspec.json.encode(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
