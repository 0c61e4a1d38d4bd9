"""`sojourn lab run`: run scenarios, on servers that the lab starts or against URLs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

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
from sojourn_lab.results.metric_paths import metric_problems
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.results.run_schema import Run, seconds_between
from sojourn_lab.results.tables import one_line
from sojourn_lab.runtime.compose import why_not_in_containers
from sojourn_lab.runtime.external import external_runtime, external_scenario
from sojourn_lab.runtime.namespace import why_namespace_refused
from sojourn_lab.runtime.runtime import RUNTIMES, RuntimeMaker
from sojourn_lab.runtime.servers.table import why_unavailable
from sojourn_lab.runtime.target import Targets, targets_from_options
from sojourn_lab.scenario.files import shipped_scenario_paths
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options
from sojourn_lab.scenario.schema import Scenario, needs_namespace
from sojourn_lab.scenario.topology import Server


def scenario_names(incomplete: str) -> list[str]:
    """Return the shipped scenarios whose names start with `incomplete`, for shell completion."""
    return [path.stem for path in shipped_scenario_paths() if path.stem.startswith(incomplete)]


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
    cases: Annotated[
        list[str] | None,
        typer.Option("--case", metavar="PATTERN", help="Run only the cases whose names match; repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; it must not exist. Default: runs/<scenario>-<UTC time>."),
    ] = None,
    server: Annotated[Server | None, typer.Option(help="App server. Default: the scenario's.")] = None,
    runtime: Annotated[
        Literal["process", "compose"], typer.Option(help="Run the parts as local processes, or in containers.")
    ] = "process",
    urls: Annotated[
        list[str] | None,
        typer.Option(
            "--url",
            help="Start no servers: offer the load to this URL and measure at the client; repeatable.",
            metavar="[WEIGHT=]URL",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="With --url: also split this run's lines of the access log of the nginx in front of it."),
    ] = None,
    cacert: Annotated[
        Path | None,
        typer.Option(help="With --url: trust the certificates in this PEM file in place of the system's."),
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
        server=server, capture=capture, cases=tuple(cases or ()),
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
    scaled = _runnable(scenarios) if every and runtime == "process" and not urls else scenarios
    changes = options.changes()
    maker: RuntimeMaker = RUNTIMES[runtime]
    target = targets_from_options(
        urls or (), lab_app=lab_app, cacert=cacert, log=log,
        starts=server is not None or runtime != "process" or capture,
        limits={"rate": max_rate, "concurrency": max_concurrency, "duration": max_duration},
    )  # fmt: skip
    if target is not None:
        maker = external_runtime(target)
        changes |= _changes_of(target)
        # All before the first is run, as above: a scenario that is not allowed is refused before any request.
        scaled = [(external_scenario(scenario, target), used) for scenario, used in scaled]
    else:
        _check_servers([scenario for scenario, _ in scaled], in_containers=runtime == "compose")
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


def _changes_of(target: Targets) -> dict[str, Any]:
    """Return what `--url` and its options set, for the record of a run."""
    url = target.names if len(target.names) > 1 else target.names[0]
    log = {} if target.log is None else {"log": str(target.log)}
    return {"url": url, "limits": vars(target.limits), **log}


def _check_servers(scenarios: Sequence[Scenario], *, in_containers: bool) -> None:
    """End the command if a scenario cannot run in containers, or the user's own app cannot be started."""
    if in_containers:
        reasons = [reason for scenario in scenarios if (reason := why_not_in_containers(scenario)) is not None][:1]
    else:
        topologies = {
            (scenario.name, topology.cwd, topology.command): topology
            for scenario in scenarios
            for case in scenario.cases
            if (topology := scenario.topology_of(case)).command is not None
        }
        unavailable = [(key[0], why_unavailable(topology)) for key, topology in topologies.items()]
        reasons = [f"{name}: {reason}" for name, reason in unavailable if reason is not None]
    if reasons:
        fail("\n".join(reasons), FAILURE)


def _runnable(scenarios: list[tuple[Scenario, float]]) -> list[tuple[Scenario, float]]:
    """Return the scenarios without those that need a namespace where none can be made; stderr names them."""
    needing = [scenario.name for scenario, _ in scenarios if needs_namespace(scenario)]
    reason = why_namespace_refused() if needing else None
    if reason is None:
        return scenarios
    sys.stderr.write(f"sojourn lab: left out: {', '.join(needing)}: {reason}\n")
    return [each for each in scenarios if each[0].name not in needing]


def _print_several(ended: list[tuple[Run, Path]], count: int, as_json: bool) -> None:
    if as_json:
        for run, folder in ended:
            record = {"run": str(folder), "scenario": run.scenario.name, "passed": run.passed, "void": run.void}
            print_json(record)
        return
    passed = sum(run.passed for run, _ in ended)
    took = sum(seconds_between(run.started, run.finished) for run, _ in ended)
    Console().print(f"{passed} of {count} passed, in {took:.0f} s")
