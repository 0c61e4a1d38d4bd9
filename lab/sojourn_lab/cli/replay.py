"""`sojourn lab replay`: a log's arrivals and service times as a scenario, and that scenario run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from sojourn.command.options import Quiet, Since, Sources, Spans, Until, Where, WorkersOption, workers_of
from sojourn.command.progress import pairs
from sojourn.command.reading import requests_of
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.present.files import written_whole

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
from sojourn_lab.errors import LabError
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.topology import Server

if TYPE_CHECKING:
    from sojourn_lab.experiments.replay.workload import Replay

WHOLE = ("service", "upstream", "proxy")
"""Columns whose values share no workers: requests chosen by them leave nobody out who was waited for."""


@plainly
def replay(
    sources: Sources,
    *,
    scenario_out: Annotated[
        Path | None, typer.Option(help="Write the scenario here; it must not exist.", metavar="FILE")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Run it, now.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; it must not exist. Default: runs/replay-<UTC time>.")
    ] = None,
    speed: Annotated[
        float,
        typer.Option(
            metavar="X", min=0.01, max=100.0, help="How many times as fast requests come; service times stay."
        ),
    ] = 1.0,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only so many requests, the earliest.")] = None,
    server: Annotated[Server, typer.Option(help="The kind of app server.")] = "gunicorn",
    workers: WorkersOption = None,
    tolerance: Annotated[
        float, typer.Option(metavar="SHARE", min=0.01, max=10.0, help="How far a figure may be from the original's.")
    ] = 0.25,
    keep_routes: Annotated[bool, typer.Option("--keep-routes", help="Keep the names of routes.")] = False,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    spans: Spans = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a scenario of a log: its arrivals and service times, anonymised, on as many backends and workers."""
    if scenario_out is None and not run:
        fail("say what to do with it: --scenario-out FILE, --run, or both", USAGE)
    told = workers_of(workers)
    shared = [column for column in pairs(where or [], "--where") if column not in WHOLE]
    if shared:
        fail(
            "a replay needs every request that shares the workers; requests can be chosen by"
            f" {', '.join(WHOLE)}, not by {shared[0]}",
            USAGE,
        )
    from sojourn_lab.experiments.replay.scenario import replay_toml  # noqa: PLC0415
    from sojourn_lab.experiments.replay.workload import COLUMNS, replay_of  # noqa: PLC0415 - Polars takes its time to load

    try:
        found = requests_of(sources, spans=spans, since=since, until=until, where=where, columns=COLUMNS, quiet=quiet)
    except SojournError as error:
        raise LabError(str(error)) from None
    made = replay_of(found.rows, workers=told, limit=limit, speed=speed, keep_routes=keep_routes)
    text = replay_toml(made, server=server, tolerance=tolerance)
    scenario = scenario_from_text(text, "the replay")
    if scenario_out is not None:
        _write_new(scenario_out, text)
    if not run:
        _print(made, scenario_out, as_json)
        return
    if not as_json:
        _print(made, scenario_out, as_json)
    folder = RunFolder.claimed(out) if out is not None else RunFolder.claimed_by_time(RUNS, scenario.name)
    record = run_in_good_order(scenario, 1.0, folder, quiet)
    print_record(record, folder.final, as_json)
    if not record.passed:
        raise typer.Exit(FAILURE)


def _write_new(path: Path, text: str) -> None:
    if os.path.lexists(path):
        raise LabError(f"{path} already exists")
    try:
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except SojournError as error:
        raise LabError(str(error)) from None


def _print(made: Replay, file: Path | None, as_json: bool) -> None:
    about = {
        "requests": len(made.at),
        "seconds": made.at[-1],
        "rate": made.rate,
        "routes": len(set(made.routes)),
        "tiers": [{"backends": each.backends, "workers": each.workers, "source": each.source} for each in made.tiers],
        "balancer": made.balancer,
        "proxy_read_timeout": made.patience,
        "original": vars(made.original),
        "read": made.read,
        "drawn": made.drawn,
        "left_early": made.left_early,
        "left_out": {"not_proxied": made.not_proxied, "refused": made.refused, "repeated": made.repeated},
        "file": None if file is None else str(file),
    }
    if as_json:
        print_json(about)
        return
    console = Console()
    tiers = ", ".join(f"{each.backends} × {each.workers} workers ({each.source})" for each in made.tiers)
    console.print(
        f"{counted(len(made.at), 'request')} in {made.at[-1]:,.1f} s ({made.rate:,.4g}/s), "
        f"{counted(len(set(made.routes)), 'route')};"
        f" {tiers}; {made.balancer}; nginx waits {made.patience:g} s"
    )
    console.print(
        f"of {made.read:,} read: {made.not_proxied} went to no backend, {made.refused} were taken by no worker,"
        f" {made.repeated} were there twice: left out; {made.drawn} had no service time and got one of their route's;"
        f" {made.left_early} were left by their client"
    )
    if file is not None:
        console.print(f"scenario: {file}", markup=False, soft_wrap=True)
