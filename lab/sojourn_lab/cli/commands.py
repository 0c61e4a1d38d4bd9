"""`sojourn lab`: list the scenarios, run one, show a run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

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
    run_in_good_order,
)
from sojourn_lab.cli.load_command import offer_load, sample_listen_queues
from sojourn_lab.cli.replay import replay
from sojourn_lab.cli.runs import compare, list_runs
from sojourn_lab.experiments.playbook.run import finished_playbook
from sojourn_lab.experiments.playbook.steps import checked, find_playbook
from sojourn_lab.experiments.playbook.tables import print_playbook
from sojourn_lab.results.metric_paths import metric_problems
from sojourn_lab.results.progress import watched
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import Run, run_in, seconds_between
from sojourn_lab.results.tables import one_line
from sojourn_lab.runtime.compose import why_not_in_containers
from sojourn_lab.runtime.external import external_runtime, external_scenario, target_from_options
from sojourn_lab.runtime.interrupts import Interrupted, Interrupts
from sojourn_lab.runtime.namespace import why_namespace_refused
from sojourn_lab.runtime.runtime import RUNTIMES
from sojourn_lab.runtime.servers.table import why_unavailable
from sojourn_lab.scenario.files import scenario_from_file, shipped_scenario_paths
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options
from sojourn_lab.scenario.schema import Scenario, needs_namespace
from sojourn_lab.scenario.topology import Server


def scenario_names(incomplete: str) -> list[str]:
    """Return the shipped scenarios whose names start with `incomplete`, for shell completion."""
    return [path.stem for path in shipped_scenario_paths() if path.stem.startswith(incomplete)]


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


@app.command("run")
@plainly
def run_scenario(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of scenarios, or scenario files.", metavar="NAME|FILE…", autocompletion=scenario_names
        ),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Run every scenario that comes with the lab.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Run the short form of each scenario.")] = False,
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.001,
            max=100.0,
            help="Multiply every duration of the file by X, including service times. Default: the scenario's `scale`.",
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.1, max=86_400.0, help="Measured seconds per case; --scale does not apply."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Measure as long as the scenario's source did.")] = False,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed of the random numbers. Default: the file's.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a key of the file: topology.workers=2, cases.lifo.load.rate=9; repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; it must not exist. Default: runs/<scenario>-<UTC time>."),
    ] = None,
    server: Annotated[Server | None, typer.Option(help="App server. Default: the scenario's.")] = None,
    runtime: Annotated[
        Literal["process", "compose"], typer.Option(help="Run the parts as local processes, or in containers.")
    ] = "process",
    url: Annotated[
        str | None,
        typer.Option(help="Start no servers: offer the load to this URL and measure at the client.", metavar="URL"),
    ] = None,
    lab_app: Annotated[
        bool, typer.Option("--lab-app", help="Send service times and routes: the lab's app is behind --url.")
    ] = False,
    max_rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", min=0.01, max=100_000.0, help="With --url: most requests a second. Default: 5."),
    ] = None,
    max_concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10_000, help="With --url: most users of a closed loop. Default: 4."),
    ] = None,
    max_duration: Annotated[
        float | None,
        typer.Option(
            metavar="S", min=0.1, max=86_400.0, help="With --url: most seconds of load of a scenario. Default: 60."
        ),
    ] = None,
    capture: Annotated[
        bool, typer.Option("--capture", help="Record the packets of nginx and its app servers: capture.pcap.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Do not repeat a void run.")] = False,
    accept_void: Annotated[
        bool, typer.Option("--accept-void", help="Exit 0 for a void run too, if every criterion passed.")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")] = False,
) -> None:
    """Run scenarios, each into its folder; repeat a void run once. Exit 1 if it is void again or a criterion failed."""
    options = RunOptions(
        quick=quick, scale=scale, duration=duration, full=full, seed=seed, settings=tuple(settings or ()),
        server=server, capture=capture,
    )  # fmt: skip
    chosen = [path.stem for path in shipped_scenario_paths()] if every else list(names or ())
    if every and names:
        fail("names and --all exclude each other: give one of them", USAGE)
    if not chosen:
        fail("no scenario is named: give names (`sojourn lab list` shows them), or --all", USAGE)
    if out is not None and len(chosen) > 1:
        fail("--out names one folder for several scenarios: run them one at a time, or leave out --out", USAGE)
    # All are read before the first is run: otherwise an error in the last would show after an hour.
    scenarios = [scenario_with_options(name, options, metric_problems) for name in chosen]
    # --all leaves out scenarios that this machine cannot run; one that is named fails with the reason.
    scaled = _runnable(scenarios) if every and runtime == "process" and url is None else scenarios
    changes = options.changes()
    maker = RUNTIMES[runtime]
    target = target_from_options(
        url, lab_app=lab_app, starts=server is not None or runtime != "process" or capture,
        limits={"rate": max_rate, "concurrency": max_concurrency, "duration": max_duration},
    )  # fmt: skip
    if target is not None:
        maker = external_runtime(target)
        changes |= {"url": target.without_query, "limits": vars(target.limits)}
        # All before the first is run, as above: a scenario that is not allowed is refused before any request.
        scaled = [(external_scenario(scenario, target), used) for scenario, used in scaled]
    reasons = [why_not_in_containers(scenario) for scenario, _ in scaled] if runtime == "compose" else []
    if any(reasons):
        fail(next(filter(None, reasons)), FAILURE)
    if target is None:
        _check_commands(scenario for scenario, _ in scaled)
    ended: list[tuple[Run, Path]] = []
    for scenario, used in scaled:
        folder = RunFolder.claimed(out) if out is not None else RunFolder.claimed_by_time(RUNS, scenario.name)
        try:
            # A void run does not double the load on servers that are not the lab's.
            run = run_in_good_order(
                scenario, used, folder, quiet, make_runtime=maker, changes=changes, once=once or target is not None
            )
        except typer.Exit as end:
            # A run that failed has printed its error, and the others go on; a signal ends them all.
            if len(scaled) == 1 or end.exit_code != FAILURE:
                raise
            continue
        ended.append((run, folder.final))
        if len(scaled) == 1:
            print_record(run, folder.final, as_json)
        elif not as_json:
            Console().print(one_line(run, str(folder.final)), soft_wrap=True)
    if len(scaled) > 1:
        _print_several(ended, len(scaled), as_json)
    if len(ended) < len(scaled) or not all(run.passed or (accept_void and run.passed_but_void) for run, _ in ended):
        raise typer.Exit(FAILURE)


def _check_commands(scenarios: Iterable[Scenario]) -> None:
    """End the command if the user's own app of a scenario cannot be started; the message has every reason."""
    reasons = {
        f"{scenario.name}: {reason}"
        for scenario in scenarios
        for case in scenario.cases
        if (topology := scenario.topology_of(case)).command is not None and (reason := why_unavailable(topology))
    }
    if reasons:
        fail("\n".join(sorted(reasons)), FAILURE)


def _runnable(scenarios: list[tuple[Scenario, float]]) -> list[tuple[Scenario, float]]:
    """Return the scenarios without those that need a namespace where none can be made; stderr names them."""
    needing = [scenario.name for scenario, _ in scenarios if needs_namespace(scenario)]
    reason = why_namespace_refused() if needing else None
    if reason is None:
        return scenarios
    sys.stderr.write(f"sojourn lab: left out: {', '.join(needing)}: {reason}\n")
    return [each for each in scenarios if each[0].name not in needing]


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


def _print_several(ended: list[tuple[Run, Path]], count: int, as_json: bool) -> None:
    if as_json:
        for run, folder in ended:
            record = {"run": str(folder), "scenario": run.scenario.name, "passed": run.passed, "void": run.void}
            print_json(record)
        return
    passed = sum(run.passed for run, _ in ended)
    took = sum(seconds_between(run.started, run.finished) for run, _ in ended)
    Console().print(f"{passed} of {count} passed, in {took:.0f} s")
