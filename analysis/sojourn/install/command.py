"""``sojourn install`` and ``sojourn uninstall``: change a configuration of nginx, show the lines for an app."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

if TYPE_CHECKING:
    from sojourn.install.duplicates import Duplicate
    from sojourn.install.proposal import Proposal

DEFAULT_CONF = "/etc/nginx/nginx.conf"

app = typer.Typer(
    help="Add stamps and a log to nginx, and show the lines for the apps behind it.", no_args_is_help=True
)
removing = typer.Typer(help="Remove what `sojourn install` added.", no_args_is_help=True)


class RecordName(StrEnum):
    """The records that nginx can write."""

    FULL = "full"
    LEAN = "lean"


Conf = Annotated[Path, typer.Argument(metavar="NGINX_CONF", help="The first file of the configuration.")]
Yes = Annotated[bool, typer.Option("--yes", help="Change the files, test and reload nginx. Default: only show.")]
Backups = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep backups here. Default: /var/backups/sojourn, or the user's state folder."),
]


@app.command("nginx")
def install_nginx(
    conf: Conf = Path(DEFAULT_CONF),
    yes: Yes = False,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Log to this file. Default: sojourn.jsonl beside nginx's own log."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="HEADER", help="Keep your line for X-Request-Start, X-Request-ID or traceparent."),
    ] = None,
    use_ours: Annotated[
        list[str] | None, typer.Option("--replace", metavar="HEADER", help="Replace your line for such a header.")
    ] = None,
    record: Annotated[
        RecordName | None,
        typer.Option(
            help="What nginx stamps and logs: full, or lean, which costs less. Default: as the configuration has it, "
            "otherwise full."
        ),
    ] = None,
    no_requests: Annotated[
        bool, typer.Option("--no-requests", help="Send no request through the changed locations.")
    ] = False,
    backup: Backups = None,
) -> None:
    """Add the stamp, the log and the headers to a configuration of nginx.

    Without --yes, prints the change as a unified diff and changes nothing. With --yes, keeps a backup, writes the
    files, tests and reloads nginx, sends a request through each changed location, and puts everything back if any of
    this fails.
    """
    from sojourn.install.carrying_out import carried_out  # noqa: PLC0415
    from sojourn.install.display import show_installation, show_proposal  # noqa: PLC0415 - rich takes its time to load
    from sojourn.install.proposal import installation  # noqa: PLC0415

    path, log_file = _first_file(conf), None if log is None else str(log.absolute())

    def proposed(choices: dict[str, str], record: RecordName | None) -> Proposal:
        return installation(path, choices, log_file, record)

    choices = _choices(keep or [], use_ours or [])
    proposal = proposed(choices, record)
    if yes and _is_terminal():
        if record is None and not proposal.is_decided and (record := _answer_of_record()) is not RecordName.FULL:
            proposal = proposed(choices, record)
        answers = _answers(proposal.plan.duplicates, choices)
        if answers != choices:
            proposal = proposed(answers, record)
    show_proposal(proposal, yes=yes)
    if yes and proposal.writing.changed:
        outcome = carried_out(proposal, try_requests=not no_requests, backups=backup, on_step=typer.echo)
        show_installation(proposal, outcome)


@app.command("app")
def install_app(conf: Conf = Path(DEFAULT_CONF)) -> None:
    """Print the commands and the line of each framework for the app servers behind a configuration."""
    from sojourn.install.apps import apps_behind  # noqa: PLC0415
    from sojourn.install.display import show_apps  # noqa: PLC0415

    show_apps(apps_behind(_first_file(conf)))


@removing.command("nginx")
def uninstall_nginx(conf: Conf = Path(DEFAULT_CONF), yes: Yes = False, backup: Backups = None) -> None:
    """Remove what `sojourn install nginx` added to a configuration.

    Without --yes, prints the change as a unified diff and changes nothing.
    """
    from sojourn.install.carrying_out import carried_out  # noqa: PLC0415
    from sojourn.install.display import show_removal  # noqa: PLC0415
    from sojourn.install.proposal import removal  # noqa: PLC0415

    proposal = removal(_first_file(conf))
    show_removal(proposal, yes=yes)
    if yes and proposal.writing.changed:
        carried_out(proposal, backups=backup, on_step=typer.echo)


def _first_file(conf: Path) -> Path:
    path = conf / "nginx.conf" if conf.is_dir() else conf
    if not path.is_file():
        raise SojournError(f"{path}: no such file: name the nginx.conf to change")
    return path


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _answer_of_record() -> RecordName:
    typer.echo("The full record has all fields. The lean one has what the analyses need: no URIs, addresses and ids.")
    lean = typer.confirm("Log the lean record, which costs nginx less?", default=False)
    return RecordName.LEAN if lean else RecordName.FULL


def _choices(keep: list[str], replace: list[str]) -> dict[str, str]:
    from sojourn.install.duplicates import CHOICES, OURS, YOURS  # noqa: PLC0415

    choices: dict[str, str] = {}
    for option, names, remains in (("--keep", keep, YOURS), ("--replace", replace, OURS)):
        for name in names:
            if name.lower() not in {each.lower() for each in CHOICES}:
                raise typer.BadParameter(
                    f"no such header: {printable(name)!r}; it is one of {', '.join(CHOICES)}", param_hint=option
                )
            if choices.setdefault(name.lower(), remains) != remains:
                raise typer.BadParameter(f"{name} is in --keep, too", param_hint=option)
    return choices


def _answers(duplicates: dict[str, list[Duplicate]], choices: dict[str, str]) -> dict[str, str]:
    """Return the choices, with an answer of the user for each header that has none."""
    from sojourn.install.duplicates import CHOICES, OURS, YOURS  # noqa: PLC0415

    answers = dict(choices)
    for header in CHOICES:
        present = [
            (title, each) for title, several in duplicates.items() for each in several if each.choice == header.lower()
        ]
        if not present or header.lower() in choices:
            continue
        title, first = present[0]
        default = first.remains == YOURS
        question = f"{title} sends {header} already ({printable(first.value)}). Keep your line?"
        answers[header.lower()] = YOURS if typer.confirm(question, default=default) else OURS
    return answers
