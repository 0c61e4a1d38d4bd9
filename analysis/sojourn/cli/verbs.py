"""The group of verbs: each is built when it is used, those of other distributions are loaded then, too."""

from __future__ import annotations

import contextlib
import functools
import glob
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from inspect import getdoc
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from sojourn.model.errors import SojournError
from sojourn.model.extras import missing_package, needed_for
from sojourn.model.formatting import printable

GIVEN = "sojourn.cli.given"
PLUGINS = "sojourn.commands"  # entry points of verbs that other packages bring; each is a typer.Typer
OWN_DISTRIBUTIONS = {"lab": "sojourn-lab"}  # verb -> distribution that brings it, if it is not this one


class Plugin(TyperGroup):
    """Verbs of another package, loaded on use: the lab alone takes longer to load than all other verbs.

    What the list of verbs says of it is the first line of its package's docstring.
    """

    def __init__(self, name: str, module: str, attribute: str) -> None:
        self._module, self._attribute = module, attribute
        summary = (import_module(module.partition(".")[0]).__doc__ or "").strip().partition("\n")[0]
        super().__init__(name=name, help=summary)

    @functools.cached_property
    def loaded(self) -> Any:
        """The loaded group.

        Raises:
            SojournError: what it needs is not installed.
        """
        with needed_for(f"sojourn {self.name}", self.name):
            command = getattr(import_module(self._module), self._attribute)
        return command_of(self.name or "", command)

    @property
    def commands(self) -> Any:
        """Its verbs by name."""
        return self.loaded.commands

    @commands.setter
    def commands(self, _: Any) -> None:
        """Nothing: a group without verbs is made first, and those are the loaded one's."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Return the context of the real group."""
        return self.loaded.make_context(info_name, args, parent=parent, **extra)


class LateCommands(MutableMapping[str, Any]):
    """Commands by name, each built when it is looked up: a run needs one of them, and the list their summaries.

    Args:
        places: name -> module and name of the function (or of the ``typer.Typer`` of a group), in the order of the
            help.
    """

    def __init__(self, places: Mapping[str, tuple[str, str]]) -> None:
        self._places = dict(places)
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = command_of(name, self._defined(name))
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        self._built.pop(name, None)
        self._places.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._places, *self._built)))

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self._built

    def __len__(self) -> int:
        return len({*self._places, *self._built})

    def summary(self, name: str) -> Any:
        """Return a command without options that has the help of the named one."""
        if name in self._built:
            return self._built[name]
        defined = self._defined(name)
        return TyperCommand(name, help=defined.info.help if isinstance(defined, typer.Typer) else getdoc(defined))

    def _defined(self, name: str) -> Any:
        module, attribute = self._places[name]
        return getattr(import_module(module), attribute)


def command_of(name: str, defined: Any) -> Any:
    """Return the command of a function, or the group of a ``typer.Typer``; its help is set as that of all others is."""
    outer = typer.Typer(rich_markup_mode=None)
    if isinstance(defined, typer.Typer):
        outer.add_typer(defined, name=name)
    else:
        outer.command(name)(defined)
    outer.callback()(lambda: None)
    return typer.main.get_group(outer).commands[name]


class Verbs(TyperGroup):
    """All verbs; plugins are looked up only for names that are not its own."""

    places: ClassVar[Mapping[str, tuple[str, str]]] = {}
    commands: LateCommands
    _listing = False

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LateCommands(self.places)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of verbs, of which only the summaries are needed."""
        self._listing = True
        try:
            super().format_commands(ctx, formatter)
        finally:
            self._listing = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and keep them in the context's ``meta`` under ``GIVEN``."""
        ctx.meta[GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; errors about an option set in a configuration file name the file."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            option = str(getattr(error, "param_hint", "")).strip("'")
            for setting in getattr(ctx.obj, "settings", ()):
                applies = setting.verb.split()[0] == ctx.invoked_subcommand and f"--{setting.option}" == option
                if (
                    applies
                    and option not in ctx.meta.get(GIVEN, ())
                    and isinstance(getattr(error, "message", None), str)
                ):
                    error.message = f"{error.message} (set in {setting.file})"  # type: ignore[attr-defined]
                    break
            if isinstance(message := getattr(error, "message", None), str):
                # typer prints it as it is, and a value it quotes may have come from a file.
                lines = (printable(line, 1_000) for line in message.split("\n"))
                error.message = "\n".join(lines)  # type: ignore[attr-defined]
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the verb of that name, or None."""
        if cmd_name not in self.commands:
            self._with_plugins()
        if self._listing:
            return self.commands.summary(cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and remaining arguments of the verb that the first argument names.

        Raises:
            SojournError: the distribution that brings the verb is not installed.
        """
        distribution = OWN_DISTRIBUTIONS.get(args[0])
        if distribution is not None and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise SojournError(missing_package(distribution, f"sojourn {args[0]}", args[0]))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        """Return the names in the order of the help."""
        self._with_plugins()
        return list(self.commands)

    def _with_plugins(self) -> None:
        for name, module, attribute in _plugins():
            if name not in self.commands:
                self.commands[name] = Plugin(name, module, attribute)


@functools.cache
def _plugins() -> tuple[tuple[str, str, str], ...]:
    """Return name, module and attribute of the verbs that other packages bring.

    The few files that have any are looked for without ``importlib.metadata``, whose own start and parsing of every
    package take longer than the help.
    """
    plugins: dict[str, tuple[str, str, str]] = {}
    for folder in dict.fromkeys(sys.path):
        for file in glob.iglob(f"{glob.escape(folder or '.')}/*-info/entry_points.txt"):
            with contextlib.suppress(OSError, UnicodeDecodeError), open(file, encoding="utf-8") as opened:
                for name, value in _entries(opened.read(), PLUGINS):
                    module, _, attribute = value.partition(":")
                    plugins.setdefault(name, (name, module, attribute))
    return tuple(plugins.values())


def _entries(text: str, section: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of the entries of a section of an ``entry_points.txt``."""
    _, heading, rest = f"\n{text}".partition(f"\n[{section}]\n")
    for line in rest.partition("\n[")[0].split("\n") if heading else ():
        name, equals, value = line.partition("=")
        if equals and not name.startswith(("#", ";")):
            yield name.strip(), value.strip()
