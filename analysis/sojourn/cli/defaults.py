"""Defaults for options, from configuration files in TOML: one table per verb, and one for all.

    [defaults]              # every verb that has such an option
    workers = ["4"]

    [split]
    slo = 0.5
    by = ["route", "status"]

The user's file is read first, then the one of the folder the command is run in, which wins; a file named by
``--config`` or ``SOJOURN_CONFIG`` is the only one. An option on the command line wins over all of them. What a file
says is checked before anything is done: a slip is one sentence that names the file and the key.
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from sojourn.cli.verbs import Plugin
from sojourn.model.errors import SojournError

VARIABLE = "SOJOURN_CONFIG"
HERE = "sojourn.toml"
FOR_ALL = "defaults"
# A file that lies in a folder one happens to stand in must not write, replace or send anything.
NEVER = {
    "ask-backends", "force", "help", "html", "keep", "kernel", "lab-app", "max-concurrency", "max-duration", "max-rate",
    "out", "parquet", "rejects", "roles", "store", "url", "write",
}  # fmt: skip

# Options that are named as those of other verbs and mean something else: nothing said of all verbs reaches them.
APART = {("capacity", "slo"), ("mcp", "timeout"), ("simulate", "workers"), ("split", "by")}


class ConfigError(SojournError):
    """An invalid configuration file. The command line exits with 2, as for a wrong option."""


@dataclass(frozen=True)
class Setting:
    """One value of a file: its verb (``lab run``), its option (without dashes), and its position."""

    verb: str
    option: str
    value: Any
    file: Path


@dataclass
class Defaults:
    """What files say.

    Attributes:
        files: the files read, in this order.
        settings: the settings in force, one per command and option.
        map: the same by command and parameter, nested like the commands, as a context takes it.
    """

    files: list[Path] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    map: dict[str, Any] = field(default_factory=dict)


def config_files(only: Path | None = None) -> list[Path]:
    """Return the files to read, later ones take precedence: the user's and the folder's, or ``only`` this one.

    Raises:
        ConfigError: the file ``only`` does not exist.
    """
    if only is None and VARIABLE in os.environ:
        if not os.environ[VARIABLE]:
            return []
        only = Path(os.environ[VARIABLE])
    if only is not None:
        if not only.exists() or only.is_dir():
            raise ConfigError(f"{only}: no such configuration file")
        return [only]
    return [file for file in (_of_the_user(), Path(HERE)) if file is not None and file.is_file()]


def _of_the_user() -> Path | None:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):  # the XDG base directory specification ignores relative paths
        return Path(base, "sojourn", "config.toml")
    home = os.environ.get("HOME", "")
    return Path(home, ".config", "sojourn", "config.toml") if home else None


def defaults_of(files: list[Path], root: Any, context: Any) -> Defaults:
    """Read the files and check every value against the option it is for.

    Raises:
        ConfigError: a file cannot be read, or has an unknown command or option, or an invalid value.
    """
    defaults = Defaults(files)
    values: dict[tuple[str, str], Setting] = {}
    tables = [(file, _tables(file)) for file in files]
    # Settings of a command take precedence over those for all, in whichever file they are.
    settings = [_for_all(file, each.get(FOR_ALL, {}), root, context) for file, each in tables]
    settings += [_for_verbs(file, each, root, context) for file, each in tables]
    for setting, parameter in itertools.chain(*settings):
        values[setting.verb, setting.option] = setting
        _put(defaults.map, setting.verb.split(), parameter, setting.value)
    defaults.settings = sorted(values.values(), key=lambda setting: (setting.verb, setting.option))
    return defaults


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:  # also numbers that are too long, and tables that are too deep
        raise ConfigError(f"{file}: not valid TOML: {error}") from None


def _tables(file: Path) -> dict[str, Any]:
    tables = _read(file)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(
                f"{file}: {name!r} is not in a table; put it under [{FOR_ALL}] or under a command such as [split]"
            )
    return tables


def _for_verbs(file: Path, tables: dict[str, Any], root: Any, context: Any) -> Iterator[tuple[Setting, str]]:
    for name, table in tables.items():
        if name == FOR_ALL:
            continue
        command = root.get_command(context, name)
        if command is None:
            names = ", ".join([FOR_ALL, *root.list_commands(context)])
            raise ConfigError(f"{file}: [{name}] is not a command; choose from {names}")
        # Loading a plugin takes long and can fail; only the invoked one is checked.
        if not isinstance(command, Plugin) or name == context.invoked_subcommand:
            yield from _of_verb(file, name, table, command, context)


def _of_verb(
    file: Path, verb: str, table: Mapping[str, Any], command: Any, context: Any
) -> Iterator[tuple[Setting, str]]:
    group = hasattr(command, "list_commands")
    for key, value in table.items():
        if group:
            inner = command.get_command(context, key) if isinstance(value, dict) else None
            if inner is None:
                raise ConfigError(
                    f"{file}: [{verb}] {key!r} is not a command of {verb}; put options into a table [{verb}.COMMAND]"
                )
            yield from _of_verb(file, f"{verb} {key}", value, inner, context)
            continue
        options = _options(command)
        option = _option(file, verb, key)
        if option not in options:
            raise ConfigError(
                f"{file}: [{verb}] {key!r} is not an option; choose from {', '.join(sorted(set(options) - NEVER))}"
            )
        checked = _value(options[option], value, context, f"{file}: [{verb}] {key}")
        yield Setting(verb, option, checked, file), options[option].name


def _for_all(file: Path, table: Mapping[str, Any], root: Any, context: Any) -> Iterator[tuple[Setting, str]]:
    for key, value in table.items():
        option = _option(file, FOR_ALL, key)
        refused: ConfigError | None = None
        fits = 0
        for verb, command in root.commands.items():
            if hasattr(command, "list_commands") or option not in _options(command) or (verb, option) in APART:
                continue
            parameter = _options(command)[option]
            try:
                checked = _value(parameter, value, context, f"{file}: [{FOR_ALL}] {key}")
            except ConfigError as error:  # another command may have an option of this name with another type
                refused = error
                continue
            fits += 1
            yield Setting(verb, option, checked, file), parameter.name
        if not fits:
            raise refused or ConfigError(f"{file}: [{FOR_ALL}] {key}: not an option of any command")


def _option(file: Path, table: str, key: str) -> str:
    """Return the option that a key of a table names."""
    option = key.replace("_", "-")
    if option in NEVER:
        raise ConfigError(
            f"{file}: [{table}] {key}: this option writes or sends data and is accepted on the command line only"
        )
    return option


def _options(command: Any) -> dict[str, Any]:
    """Return option without dashes -> parameter."""
    options = [each for each in command.params if each.param_type_name == "option"]
    return {name[2:]: each for each in options for name in each.opts if name.startswith("--")}


def _value(parameter: Any, value: Any, context: Any, where: str) -> Any:
    """Return the value in the form that the option takes.

    Raises:
        ConfigError: the value is not valid for the option.
    """
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: {_literal(value)} is not true or false")
        return value
    if isinstance(value, dict) or (isinstance(value, list) and not parameter.multiple):
        raise ConfigError(f"{where}: give one value, not {'a table' if isinstance(value, dict) else 'a list'}")
    several = value if isinstance(value, list) else [value]
    texts = [_text(each, where) for each in several]
    values: Any = texts if parameter.multiple else texts[0]
    try:
        parameter.process_value(context, values)
    except Exception as error:
        # The option's own check raises a class of typer's parser.
        reason = getattr(error, "message", None) or str(error)
        raise ConfigError(f"{where}: {_literal(value)}: {reason}") from None
    return values


def _text(value: Any, where: str) -> str:
    """Return a value as it would be written on the command line."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"{where}: {_literal(value)} is not a text or a number")
    return str(value)


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _put(tree: dict[str, Any], path: list[str], parameter: str, value: Any) -> None:
    for name in path:
        tree = tree.setdefault(name, {})
    tree[parameter] = value
