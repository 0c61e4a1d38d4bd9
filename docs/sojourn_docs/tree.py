"""Every command of ``sojourn`` with its arguments and options, as the command line itself knows them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import typer

PROGRAM = "sojourn"


@dataclass(frozen=True)
class Parameter:
    """An argument or an option.

    Attributes:
        names: all its names, ``--json`` and the like; of an argument the word that stands for it.
        shown: names and value, as help shows them: ``--since T``.
        help: what it means, with default and bounds.
        said: what whoever wrote it said of it, without default and bounds; empty where nothing was said.
        flag: it takes no value.
    """

    names: tuple[str, ...]
    shown: str
    help: str
    said: str
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
        """As it is typed."""
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
        """What it takes without a name."""
        return tuple(each for each in self.parameters if not each.option)

    def every(self) -> Iterator[Command]:
        """Itself and all below it, in the order of help."""
        yield self
        for child in self.children:
            yield from child.every()


def program() -> Command:
    """The whole command line, the lab's verbs included.

    What comes out depends on no terminal: help is taken in pieces, before it is laid out.
    """
    return _command(command_line(), ())


def command_line() -> Any:
    """What typer made of the verbs, the lab's included."""
    from sojourn.cli import app  # noqa: PLC0415 - so that this module can be read without the package

    root: Any = typer.main.get_command(app)
    if "lab" not in _children(root):
        from sojourn_lab.cli import app as lab  # noqa: PLC0415

        root.add_command(typer.main.get_command(lab), "lab")
    return root


def _children(command: Any) -> list[str]:
    # A group may know its verbs without having loaded them.
    if not hasattr(command, "list_commands"):
        return []
    return list(command.list_commands(_context(command, PROGRAM)))


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name, resilient_parsing=True)


def _command(command: Any, words: tuple[str, ...]) -> Command:
    context = _context(command, " ".join((PROGRAM, *words)))
    names = _children(command)
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
    """What follows the name in a usage line."""
    taken = [_word(each) for each in command.params if each.param_type_name == "argument" and not each.hidden]
    return ["[OPTION]…", *taken, *(["COMMAND …"] if children else [])]


def _word(argument: Any) -> str:
    """How an argument stands in a usage line: optional ones in brackets, repeatable ones with dots."""
    word = str(argument.metavar or argument.name.upper()).replace("...", "…")
    if argument.nargs == -1 and not word.endswith("…") and " " not in word:
        word += "…"
    return word if argument.required else f"[{word.strip('[]')}]"


def _paragraphs(text: str) -> tuple[str, ...]:
    text = text.partition("\f")[0]
    return tuple(" ".join(part.split()) for part in text.split("\n\n") if part.strip())


def _parameter(parameter: Any, context: Any) -> Parameter:
    option = parameter.param_type_name == "option"
    shown, text = parameter.get_help_record(context) or (parameter.name, "")
    names = (*parameter.opts, *parameter.secondary_opts) if option else (_word(parameter),)
    return Parameter(
        tuple(names),
        " ".join(shown.split()) if option else _word(parameter),
        " ".join(text.split()),
        " ".join((parameter.help or "").split()),
        option,
        bool(parameter.required),
        bool(option and parameter.is_flag),
    )
