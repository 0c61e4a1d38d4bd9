"""Every command of ``sojourn`` with its arguments and options, read from typer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import typer

PROGRAM = "sojourn"


@dataclass(frozen=True)
class Parameter:
    """An argument or an option.

    Attributes:
        names: all its names, such as ``--json``; of an argument its metavar.
        signature: names and value, as help shows them: ``--since T``.
        help: the help text, with default and bounds.
        text: the help text in the code, without default and bounds; empty if there is none.
        option: whether it is an option.
        required: whether it must be given.
        flag: whether it is an option without a value.
    """

    names: tuple[str, ...]
    signature: str
    help: str
    text: str
    option: bool
    required: bool
    flag: bool


@dataclass(frozen=True)
class Command:
    """A command: its words after ``sojourn`` (none: the program itself), its help by paragraph, its parameters."""

    words: tuple[str, ...]
    paragraphs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    usage: str
    group: bool = False
    children: tuple[Command, ...] = field(default=())

    @property
    def name(self) -> str:
        """The command as it is typed."""
        return " ".join((PROGRAM, *self.words))

    @property
    def summary(self) -> str:
        """The first sentence of its help."""
        return self.paragraphs[0] if self.paragraphs else ""

    @property
    def options(self) -> tuple[Parameter, ...]:
        """Its options, ``--help`` last."""
        return tuple(each for each in self.parameters if each.option)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """Its positional arguments."""
        return tuple(each for each in self.parameters if not each.option)

    def every(self) -> Iterator[Command]:
        """Yield the command and all its subcommands, in the order of help."""
        yield self
        for child in self.children:
            yield from child.every()


def program(*, lab: bool = True) -> Command:
    """Return the whole command line.

    The result is independent of the terminal: help is read before typer lays it out.

    Args:
        lab: whether the lab's verbs are included; without them, the distribution of the lab is not imported.
    """
    return _command(command_line(lab=lab), (), without=() if lab else ("lab",))


def command_line(*, lab: bool = True) -> Any:
    """Return typer's command of the whole program, by default with the lab's verbs."""
    from sojourn.cli import app  # noqa: PLC0415 - so that this module can be read without the package

    root: Any = typer.main.get_command(app)
    if lab and "lab" not in _children(root):
        from sojourn_lab.cli import app as lab_app  # noqa: PLC0415

        root.add_command(typer.main.get_command(lab_app), "lab")
    return root


def _children(command: Any) -> list[str]:
    # A group may list its verbs without having loaded them.
    if not hasattr(command, "list_commands"):
        return []
    return list(command.list_commands(_context(command, PROGRAM)))


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name, resilient_parsing=True)


def _command(command: Any, words: tuple[str, ...], without: Collection[str] = ()) -> Command:
    context = _context(command, " ".join((PROGRAM, *words)))
    names = [name for name in _children(command) if name not in without]
    children = tuple(
        _command(child, (*words, name))
        for name in names
        if not (child := command.get_command(context, name)).hidden
    )  # fmt: skip
    return Command(
        words,
        _paragraphs(command.help or ""),
        tuple(_parameter(each, context) for each in command.get_params(context) if not each.hidden),
        " ".join((PROGRAM, *words, *_pieces(command, names))),
        group=bool(names),
        children=children,
    )


def _pieces(command: Any, children: list[str]) -> list[str]:
    """Return the parts of a usage line after the name."""
    arguments = [_word(each) for each in command.params if each.param_type_name == "argument" and not each.hidden]
    return ["[OPTION]…", *arguments, *(["COMMAND …"] if children else [])]


def _word(argument: Any) -> str:
    """Return an argument as in a usage line: optional ones in brackets, repeatable ones with dots."""
    word = str(argument.metavar or argument.name.upper()).replace("...", "…")
    if argument.nargs == -1 and not word.endswith("…") and " " not in word:
        word += "…"
    return word if argument.required else f"[{word.strip('[]')}]"


def _paragraphs(text: str) -> tuple[str, ...]:
    text = text.partition("\f")[0]
    return tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def _parameter(parameter: Any, context: Any) -> Parameter:
    option = parameter.param_type_name == "option"
    signature, text = parameter.get_help_record(context) or (parameter.name, "")
    names = (*parameter.opts, *parameter.secondary_opts) if option else (_word(parameter),)
    return Parameter(
        tuple(names),
        " ".join(signature.split()) if option else _word(parameter),
        " ".join(text.split()),
        " ".join((parameter.help or "").split()),
        option,
        bool(parameter.required),
        bool(option and parameter.is_flag),
    )
