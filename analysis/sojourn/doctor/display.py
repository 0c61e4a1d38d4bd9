"""A diagnosis on a terminal: the worst first, each with its place and the lines that mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from sojourn.doctor.findings import ADD, ERROR, INFO, REMOVE, REPLACE, RUN, SEVERITIES, WARNING, Diagnosis, Finding
from sojourn.model.formatting import printable

SHOWN = 5  # findings of one code
_STYLES = {ERROR: "bold red", WARNING: "bold yellow", INFO: "bold cyan"}
_LABELS = {ERROR: "ERROR", WARNING: "WARNING", INFO: "INFO"}
_PLURALS = {ERROR: "errors", WARNING: "warnings", INFO: "remarks"}
_SINGULARS = {ERROR: "error", WARNING: "warning", INFO: "remark"}
_ACTIONS = {ADD: "Add, in {place}:", REPLACE: "Put instead, in {place}:", REMOVE: "Take out, in {place}:", RUN: "Run:"}


def show(found: Diagnosis) -> None:
    """Print a diagnosis to stdout."""
    console = Console(highlight=False)
    for line in _lines(found):
        for part in line.parts(console):
            console.print(part, soft_wrap=True)


@dataclass(frozen=True)
class Line:
    """One line, broken at spaces where it is too long; ``whole``: never, for it is there to be copied."""

    text: Text
    indent: int = 0
    whole: bool = False

    def parts(self, console: Console) -> list[Text]:
        """As it is shown on a console of this width."""
        room = max(console.width - self.indent, 20)
        lines = [self.text] if self.whole else list(self.text.wrap(console, room)) or [Text()]
        for line in lines:
            line.rstrip()
        return [Text.assemble(" " * self.indent, line) if len(line) else Text() for line in lines]


def headline(found: Diagnosis) -> str:
    """The diagnosis in one sentence."""
    counts = {severity: found.count(severity) for severity in SEVERITIES}
    told = [f"{n} {(_SINGULARS if n == 1 else _PLURALS)[severity]}" for severity, n in counts.items() if n]
    checks = f"{len(found.checked) or 'no'} check{'' if len(found.checked) == 1 else 's'} passed"
    if not told and not found.checked:
        return "Nothing was found, and nothing could be checked."
    if not told:
        return f"Nothing to mend: {checks}."
    return f"{', '.join(told)}; {checks}."


def _lines(found: Diagnosis) -> Iterator[Line]:
    yield Line(Text(headline(found), style="bold"))
    codes: Counter[str] = Counter()
    told: set[str] = set()  # a reason is given once
    for each in found.findings:
        codes[each.code] += 1
        if codes[each.code] <= SHOWN:
            yield Line(Text())
            yield from _finding(each, again=each.why in told)
            told.add(each.why)
    for code, count in codes.items():
        if count > SHOWN:
            yield Line(Text())
            yield Line(Text(f"… {count - SHOWN} more of {code} (--json has all of them)", style="dim"))
    if found.findings:
        yield Line(Text())
        yield Line(Text("sojourn doctor --explain CODE tells more of one.", style="dim"))
    for title, sentences in (("In order", found.checked), ("Not seen from here", found.unseen)):
        if sentences:
            yield Line(Text())
            yield Line(Text(title, style="bold"))
            for sentence in sentences:
                yield _indented(f"- {sentence}", "dim")


def _finding(found: Finding, *, again: bool) -> Iterator[Line]:
    yield Line(Text.assemble((_LABELS[found.severity], _STYLES[found.severity]), "  ", (found.code, "bold")))
    yield _indented(found.what)
    if not again:
        yield _indented(found.why, "dim")
    yield _indented(_ACTIONS[found.how].format(place=printable(found.into or found.where, 400)))
    for line in found.fix.splitlines():
        # Never broken into two: it is there to be copied.
        yield Line(Text(printable(line, 2_000), style="green"), 6, whole=True)
    yield _indented(found.link, "dim")


def _indented(text: str, style: str = "") -> Line:
    return Line(Text(printable(text, 800), style=style), 2)
