"""``docs/reference/commands.md``: every command with every option, and where its own page is."""

from __future__ import annotations

from sojourn.analyses import questions

from sojourn_docs import NOTE
from sojourn_docs.tree import Command, Parameter, program

PAGES = {"lab": "../../lab/README.md"}  # verbs whose page is in another folder

HEAD = f"""# Every command

{NOTE}

The output of `--help` on one page; `man sojourn` has the same text. Each verb has its own page, with the measured
events and a worked example. Exit codes, defaults from a file and the environment: [configuration](configuration.md).
"""


def page() -> str:
    """Return the whole page."""
    root = program()
    parts = [HEAD, _contents(root), _section(root)]
    parts += [_section(command) for verb in root.children for command in verb.every()]
    return "\n".join(parts)


def page_of(verb: str) -> str:
    """Return the path of a verb's page, relative to docs/reference."""
    return PAGES.get(verb, f"{verb}.md")


def anchor(command: Command) -> str:
    """Return the anchor of a command's heading."""
    return command.name.replace(" ", "-")


def _contents(root: Command) -> str:
    rows = [f"| [`{each.name}`](#{anchor(each)}) | {_cell(first_sentence(each))} |" for each in root.children]
    return "\n".join(["| verb | |", "| --- | --- |", *rows, ""])


def first_sentence(command: Command) -> str:
    """Return the first sentence of a command's help, with its full stop or question mark."""
    sentence = command.summary.partition(". ")[0].rstrip(".")
    return sentence if sentence.endswith("?") else sentence + "."


def _section(command: Command) -> str:
    lines = [f"## {command.name}" if len(command.words) < 2 else f"### {command.name}", ""]
    for question in questions():
        if command.words == (question.name,):
            lines += [_text(f"{question.asks} Needs: {question.needs}."), ""]
    for paragraph in command.paragraphs:
        lines += [_text(paragraph), ""]
    lines += ["```text", command.usage, "```", ""]
    if len(command.words) == 1:
        lines += [f"[Its page]({page_of(command.words[0])}).", ""]
    if command.arguments:
        lines += _table("argument", command.arguments)
    return "\n".join(lines + _table("option", command.options))


def _table(kind: str, parameters: tuple[Parameter, ...]) -> list[str]:
    rows = [f"| {_code(each.signature)} | {_cell(each.help)} |" for each in parameters]
    return [f"| {kind} | |", "| --- | --- |", *rows, ""]


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Return plain text with the characters that are markup in Markdown escaped."""
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;").replace("[", "\\[")
