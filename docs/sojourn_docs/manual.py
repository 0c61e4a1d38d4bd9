"""The manual pages, man(7) macros: ``sojourn(1)`` and one page a verb, from the same tree as ``--help``.

The build hooks of both distributions (``hatch_build.py``, ``lab/build_hook.py``) generate them where only typer
and msgspec are installed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

from sojourn_docs.commands import first_sentence
from sojourn_docs.tree import PROGRAM, Command, Parameter, program

WIDTH = 76  # manual pages are kept short in their source, too
NOTE = '.\\" Generated from the code when the package is built.\n'

CONFIGURATION = Path(__file__).parents[1] / "reference/configuration.md"  # has the exit codes and the environment
FILES = (
    ("$XDG_CONFIG_HOME/sojourn/config.toml", "Your defaults for options; ~/.config/sojourn/config.toml by default."),
    ("sojourn.toml", "Those of the folder the command is run in; they win."),
)

Pairs = tuple[tuple[str, str], ...]


def pages() -> dict[str, str]:
    """Return file name -> manual page, of every command of the distribution ``sojourn``."""
    root = program(lab=False)
    verbs = {f"{PROGRAM}-{verb.words[0]}.1": _verb(verb, root) for verb in root.children}
    return {f"{PROGRAM}.1": _program(root), **verbs}


def lab_page() -> str:
    """Return the manual page ``sojourn-lab.1``, of the distribution ``sojourn-lab``."""
    root = program()
    (lab,) = (verb for verb in root.children if verb.words == ("lab",))
    return _verb(lab, root)


def _program(root: Command) -> str:
    lines = [_title(PROGRAM), ".SH NAME", _name(PROGRAM, "slow code, or a queue, behind nginx"), *_synopsis(root)]
    lines += [".SH DESCRIPTION", *_paragraphs(root), ".SH COMMANDS"]
    for verb in root.children:
        lines += [".TP", f".BR {_escaped(PROGRAM)}\\-{_escaped(verb.words[0])} (1)", _line(first_sentence(verb))]
    lines += [*_parameters("OPTIONS", root.options), *_pairs("EXIT STATUS", _configuration_rows("Exit codes"))]
    lines += [*_pairs("ENVIRONMENT", _configuration_rows("Environment")), *_pairs("FILES", FILES), ".SH EXAMPLES"]
    for sentence, typed in (
        ("Slow code, or a queue?", "sojourn split /var/log/nginx/sojourn.jsonl"),
        (
            "Which requests caused the wait, in the last ten minutes?",
            "sojourn blame /var/log/nginx/sojourn.jsonl --since 10m",
        ),
        ("Everything on one page:", "sojourn report /var/log/nginx/sojourn.jsonl --html report.html"),
    ):
        lines += [".TP", _line(sentence), f"\\fB{_escaped(typed)}\\fR"]
    return _joined([*lines, *_see(f"{PROGRAM}-{verb.words[0]}" for verb in root.children)])


def _verb(verb: Command, root: Command) -> str:
    name = f"{PROGRAM}-{verb.words[0]}"
    sentence = first_sentence(verb).rstrip(".")
    lines = [
        _title(name),
        ".SH NAME",
        _name(name, sentence[0].lower() + sentence[1:]),
        *_synopsis(*verb.children or (verb,)),
    ]
    lines += [".SH DESCRIPTION", *_paragraphs(verb)]
    if verb.children:
        lines += [".SH COMMANDS"]
        for child in verb.children:
            lines += [f".SS {_quoted(child.name)}", *_paragraphs(child)]
            lines += [*_entries(child.arguments), *_entries(child.options)]
    else:
        lines += [*_parameters("ARGUMENTS", verb.arguments), *_parameters("OPTIONS", verb.options)]
    lines += _pairs("EXIT STATUS", _configuration_rows("Exit codes"))
    others = (f"{PROGRAM}-{other.words[0]}" for other in root.children if other is not verb)
    return _joined([*lines, *_see((PROGRAM, *others))])


def _title(name: str) -> str:
    # No date: the page says the same until the code does.
    return f'{NOTE}.TH {_quoted(name.upper())} 1 "" "Sojourn" "User Commands"\n.nh\n.ad l'


def _name(name: str, what: str) -> str:
    return f"{_escaped(name)} \\- {_escaped(what)}"


def _synopsis(*commands: Command) -> list[str]:
    lines = [".SH SYNOPSIS", ".nf"]
    for command in commands:
        rest = command.usage.removeprefix(command.name)
        lines.append(f"\\fB{_escaped(command.name)}\\fR{_escaped(rest)}")
    return [*lines, ".fi"]


def _paragraphs(command: Command) -> list[str]:
    lines = [line for paragraph in command.paragraphs for line in (".PP", *_lines(paragraph))]
    return lines[1:]  # a heading begins a paragraph by itself


def _parameters(heading: str, parameters: tuple[Parameter, ...]) -> list[str]:
    return [f".SH {heading}", *_entries(parameters)] if parameters else []


def _entries(parameters: tuple[Parameter, ...]) -> list[str]:
    return [line for each in parameters for line in (".TP", f"\\fB{_escaped(each.signature)}\\fR", *_lines(each.help))]


def _pairs(heading: str, pairs: Pairs) -> list[str]:
    lines = [f".SH {heading}"]
    for word, meaning in pairs:
        lines += [".TP", f"\\fB{_escaped(word)}\\fR", *_lines(meaning)]
    return lines


def _configuration_rows(heading: str) -> Pairs:
    """Return the rows of the table under a heading of the page on configuration, as plain text."""
    section = re.split(rf"^## {heading}$", CONFIGURATION.read_text(encoding="utf-8"), maxsplit=1, flags=re.M)[1]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section.partition("\n## ")[0], re.M)
    return tuple((_plain(word), _plain(meaning)) for word, meaning in rows[2:])


def _plain(markdown: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", markdown).replace("`", "").replace("\\|", "|")


def _see(names: Iterable[str]) -> list[str]:
    pages = list(names)
    return [".SH SEE ALSO", *(f".BR {_escaped(name)} (1){',' if name != pages[-1] else ''}" for name in pages)]


def _lines(text: str) -> list[str]:
    return [_line(line) for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False)]


def _line(text: str) -> str:
    """Return a line of text, escaped if it begins like a request of roff."""
    escaped = _escaped(text)
    return "\\&" + escaped if escaped[:1] in (".", "'") else escaped


def _quoted(text: str) -> str:
    return '"' + _escaped(text).replace('"', "\\(dq") + '"'


def _escaped(text: str) -> str:
    """Return plain text for roff, with characters beyond ASCII as code points."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "".join(char if ord(char) < 128 else f"\\[u{ord(char):04X}]" for char in text)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
