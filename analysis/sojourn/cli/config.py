"""``sojourn config``: the defaults in force, and the file that sets each.

Measures nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any

import typer

from sojourn.cli.defaults import Defaults
from sojourn.invocation.options import AsJson
from sojourn.model.dsn import hidden
from sojourn.model.formatting import printable

# Of user:password@host the password, and of a DSN's query what is called one.
_SECRET = re.compile(r"((?:password|token|secret)=)[^&\s]*", re.I)


def config(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the defaults that configuration files set.

    The user's file is $XDG_CONFIG_HOME/sojourn/config.toml (~/.config), the project's ./sojourn.toml, which wins.
    """
    root = context.find_root().obj
    defaults = root if isinstance(root, Defaults) else Defaults()
    if as_json:
        settings = [
            {"command": each.verb, "option": each.option, "value": without_secrets(each.value), "file": str(each.file)}
            for each in defaults.settings
        ]
        typer.echo(json.dumps({"files": [str(file) for file in defaults.files], "defaults": settings}, indent=2))
        return
    if not defaults.files:
        typer.echo("no configuration file: every option has the default in its command's help")
        return
    for file in defaults.files:
        typer.echo(f"read {printable(file, 1_000)}")
    for each in defaults.settings:
        value = json.dumps(without_secrets(each.value), ensure_ascii=False)
        typer.echo(f"sojourn {each.verb} --{each.option} {printable(value, 500)}   ({printable(each.file, 500)})")


def without_secrets(value: Any) -> Any:
    """Return a value with the passwords in it left out."""
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if not isinstance(value, str):
        return value
    return _SECRET.sub(r"\1…", hidden(value) if "://" in value else value)
