"""Print what an installation changes, what it did, and the lines for the apps."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

import typer
from rich.console import Console
from rich.text import Text

from sojourn.doctor.display import show
from sojourn.doctor.nginx_headers import REQUEST_HEADERS
from sojourn.install.apps import AppBehind, is_checkout
from sojourn.install.carrying_out import Outcome
from sojourn.install.duplicates import CHOICES, YOURS
from sojourn.install.proposal import Proposal
from sojourn.install.trial import Trial
from sojourn.model.formatting import counted, printable

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_MOST_PLACES = 12


def _print(*lines: str | Text) -> None:
    console = Console(highlight=False)
    for line in lines:
        console.print(line if isinstance(line, Text) else Text(line), soft_wrap=True)


def _show_diff(diff: str) -> None:
    """Print a diff as it is, so that it can be applied; what would act on a terminal is shown instead."""
    for line in diff.split("\n")[:-1]:
        colour = None if line[:3] in ("+++", "---") else _COLOURS.get(line[:1])
        typer.secho("\t".join(printable(part, 10_000) for part in line.rstrip("\r").split("\t")), fg=colour)


def _section(title: str, lines: Iterable[str]) -> None:
    lines = list(lines)
    if lines:
        _print("", Text(title, style="bold"), *(f"  - {line}" for line in lines))


def show_proposal(proposal: Proposal, *, yes: bool) -> None:
    """Print the change of an installation."""
    plan = proposal.plan
    if not proposal.writing.changed:
        _print("Nothing to install: each place that passes requests to an app is stamped and logged.")
        _section("Left as it is", plan.left)
        return
    _show_diff(proposal.diff)
    if proposal.included:
        folder = os.path.dirname(proposal.included[0])
        _print("", f"{counted(len(proposal.included), 'file')} of Sojourn in {folder}.")
    for file, places in plan.shared.items():
        _section(
            f"{file} is included at {counted(len(places), 'place')}; the change applies to each", places[:_MOST_PLACES]
        )
        if len(places) > _MOST_PLACES:
            _print(f"  … and {len(places) - _MOST_PLACES} more")
    _section("Headers that your lines set already", _duplicate_lines(proposal))
    _section("Left as it is", plan.left)
    if not proposal.njs:
        _print(
            "",
            "This nginx has no njs module: of trusted peers, only stamps in nginx's form (t=1767225599.877) are used.",
        )
    _print("", *_next_step(proposal, "install", yes=yes))


def _duplicate_lines(proposal: Proposal) -> list[str]:
    lines = []
    options = {name.lower(): name for name in CHOICES}
    headers = {header.name.lower(): header.name for header in REQUEST_HEADERS}
    for title, several in proposal.plan.duplicates.items():
        for each in several:
            name = options.get(each.choice, each.header)
            remains, option = (
                ("your line remains", "--replace") if each.remains == YOURS else ("Sojourn's replaces it", "--keep")
            )
            lines.append(
                f"{title}: {headers[each.header]} ({printable(each.value)}): {remains} ({option} {name} changes this)"
            )
    return list(dict.fromkeys(lines))


def _next_step(proposal: Proposal, verb: str, *, yes: bool) -> list[str]:
    if yes:
        return []
    if proposal.program is None:
        return [
            "Nothing was changed. nginx is not installed here: run this on the machine of nginx to test the change."
        ]
    running = "reloads it" if proposal.master is not None else "tests it; no nginx runs with this configuration"
    return [
        "Nothing was changed.",
        f"sojourn {verb} nginx {proposal.conf} --yes keeps a backup, writes these files, and {running}.",
    ]


def show_installation(proposal: Proposal, outcome: Outcome) -> None:
    """Print what an installation did."""
    if not outcome.reloaded:
        _print("", "No nginx runs with this configuration: no request was sent. Start it, then run sojourn doctor.")
    _section("Requests", [*map(_trial_line, outcome.trials), *outcome.untried])
    lines = [each.line for each in outcome.trials if each.line is not None]
    if lines:
        of_app = [line for line in lines if line.get("upstream_addr")] or lines
        _print("", f"A line of {proposal.log}:", f"  {printable(json.dumps(of_app[-1]), 2_000)}")
    _print("", Text("sojourn doctor", style="bold"))
    show(outcome.diagnosis)
    silent = any(line.get("upstream_addr") and not line.get("service_time") for line in lines)
    if silent or not lines:
        _print("", f"Next: sojourn install app {proposal.conf} shows the lines that make the apps report their times.")


def _trial_line(trial: Trial) -> str:
    line, target = trial.line or {}, trial.target
    place = f"GET {printable(target.path)} ({printable(target.host)}): {line.get('status', 'no answer')}"
    if not line.get("upstream_addr"):
        return f"{place}, answered by nginx without the app"
    times = "the app does not report its times"
    if line.get("service_time"):
        delay, service = (printable(line.get(key, ""), 30) for key in ("queueing_delay", "service_time"))
        times = f"queueing delay {delay} s, service time {service} s"
    return f"{place}, {printable(line['upstream_addr'])}, stamped {printable(line.get('request_start'), 30)}, {times}"


ORDER = (
    "Remove Sojourn from the apps first, then from nginx: without nginx's lines, an app that always answers its times "
    "sends them to the clients (docs/how-to/remove.md)."
)


def show_removal(proposal: Proposal, *, yes: bool) -> None:
    """Print the change of an uninstallation."""
    if not proposal.writing.changed:
        _print(f"Nothing to remove: no line of {proposal.conf} was added by sojourn install.")
        _section("Left as it is", proposal.plan.left)
        return
    _print(ORDER, "")
    _show_diff(proposal.diff)
    if proposal.included:
        _print(
            "", f"Also removed: {counted(len(proposal.included), 'file')} in {os.path.dirname(proposal.included[0])}."
        )
    _section("Clients get the headers of a middleware that remains, because your line sends a stamp", proposal.leaking)
    _section("Edited since the installation; the backup has them", proposal.edited)
    _section("Left as it is", [*proposal.plan.left, *([f"{proposal.log} (the log)"] if proposal.log else [])])
    _print("", *_next_step(proposal, "uninstall", yes=yes))


def show_apps(apps: list[AppBehind]) -> None:
    """Print the lines for each app server."""
    if not apps:
        _print("No location of this configuration passes requests to an app.")
        return
    if not is_checkout():
        _print("The middleware is in the sources of Sojourn; its path below is that of a checkout.", "")
    for app in apps:
        name = app.server.name or "an unknown server"
        number = ", " + counted(app.processes, "process", "processes") if app.processes else ""
        folder = f" in {printable(app.folder, 300)}" if app.folder else ""
        _print(Text(f"{printable(app.address)}: {name}{number}{folder}", style="bold"))
        _print(*(f"  from {printable(place, 300)}" for place in app.places))
        if not app.command:
            _print("  The language is unknown: docs/how-to/your-own-app.md has the lines for each.", "")
            continue
        _print("  Install:", Text(f"      {app.command}", style="green"))
        for each in app.frameworks:
            _print(f"  {each.name}, {each.where} (docs/how-to/{each.page}.md):")
            _print(*(Text(f"      {line}", style="green") for line in each.lines))
        _print("  Restart the app, then: sojourn doctor.", "")
