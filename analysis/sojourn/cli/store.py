"""``sojourn store``: create the tables, load logs into them, query them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.store_files import files
from sojourn.invocation.options import AsJson, LogFormatOption, TableColumns, WorkersOption, workers_of
from sojourn.invocation.progress import instant, pairs, pipe_closed_early_is_fine, reading_bar
from sojourn.model.dsn import parse
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, printable, tally

if TYPE_CHECKING:
    from sojourn.store.load_result import Loaded

app = typer.Typer(help="Keep requests in ClickHouse or its embedded engine.", no_args_is_help=True)

TABLE_ROWS = 100
MOST_FILES = 8  # more of the schema are counted

Address = Annotated[
    str, typer.Argument(metavar="DSN", help="chdb:///path, clickhouse://host[:port][/database] or clickhouses://…")
]


@app.command()
def init(
    dsn: Address,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS", min=0, help="Remove rows older than this (rollups stay); 0: keep all. Default: as is."
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Make the tables on every machine of this cluster.")
    ] = None,
    roles: Annotated[
        bool,
        typer.Option("--roles", help="Also create the roles, and the users with a password file (server only)."),
    ] = False,
) -> None:
    """Create or update the tables. Repeatable."""
    from sojourn.store.migrate import init as make  # noqa: PLC0415
    from sojourn.store.roles import make_roles  # noqa: PLC0415

    address = parse(dsn)
    if roles and address.embedded:
        raise SojournError(
            f"{address}: --roles needs a server: the embedded engine has no users (use the folder's mode)"
        )
    done = make(address, keep_days=keep, cluster=cluster)
    names = counted(len(done), "file") + " of the schema" if len(done) > MOST_FILES else ", ".join(done)
    typer.echo(f"{address}: {f'applied {names}' if done else 'up to date'}")
    if keep is not None:
        typer.echo(f"rows are kept {f'for {keep} days' if keep else 'without a limit'}")
    if roles:
        users = ", ".join(make_roles(address, cluster=cluster)) or "none (no password file was given)"
        typer.echo(f"roles created; users: {users}")


@app.command()
def load(
    dsn: Address,
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Log files (plain, .gz, .zst), globs, -, run folders.")
    ],
    spans: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Spans, OTLP/JSON lines. Repeatable.")
    ] = None,
    app_log: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="The app's own log: request_id, service_time, start as JSON lines. Repeatable."
        ),
    ] = None,
    closes: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE@BEGIN-END",
            help="These lines fill this gap of line_gaps: it is closed when they are loaded.",
        ),
    ] = None,
    log_format: LogFormatOption = None,
    table_columns: TableColumns = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Load logs into the store. Loading twice counts once; refused lines go to dead_letters."""
    from sojourn.sources.log_files import with_formats  # noqa: PLC0415
    from sojourn.store import load as into  # noqa: PLC0415

    with reading_bar(quiet) as progress:
        loaded = into(
            dsn,
            with_formats(sources, log_format, table_columns),
            spans=spans or (),
            app_logs=app_log or (),
            closes=closes,
            **progress,
        )
    typer.echo(_summary(loaded))


@app.command()
def query(
    dsn: Address,
    sql: Annotated[str | None, typer.Argument(metavar="SQL", help="A read-only statement.")] = None,
    file: Annotated[Path | None, typer.Option(metavar="F", help="Read the statement from a file.")] = None,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Value of {NAME:Type} in it. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, every row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV, every row.")] = False,
    limit: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Rows of the table shown.")] = TABLE_ROWS,
) -> None:
    """Query the store in SQL, read only. FINAL after a table's name counts repeated deliveries once."""
    from sojourn.store import connect  # noqa: PLC0415
    from sojourn.store.query import answer, write_csv, write_json  # noqa: PLC0415

    if (sql is None) == (file is None):
        raise typer.BadParameter("give the query as SQL, or --file with a file that holds it")
    if as_json and as_csv:
        raise typer.BadParameter("--json or --csv, not both")
    text = sql if file is None else _text_of(file)
    parameters = pairs(values or [], "--set")
    with pipe_closed_early_is_fine(), connect(dsn) as store, answer(store, text or "", parameters) as answered:
        if as_json:
            write_json(answered, sys.stdout)
        elif as_csv:
            write_csv(answered, sys.stdout)
        else:
            from rich.console import Console  # noqa: PLC0415

            from sojourn.store.table import answer_table  # noqa: PLC0415

            Console().print(answer_table(answered.columns, answered.rows, limit))


@app.command()
def doctor(dsn: Address, as_json: AsJson = False) -> None:
    """Report the schema of the store, what arrived in the last 24 hours, and what to run. Exit code 1: something."""
    from sojourn.store.doctor import examine  # noqa: PLC0415

    state = examine(dsn)
    if as_json:
        json.dump(state.to_dict(), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        typer.echo(f"schema: {state.schema}")
        if state.lines:
            lines = ", ".join(f"{name} {count:,}" for name, count in sorted(state.lines.items()))
            typer.echo(f"lines of the last 24 hours: {lines}")
        for advice in state.advice:
            why = f" {advice.why}" if advice.why else ""
            run = advice.run.replace("\n", "\n    ")
            typer.echo(f"- {advice.what}.{why}\n    {run}" if why else f"- {advice.what}:\n    {run}")
    if state.advice:
        raise typer.Exit(1)


app.command()(files)


@app.command()
def explain(
    dsn: Address,
    since: Annotated[
        str | None, typer.Option(metavar="T", help="Only minutes from T on: ISO 8601 with its zone, unix seconds, 10m.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="T", help="Only minutes before T. With --since: all between, due or not.")
    ] = None,
    workers: WorkersOption = None,
    as_json: AsJson = False,
) -> None:
    """Compute blame and held workers of every minute, for blame_minute, held_minute and the dashboards.

    Compute only minutes with requests stored since their last computation. Can be run at any interval.
    """
    begin, end = instant(since, "--since"), instant(until, "--until")
    worker_counts = workers_of(workers)
    from sojourn.analyses.blame.store import explain_store  # noqa: PLC0415 - Polars takes its time to load

    done = explain_store(dsn, since=begin, until=end, workers=worker_counts)
    if as_json:
        json.dump(vars(done), sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif not done.minutes:
        typer.echo("no minutes are due")
    else:
        gone = f", {done.gone:,} that no longer hold" if done.gone else ""
        held = f"workers held for {done.held:,.1f} s"
        if done.at_least:
            held += f" ({done.at_least:,.1f} s of it at least: more may have held them)"
        typer.echo(
            f"{counted(done.minutes, 'minute')} explained: {done.seconds:,.1f} s of waiting in "
            f"{counted(done.rows, 'row')}{gone}; {held} ({counted(done.requests, 'request')} looked at)"
        )


@app.command()
def capacity(
    dsn: Address,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="As nginx names it in its log.")],
    rate: Annotated[
        float,
        typer.Argument(metavar="RATE", min=0, help="Requests/s it sustains, as sojourn capacity estimates; 0: none."),
    ],
) -> None:
    """Record the load at which a service's objective breaks, for the dashboards and the alert."""
    from sojourn.store import connect  # noqa: PLC0415
    from sojourn.store.client import plainly  # noqa: PLC0415

    with connect(dsn) as store, plainly(store, "noting a capacity"):
        store.client.insert("capacity", [[service, rate]], column_names=["service", "rate"])
    typer.echo(f"{printable(service)}: {rate:,g} requests/s" if rate else f"{printable(service)}: no capacity")


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SojournError(f"{file}: cannot be read ({error})") from None


def _summary(loaded: Loaded) -> str:
    records = loaded.records
    text = f"{counted(records.read, 'line')} read, {counted(loaded.requests, 'request')} loaded"
    if records.rejected:
        text += f", {records.rejected:,} refused ({tally(records.reasons)}; see dead_letters)"
    for count, name in (
        (loaded.spans, "span"),
        (loaded.app_logs, "app log line"),
        (loaded.listen, "listen-queue sample"),
    ):
        if count:
            text += f", {counted(count, name)}"
    return text
