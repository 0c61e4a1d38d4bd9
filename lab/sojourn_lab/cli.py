"""`sojourn lab`: list the scenarios, run one, show a run."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, ParamSpec

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sojourn.words import printable

from sojourn_lab.articles import ARTICLES
from sojourn_lab.asked import Asked, as_asked
from sojourn_lab.document import Run, run_bytes, run_in
from sojourn_lab.errors import LabError
from sojourn_lab.interrupts import Interrupted, Interrupts
from sojourn_lab.listen import ListenSampler
from sojourn_lab.offer import LONGEST, load_of, offer_table, offered
from sojourn_lab.progress import watched
from sojourn_lab.run_folder import RunFolder
from sojourn_lab.runner import finished_run
from sojourn_lab.runtime import runtime_maker
from sojourn_lab.scenario import Scenario, ScenarioError, scenario_from_file, shipped_scenario_paths
from sojourn_lab.tables import one_line, print_run
from sojourn_lab.topology import Server

USAGE, FAILURE, CLOSED_PIPE = 2, 1, 141
RUNS = Path("runs")
CASE_NAME = r"[a-z0-9][a-z0-9._-]{0,59}"

app = typer.Typer(
    name="lab",
    help="Run scenarios with a known truth: real nginx, real app servers, a generator that knows its lag.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

P = ParamSpec("P")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def _fail(message: str, code: int) -> NoReturn:
    # The message may quote a scenario file or a log: line by line, its control characters are shown, not obeyed.
    sys.stderr.write("\n".join(printable(line, 1_000) for line in f"sojourn lab: {message}".splitlines()) + "\n")
    raise typer.Exit(code)


def _plainly(command: Callable[P, None]) -> Callable[P, None]:
    """Return the command with every error turned into one message and an exit code."""

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except ScenarioError as error:
            _fail(str(error), USAGE)
        except LabError as error:
            _fail(str(error), FAILURE)
        except BrokenPipeError:
            # Whoever read our output has seen enough; a second failure at exit would print a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(CLOSED_PIPE) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:  # a mistake of the lab's own, which is no reason for a traceback
            _fail(f"unexpected {type(error).__name__}: {error}", FAILURE)

    return guarded


@app.command("list")
@_plainly
def list_scenarios(as_json: AsJson = False) -> None:
    """List the scenarios that come with the lab, by the article they repeat."""
    scenarios = [scenario_from_file(path) for path in shipped_scenario_paths()]
    if as_json:
        listed = [
            {
                "name": each.name,
                "article": each.article or None,
                "title": each.title,
                "question": each.question,
                "cases": len(each.cases),
            }
            for each in scenarios
        ]
        typer.echo(msgspec.json.encode(listed).decode())
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
@_plainly
def run_scenario(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of scenarios, or scenario files.", metavar="NAME|FILE…")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Run every scenario that comes with the lab.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="The short form of each scenario.")] = False,
    scale: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=100.0,
            help="Multiply every duration of the file, service times and timeouts too. Default: the scenario's own.",
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(min=0.1, max=86_400.0, help="Measured seconds per case, as given: not scaled."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Measure as long as the scenario's source did.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the random numbers instead of the file's.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Another value for a key of the file: topology.workers=2, cases.lifo.load.rate=9; repeatable.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run's folder; it must not exist. Default: runs/<scenario>-<UTC time>."),
    ] = None,
    server: Annotated[Server | None, typer.Option(help="App server to use instead of the scenario's.")] = None,
    runtime: Annotated[
        Literal["process", "compose"], typer.Option(help="Where the parts run: as processes here, or in containers.")
    ] = "process",
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars.")] = False,
) -> None:
    """Run scenarios, each into a folder; exits 1 if a run is void or a criterion failed."""
    asked = Asked(
        quick=quick, scale=scale, duration=duration, full=full, seed=seed, settings=tuple(settings or ()), server=server
    )
    chosen = [path.stem for path in shipped_scenario_paths()] if every else list(names or ())
    if every and names:
        _fail("give names, or --all", USAGE)
    if not chosen:
        _fail("which scenario? `sojourn lab list` has their names; --all runs every one", USAGE)
    if out is not None and len(chosen) > 1:
        _fail("--out names one folder, and there are several scenarios", USAGE)
    # All are read before the first is run: a slip in the last would otherwise show after an hour.
    wanted = [as_asked(name, asked) for name in chosen]
    ended: list[tuple[Run, Path]] = []
    for scenario, used in wanted:
        folder = RunFolder.claimed(out) if out is not None else RunFolder.claimed_by_time(RUNS, scenario.name)
        run = _run_in_good_order(scenario, used, folder, quiet, runtime=runtime, changes=asked.changes())
        ended.append((run, folder.final))
        if len(wanted) == 1:
            _print(run, folder.final, as_json)
        elif not as_json:
            Console().print(one_line(run, str(folder.final)))
    if len(wanted) > 1:
        _print_several(ended, as_json)
    if not all(run.passed for run, _ in ended):
        raise typer.Exit(FAILURE)


@app.command("show")
@_plainly
def show_run(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its name below runs/.", metavar="RUN")],
    as_json: AsJson = False,
) -> None:
    """Show the results of a run again."""
    folder = run if run.exists() else RUNS / run
    if not folder.exists():
        _fail(f"there is no run {run} (nor {folder})", USAGE)
    _print(run_in(folder), folder, as_json)


@app.command("load")
@_plainly
def offer_load(
    url: Annotated[str, typer.Argument(help="Where the proxy of the lab's app answers.", metavar="URL")],
    *,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Closed loop: users who wait for each answer.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, max=100_000.0, help="Open loop: Poisson arrivals a second.")
    ] = None,
    service_time: Annotated[float, typer.Option(min=0.0, max=60.0, help="Seconds the app sleeps.")] = 0.1,
    duration: Annotated[float, typer.Option(min=0.1, max=LONGEST, help="Seconds of load; then it stops.")] = 30.0,
    timeout: Annotated[float, typer.Option(min=0.01, max=600.0, help="Seconds a client waits.")] = 60.0,
    name: Annotated[str, typer.Option(help="The service in the log: lower case, digits, '.', '_', '-'.")] = "load",
    client_log: Annotated[Path | None, typer.Option(help="Write one JSON line per request.")] = None,
    as_json: AsJson = False,
) -> None:
    """Offer load to the lab's app behind a proxy that runs already; exits 1 if the generator was the bottleneck."""
    if not re.fullmatch(CASE_NAME, name):
        _fail(f"--name {name}: lower case letters, digits, '.', '_' and '-' only", USAGE)
    if (concurrency is None) == (rate is None):
        _fail("give --concurrency (users who wait for their answer) or --rate (arrivals that do not)", USAGE)
    load = load_of(concurrency, rate)
    summary = offered(
        url, load, name=name, service_time=service_time, duration=duration, timeout=timeout, client_log=client_log
    )
    if as_json:
        typer.echo(msgspec.json.encode(summary).decode())
    else:
        Console().print(offer_table(summary))
    if not summary.answered:
        _fail(f"nothing was answered: {summary.errors}", FAILURE)
    if summary.void:
        _fail("these figures say more about the generator: " + "; ".join(summary.void), FAILURE)


@app.command("listen")
@_plainly
def sample_listen_queues(
    sockets: Annotated[list[str], typer.Argument(help="Sockets of this machine to watch.", metavar="NAME=PORT...")],
    *,
    out: Annotated[Path, typer.Option(help="JSON lines go here, after what is there.")],
    every: Annotated[float, typer.Option(min=0.05, max=3600.0, help="Seconds between samples.")] = 1.0,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0.05, help="Stop after so many seconds. Default: when told to.")
    ] = None,
    gone: Annotated[
        float | None,
        typer.Option(min=0.5, help="Fail when none of the sockets was there for so many seconds. Default: wait."),
    ] = None,
    max_bytes: Annotated[int, typer.Option(min=10_000, help="Begin a new file beyond; the old one becomes .1.")] = 1
    << 26,
) -> None:
    """Sample the accept queues of listening sockets: connections waiting, and how many the backlog allows."""
    ports = _ports(sockets)
    interrupts = Interrupts()
    stop = threading.Event()
    try:
        out.touch()
    except OSError as error:
        _fail(f"{out}: {error.strerror}", FAILURE)
    try:
        with interrupts.caught(), ListenSampler(out, ports, every, keep=True, max_bytes=max_bytes) as sampler:
            until = None if seconds is None else time.monotonic() + seconds
            while sampler.unavailable is None and (until is None or time.monotonic() < until):
                if gone is not None and time.monotonic() - sampler.last_seen > gone:
                    _fail(f"none of {', '.join(sockets)} was there for {gone:g} s", FAILURE)
                stop.wait(min(0.2, every))
    except Interrupted:
        return
    if sampler.unavailable is not None:
        _fail(sampler.unavailable, FAILURE)


def _ports(sockets: list[str]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for each in sockets:
        name, _, port = each.partition("=")
        if not re.fullmatch(CASE_NAME, name) or not port.isdecimal() or not 0 < int(port) < 65_536:
            _fail(f"{each}: not NAME=PORT", USAGE)
        ports[name] = int(port)
    return ports


def _run_in_good_order(
    scenario: Scenario,
    scale: float,
    folder: RunFolder,
    quiet: bool,
    *,
    runtime: Literal["process", "compose"] = "process",
    changes: dict[str, Any] | None = None,
) -> Run:
    """Return the finished run; an interrupt or an error ends it with a message and leaves the logs."""
    interrupts = Interrupts()
    try:
        with interrupts.caught(), watched(quiet) as watcher:
            maker = runtime_maker(runtime)
            return finished_run(scenario, scale, folder, interrupts, watcher, make_runtime=maker, changes=changes)
    except Interrupted as interrupt:
        _fail(f"stopped by {interrupt}; everything is down, logs are in {folder.partial}", interrupt.exit_code)
    except LabError as error:
        _fail(f"{error}\neverything is down, logs are in {folder.partial}", FAILURE)
    except Exception as error:  # a mistake of the lab's own: the details belong into the logs
        (folder.logs / "lab.err").write_text(traceback.format_exc())
        name = type(error).__name__
        _fail(
            f"unexpected {name}: {error}\neverything is down, details are in {folder.logs / 'lab.err'}",
            FAILURE,
        )


def _print_several(ended: list[tuple[Run, Path]], as_json: bool) -> None:
    if as_json:
        for run, folder in ended:
            record = {"run": str(folder), "scenario": run.scenario.name, "passed": run.passed, "void": run.void}
            typer.echo(msgspec.json.encode(record).decode())
        return
    passed = sum(run.passed for run, _ in ended)
    Console().print(f"{passed} of {len(ended)} passed")


def _print(run: Run, folder: Path, as_json: bool) -> None:
    if as_json:
        record: dict[str, Any] = msgspec.json.decode(run_bytes(run))
        typer.echo(msgspec.json.encode({"run": str(folder), **record}).decode())
    else:
        print_run(Console(), run, str(folder))
