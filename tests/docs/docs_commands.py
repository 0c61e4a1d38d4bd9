"""Command lines of ``sojourn`` in text, parsed by the real command line and not run."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer

SEPARATORS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "(", ")", "2>&1"}
# A command begins with a line, a pipe's next part or a substitution; after sudo, variables, a path, a crontab's times.
CALL = re.compile(
    r"(?:^|[;&|(]|\bsudo (?:-\w+ )*|^(?:[*/\d,]+ ){5})\s*(?:[A-Z_]+=\S* )*(?:\./)?(?:\.venv/bin/)?sojourn (?!=)([^;]+)"
)
DESCRIPTION = re.compile(r"\s{3,}(?![-\s]).*$")


@functools.cache
def root() -> Any:
    """The whole command line, the lab's verbs included."""
    from sojourn_docs.tree import command_line  # noqa: PLC0415 - importable after docs_support sets the path

    return command_line()


def commands_in(shell: str) -> Iterator[str]:
    """The lines that call ``sojourn``, continued lines joined, without what stands before it."""
    # A quotation may go on over lines: SQL does.
    joined = re.sub(r"""(?<=[\s=])(["'])[^"'\n]*\n[^"']*\1""", lambda result: result[0].replace("\n", " "), shell)
    for line in joined.replace("\\\n", " ").splitlines():
        plain = re.sub(r"(^|\s)#\s.*$", "", line)
        yield from (result[1].strip() for result in CALL.finditer(plain))


def arguments_of(line: str) -> list[str]:
    """The words of one call: up to a pipe, a redirection or the end of a substitution.

    Raises:
        ValueError: a quotation is not closed.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in lexer:
        if word in SEPARATORS or set(word) <= set("|&;<>()"):
            break
        words.append(word)
    return words


def parsed(line: str) -> None:
    """Parse a call as the command line would.

    Where that fails, a description may stand behind it, three spaces away.

    Raises:
        typer.BadParameter and its like: it is no call of a command there is.
    """
    try:
        _parse(arguments_of(line))
    except Exception:
        called = DESCRIPTION.sub("", line)
        if called == line:
            raise
        _parse(arguments_of(called))


def _parse(words: list[str]) -> None:
    command, name, context = root(), "sojourn", None
    words, ended = _after_options(command, words)
    if ended:
        return
    while hasattr(command, "list_commands"):
        child = command.get_command(typer.Context(command), words[0] if words else "")
        if child is None:
            raise LookupError(f"there is no command {' '.join([name, *words[:1]])}")
        command, name, words = child, f"{name} {words[0]}", words[1:]
    if "--help" not in words:
        context = command.make_context(name, list(words), parent=context)
        context.close()


def _after_options(command: Any, words: list[str]) -> tuple[list[str], bool]:
    """The words after the program's own options, and whether one of these ends it (--version)."""
    options = {name: each for each in command.get_params(typer.Context(command)) for name in each.opts}
    while words[:1] and words[0].startswith("-"):
        option = options.get(words[0])
        if option is None:
            raise LookupError(f"sojourn has no option {words[0]}")
        if option.is_flag and (option.is_eager or words[0].endswith("-completion")) and not words[1:]:
            return [], True
        words = words[1 if option.is_flag else 2 :]
    return words, False


def known(line: str) -> None:
    """Look whether a call names commands and options there are; what it takes may be left out or stand for something.

    Raises:
        LookupError: it does not.
    """
    words = re.findall(r"[^\s\[\]|,;()]+", line)
    command, name = root(), "sojourn"
    while hasattr(command, "list_commands") and words and re.fullmatch(r"[a-z]+", words[0]):
        child = command.get_command(typer.Context(command), words[0])
        if child is None:
            raise LookupError(f"there is no command {name} {words[0]}")
        command, name, words = child, f"{name} {words[0]}", words[1:]
    options = {option for each in command.get_params(typer.Context(command)) for option in each.opts}
    for word in words:
        option = word.split("=")[0].rstrip("….:")
        if option.startswith("--") and len(option) > 2 and option not in options:
            raise LookupError(f"{name} has no option {option}")
