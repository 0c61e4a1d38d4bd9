"""`sojourn lab new`: a commented scenario of the user's own app."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer
from sojourn.model.errors import SojournError
from sojourn.present.files import written_whole

from sojourn_lab.cli.common import USAGE, fail, plainly
from sojourn_lab.errors import LabError
from sojourn_lab.scenario.template import template_text

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")


@plainly
def new_scenario(
    name: Annotated[str, typer.Argument(help="Name of the scenario; the file is NAME.toml.", metavar="NAME")],
) -> None:
    """Write NAME.toml, a commented scenario that starts your own app; it does not overwrite a file."""
    name = name.removesuffix(".toml")
    if NAME.fullmatch(name) is None:
        fail(f'"{name}" is no name of a scenario: use up to 60 of a-z, 0-9, ".", "_" and "-", a letter first', USAGE)
    write_new(Path(f"{name}.toml"), template_text(name))
    typer.echo(f"{name}.toml: set `command` and `paths` of your app, then: sojourn lab run {name}.toml --quick")


def write_new(path: Path, text: str) -> None:
    """Write a new file whole; LabError if it exists or cannot be written."""
    if os.path.lexists(path):
        raise LabError(f"{path} already exists: choose another name")
    try:
        with written_whole(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except SojournError as error:
        raise LabError(str(error)) from None
