"""`sojourn lab`: list the scenarios, run one, show a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sojourn.model.formatting import printable

import sojourn_lab
from sojourn_lab.cli.common import (
    FAILURE,
    RUNS,
    USAGE,
    AsJson,
    fail,
    plainly,
    print_json,
    print_record,
)
from sojourn_lab.cli.load_command import offer_load, sample_listen_queues
from sojourn_lab.cli.new import new_scenario
from sojourn_lab.cli.replay import replay
from sojourn_lab.cli.run_command import run_scenario
from sojourn_lab.cli.runs import compare, list_runs
from sojourn_lab.experiments.playbook.run import finished_playbook
from sojourn_lab.experiments.playbook.steps import checked, find_playbook
from sojourn_lab.experiments.playbook.tables import print_playbook
from sojourn_lab.results.progress import watched
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import run_in
from sojourn_lab.runtime.interrupts import Interrupted, Interrupts
from sojourn_lab.scenario.files import scenario_from_file, shipped_scenario_paths

ARTICLES = {
    "004": "Queueing delay with nginx and one-process app servers (Zendesk Engineering)",
    "000": "Load testing a dashboard service (Fitbit Engineering)",
    "001": "Load testing a WebSocket feature-flag service (FeatBit)",
    "002": "Load testing a platform: beating the baseline (Achievers, 2023)",
    "003": "Load testing for 50 million concurrent viewers (Mux)",
    "": "Not from an article",
}
"""Article number, as in a scenario's `article` -> title; in the order of `sojourn lab list`."""

app = typer.Typer(
    name="lab",
    help=sojourn_lab.__doc__,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("new")(new_scenario)
app.command("run")(run_scenario)
app.command("runs")(list_runs)
app.command("compare")(compare)
app.command("replay")(replay)


@app.command("list")
@plainly
def list_scenarios(as_json: AsJson = False) -> None:
    """List the scenarios that come with the lab, by the article they repeat."""
    scenarios = [scenario_from_file(path) for path in shipped_scenario_paths()]
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "article": each.article or None,
                    "title": each.title,
                    "question": each.question,
                    "cases": len(each.cases),
                }
                for each in scenarios
            ]
        )
        return
    console = Console()
    for number, article in ARTICLES.items():
        members = [each for each in scenarios if each.article == number]
        if not members:
            continue
        table = Table(title=f"{number} {article}".strip(), title_justify="left", title_style="bold")
        for heading in ("name", "cases", "question"):
            table.add_column(heading, no_wrap=heading == "name")
        for each in members:
            table.add_row(escape(each.name), str(len(each.cases)), escape(printable(each.question)))
        console.print(table)


@app.command("playbook")
@plainly
def run_playbook(
    name: Annotated[str, typer.Argument(help="Name of a shipped playbook, or a file.", metavar="NAME|FILE")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the playbook; it must not exist. Default: runs/<playbook>-playbook-<UTC time>."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run the short form.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")] = False,
) -> None:
    """Run a scenario repeatedly, with one change each time. Exit 1 if the result misses a criterion."""
    playbook = find_playbook(name)
    checked(playbook, quick=quick)
    own = f"{playbook.name}-playbook"
    folder = RunFolder.claimed(out) if out is not None else RunFolder.claimed_by_time(RUNS, own)
    interrupts = Interrupts()
    try:
        with interrupts.caught(), watched(quiet) as watcher:
            record = finished_playbook(playbook, folder, interrupts, watcher, quick=quick)
    except Interrupted as interrupt:
        fail(f"stopped by {interrupt}; everything is down, results so far are in {folder.partial}", interrupt.exit_code)
    if as_json:
        print_json({"folder": str(folder.final), **msgspec.to_builtins(record)})
    else:
        print_playbook(Console(), record, str(folder.final))
    if not record.passed:
        raise typer.Exit(FAILURE)


@app.command("show")
@plainly
def show_run(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its name in runs/.", metavar="RUN")],
    as_json: AsJson = False,
) -> None:
    """Show the results of a run."""
    folder = run if run.exists() else RUNS / run
    if not folder.exists():
        fail(f"there is no run {run} (nor {folder}): `sojourn lab runs` lists the runs", USAGE)
    print_record(run_in(folder), folder, as_json)


app.command("load")(offer_load)
app.command("listen")(sample_listen_queues)
