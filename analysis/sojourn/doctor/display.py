"""Print a diagnosis on a terminal: worst first, each finding with its place and the lines that mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from sojourn.doctor.findings import ADD, ERROR, INFO, REMOVE, REPLACE, RUN, SEVERITIES, WARNING, Diagnosis, Finding
from sojourn.model.formatting import printable

MOST_PER_CODE = 5  # findings of one code
_STYLES = {ERROR: "bold red", WARNING: "bold yellow", INFO: "bold cyan"}
_INSTALLED = ("include-missing", "stamp-missing", "stamp-not-inherited", "log-missing")
_NOUNS = {ERROR: "error", WARNING: "warning", INFO: "remark"}
_ACTIONS = {ADD: "Add, in {place}:", REPLACE: "Replace, in {place}, by:", REMOVE: "Remove, in {place}:", RUN: "Run:"}


def show(diagnosis: Diagnosis) -> None:
    """Print a diagnosis to stdout."""
    console = Console(highlight=False)
    for line in _lines(diagnosis):
        for part in line.parts(console):
            console.print(part, soft_wrap=True)


@dataclass(frozen=True)
class Line:
    """One line, broken at spaces where it is too long; with ``whole`` never, so that it can be copied."""

    text: Text
    indent: int = 0
    whole: bool = False

    def parts(self, console: Console) -> list[Text]:
        """Return the line as shown on a console of this width."""
        room = max(console.width - self.indent, 20)
        lines = [self.text] if self.whole else list(self.text.wrap(console, room)) or [Text()]
        for line in lines:
            line.rstrip()
        return [Text.assemble(" " * self.indent, line) if len(line) else Text() for line in lines]


def headline(diagnosis: Diagnosis) -> str:
    """Return the diagnosis in one sentence."""
    counts = {severity: diagnosis.count(severity) for severity in SEVERITIES}
    counted = [f"{n} {_NOUNS[severity]}{'' if n == 1 else 's'}" for severity, n in counts.items() if n]
    checks = f"{len(diagnosis.checked) or 'no'} check{'' if len(diagnosis.checked) == 1 else 's'} passed"
    if not counted and not diagnosis.checked:
        return "No findings, and nothing could be checked."
    if not counted:
        return f"No findings: {checks}."
    return f"{', '.join(counted)}; {checks}."


def _lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield Line(Text(headline(diagnosis), style="bold"))
    codes: Counter[str] = Counter()
    reasons: set[str] = set()  # each reason is printed once
    for each in diagnosis.findings:
        codes[each.code] += 1
        if codes[each.code] <= MOST_PER_CODE:
            yield Line(Text())
            yield from _finding(each, again=each.why in reasons)
            reasons.add(each.why)
    for code, count in codes.items():
        if count > MOST_PER_CODE:
            yield Line(Text())
            yield Line(Text(f"… {count - MOST_PER_CODE} more of {code} (--json has all of them)", style="dim"))
    for target in diagnosis.targets if any(each.code in _INSTALLED for each in diagnosis.findings) else ():
        if target["kind"] == "nginx":
            yield Line(Text())
            yield Line(Text(f"sojourn install nginx {target['name']} shows these changes, and makes and tests them."))
    if diagnosis.findings:
        yield Line(Text())
        yield Line(Text("sojourn doctor --explain CODE describes a finding.", style="dim"))
    for title, sentences in (("Passed", diagnosis.checked), ("Not checked", diagnosis.unseen)):
        if sentences:
            yield Line(Text())
            yield Line(Text(title, style="bold"))
            for sentence in sentences:
                yield _indented(f"- {sentence}", "dim")


def _finding(finding: Finding, *, again: bool) -> Iterator[Line]:
    yield Line(Text.assemble((finding.severity.upper(), _STYLES[finding.severity]), "  ", (finding.code, "bold")))
    yield _indented(finding.what)
    if not again:
        yield _indented(finding.why, "dim")
    yield _indented(_ACTIONS[finding.how].format(place=printable(finding.into or finding.where, 400)))
    for line in finding.fix.splitlines():
        # Never broken into two, so that it can be copied.
        yield Line(Text(printable(line, 2_000), style="green"), 6, whole=True)
    yield _indented(finding.link, "dim")


def _indented(text: str, style: str = "") -> Line:
    return Line(Text(printable(text, 800), style=style), 2)
