"""The group of verbs: its own at once, those of other distributions only when one of them is used."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from sojourn.model.extras import needed_for
from sojourn.model.formatting import printable

GIVEN = "sojourn.cli.given"
PLUGINS = "sojourn.commands"  # entry points of verbs that other packages bring; each is a typer.Typer


class Plugin(TyperGroup):
    """Verbs of another package, loaded on use: the lab alone takes longer to load than all other verbs.

    What the list of verbs says of it is the first line of its package's docstring.
    """

    def __init__(self, name: str, module: str, attribute: str) -> None:
        self._module, self._attribute = module, attribute
        summary = (import_module(module.partition(".")[0]).__doc__ or "").strip().partition("\n")[0]
        super().__init__(name=name, help=summary)

    @cached_property
    def loaded(self) -> Any:
        """The loaded group.

        Raises:
            SojournError: what it needs is not installed.
        """
        with needed_for(f"sojourn {self.name}", self.name):
            command = getattr(import_module(self._module), self._attribute)
        outer = typer.Typer(rich_markup_mode=None)  # its help is set as that of the other verbs is
        outer.add_typer(command, name=self.name)
        outer.callback()(lambda: None)
        return typer.main.get_group(outer).commands[self.name or ""]

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


class Verbs(TyperGroup):
    """All verbs; plugins are looked up only for names that are not its own."""

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
                shown = (printable(line, 1_000) for line in message.split("\n"))
                error.message = "\n".join(shown)  # type: ignore[attr-defined]
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the verb of that name, or None."""
        if cmd_name not in self.commands:
            self._with_plugins()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        self._with_plugins()
        return super().list_commands(ctx)

    def _with_plugins(self) -> None:
        for name, module, attribute in _plugins():
            if name not in self.commands:
                self.commands[name] = Plugin(name, module, attribute)


def _plugins() -> Iterator[tuple[str, str, str]]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes its time to load

    for plugin in entry_points(group=PLUGINS):
        yield plugin.name, plugin.module, plugin.attr
