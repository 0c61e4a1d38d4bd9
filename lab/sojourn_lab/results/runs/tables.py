"""All runs of a folder as tables for DuckDB, made from the runs' files at each query; nothing else is stored.

    runs        one row a run             number, run, scenario, article, started, …, versions, changes, setup (JSON)
    cases       one row a case and round  run, case_name (its name in the log), base, round, load, client, split
    figures     every number of a case    run, case_name, base, round, path (as in criteria), value
    criteria    one row per judgement     run, name, case_name, metric, bound, value, passed
    contrasts   one row per contrast      run, name, metric, a, b, ratio, low, high, rounds
    requests    every requests.parquet    run, number, then the columns of the files, by name

Durations are seconds, instants UTC. `number` counts the runs from 1 in the order in which they were started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.results.criteria import number_at, value_at
from sojourn_lab.results.runs.archive import Archive, ArchivedRun, Row, cases_of, figures_of, instant_of, tables_in

if TYPE_CHECKING:
    import duckdb

TABLES: dict[str, dict[str, str]] = {
    "runs": {
        "number": "INTEGER", "run": "VARCHAR", "scenario": "VARCHAR", "title": "VARCHAR", "article": "VARCHAR",
        "started": "TIMESTAMP", "finished": "TIMESTAMP", "scale": "DOUBLE", "seed": "BIGINT", "repeats": "INTEGER",
        "runtime": "VARCHAR", "passed": "BOOLEAN", "void": "BOOLEAN", "criteria": "INTEGER", "kept": "INTEGER",
        "spin_up": "DOUBLE", "tear_down": "DOUBLE", "client_rows": "BIGINT", "access_rows": "BIGINT",
        "span_rows": "BIGINT", "versions": "JSON", "changes": "JSON", "faults": "JSON", "setup": "JSON",
    },
    "cases": {
        "number": "INTEGER", "run": "VARCHAR", "case_name": "VARCHAR", "base": "VARCHAR", "round": "INTEGER",
        "kind": "VARCHAR", "service_time": "DOUBLE", "since": "TIMESTAMP", "until": "TIMESTAMP", "warmup": "DOUBLE",
        "duration": "DOUBLE", "offered": "BIGINT", "answered": "BIGINT", "failed": "BIGINT", "achieved_rate": "DOUBLE",
        "response_mean": "DOUBLE", "response_p50": "DOUBLE", "response_p99": "DOUBLE", "queueing_mean": "DOUBLE",
        "queueing_p99": "DOUBLE", "service_mean": "DOUBLE", "service_p99": "DOUBLE", "queueing_share": "DOUBLE",
        "void": "BOOLEAN",
    },
    "figures": {
        "number": "INTEGER", "run": "VARCHAR", "case_name": "VARCHAR", "base": "VARCHAR", "round": "INTEGER",
        "path": "VARCHAR", "value": "DOUBLE",
    },
    "criteria": {
        "number": "INTEGER", "run": "VARCHAR", "name": "VARCHAR", "case_name": "VARCHAR", "metric": "VARCHAR",
        "bound": "VARCHAR", "value": "DOUBLE", "passed": "BOOLEAN",
    },
    "contrasts": {
        "number": "INTEGER", "run": "VARCHAR", "name": "VARCHAR", "metric": "VARCHAR", "a": "DOUBLE", "b": "DOUBLE",
        "ratio": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "rounds": "INTEGER",
    },
}  # fmt: skip
"""Columns and types of the tables that are made from run.json."""

OF_CASES = {
    "service_time": "service_time", "warmup": "warmup", "duration": "duration", "offered": "client.offered",
    "answered": "client.answered", "failed": "client.failed", "achieved_rate": "client.achieved_rate",
    "response_mean": "split.response_time.mean", "response_p50": "split.response_time.p50",
    "response_p99": "split.response_time.p99", "queueing_mean": "split.components.queueing_delay.mean",
    "queueing_p99": "split.components.queueing_delay.p99", "service_mean": "split.components.service_time.mean",
    "service_p99": "split.components.service_time.p99", "queueing_share": "split.queueing_share",
}  # fmt: skip
"""Columns of `cases` that are a number of the case's result, and its path."""


def run_rows(archive: Archive) -> list[Row]:
    """Return the rows of `runs`."""
    rows = []
    for each in archive.runs:
        raw, scenario = each.raw, each.raw["scenario"]
        judged = tables_in(raw, "criteria")
        row = {
            "number": each.number,
            "run": each.name,
            "scenario": scenario["name"],
            "title": scenario.get("title"),
            "article": scenario.get("article"),
            "started": instant_of(raw["started"]),
            "finished": instant_of(raw.get("finished")),
            **{key: number_at(key, raw) for key in ("scale", "spin_up", "tear_down")},
            "seed": _whole("seed", scenario),
            "repeats": _whole("repeats", scenario) or 1,
            "runtime": raw.get("runtime"),
            "passed": raw.get("passed"),
            "void": raw.get("void"),
            "criteria": len(judged),
            "kept": sum(each.get("passed") is True for each in judged),
            **{f"{name[:-1] if name == 'spans' else name}_rows": _whole(f"rows.{name}", raw) for name in
               ("client", "access", "spans")},
            **{key: _json(raw.get(key)) for key in ("versions", "changes", "faults")},
            "setup": _json(scenario),
        }  # fmt: skip
        rows.append(row)
    return rows


def _case_rows(archive: Archive) -> Iterator[Row]:
    for run in archive.runs:
        for name, base, turn, case in cases_of(run):
            yield {
                **_of(run, name, base, turn),
                "kind": value_at("load.kind", case),
                "since": instant_of(value_at("window.from", case)),
                "until": instant_of(value_at("window.to", case)),
                **{column: number_at(path, case) for column, path in OF_CASES.items()},
                "void": bool(case.get("void") or value_at("client.void", case)),
            }


def _figure_rows(archive: Archive) -> Iterator[Row]:
    for run in archive.runs:
        for name, base, turn, case in cases_of(run):
            of = _of(run, name, base, turn)
            for path, value in figures_of(case):
                yield {**of, "path": path, "value": value}


def _judged_rows(archive: Archive, key: str) -> Iterator[Row]:
    columns = TABLES[key]
    for run in archive.runs:
        for each in tables_in(run.raw, key):
            values = {column: each.get("case" if column == "case_name" else column) for column in columns}
            yield {**values, "number": run.number, "run": run.name}


def _of(run: ArchivedRun, name: str, base: str, turn: int) -> Row:
    return {"number": run.number, "run": run.name, "case_name": name, "base": base, "round": turn}


def _whole(path: str, raw: Row) -> int | None:
    number = number_at(path, raw)
    return None if number is None else int(number)


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def query(archive: Archive, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the result of one SELECT over the tables: the names of its columns, and its rows as plain values.

    Other statements are refused, and no file but the runs' own can be read. Runs whose requests.parquet cannot be read
    are added to the archive's `unreadable`. LabError for SQL that DuckDB refuses.
    """
    import duckdb  # noqa: PLC0415 - brings its own engine

    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")  # on under `python -c`, and it is written to stdout
    try:
        statements = con.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise LabError("--sql takes one SELECT statement: runs are read, not changed")
        _fill(con, archive)
        table = con.sql(statements[0].query).to_arrow_table()
        columns = [column.to_pylist() for column in table.columns]
    except duckdb.Error as error:
        raise LabError(f"the SQL was refused: {error}") from None
    finally:
        con.close()
    return list(table.column_names), list(zip(*columns, strict=True))


def _fill(con: duckdb.DuckDBPyConnection, archive: Archive) -> None:
    """Make the tables, then disable access to other files and settings."""
    import polars as pl  # noqa: PLC0415

    con.execute("SET TimeZone = 'UTC'")
    tables = {
        "runs": run_rows(archive),
        "cases": list(_case_rows(archive)),
        "figures": list(_figure_rows(archive)),
        "criteria": list(_judged_rows(archive, "criteria")),
        "contrasts": list(_judged_rows(archive, "contrasts")),
    }
    types: dict[str, Any] = {"INTEGER": pl.Int64, "BIGINT": pl.Int64, "DOUBLE": pl.Float64, "BOOLEAN": pl.Boolean,
             "TIMESTAMP": pl.Datetime("us"), "VARCHAR": pl.String, "JSON": pl.String}  # fmt: skip
    for name, rows in tables.items():
        columns = TABLES[name]
        frame = pl.DataFrame(rows, schema={key: types[kind] for key, kind in columns.items()}, strict=False)
        con.register("rows_of_run", frame.to_arrow())
        selected = ", ".join(f'CAST("{key}" AS {kind}) AS "{key}"' for key, kind in columns.items())
        con.execute(f"CREATE TABLE {name} AS SELECT {selected} FROM rows_of_run")  # noqa: S608 - names of our own
        con.unregister("rows_of_run")
    files = _request_files(archive)
    con.execute("SET allowed_paths = $paths", {"paths": list(files)})
    if files:
        con.execute("CREATE TABLE request_files (filename VARCHAR, number INTEGER, run VARCHAR)")
        con.executemany(
            "INSERT INTO request_files VALUES (?, ?, ?)",
            [[path, each.number, each.name] for path, each in files.items()],
        )
        paths = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
        con.execute(
            "CREATE VIEW requests AS SELECT request_files.number, request_files.run, rows.* EXCLUDE (filename) "  # noqa: S608 - paths are quoted
            f"FROM read_parquet([{paths}], union_by_name = true, filename = true) AS rows "
            "JOIN request_files USING (filename)"
        )
    else:
        con.execute("CREATE TABLE requests (number INTEGER, run VARCHAR)")
    con.execute("SET enable_external_access = false")
    con.execute("SET python_enable_replacements = false")
    con.execute("SET lock_configuration = true")


def _request_files(archive: Archive) -> dict[str, ArchivedRun]:
    """Return the requests.parquet that can be read, by absolute path."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    files = {}
    for run in archive.runs:
        path = run.requests.resolve()
        if not path.is_file():
            continue
        try:
            pq.read_schema(path)
        except (OSError, pa.ArrowException) as error:
            archive.unreadable[f"{run.name}/requests.parquet"] = f"cannot be read: {error}"
        else:
            files[str(path)] = run
    return files
