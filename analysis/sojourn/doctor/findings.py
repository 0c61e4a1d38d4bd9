"""A finding with the lines that mend it, and a diagnosis: findings and passed checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar

from sojourn.model.result import Result

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)
FIRST = ("nginx-refuses", "njs-missing", "include-missing")  # other findings may follow from these
PAGE = "docs/reference/doctor.md"

ADD, REPLACE, REMOVE, RUN = "add", "replace", "remove", "run"


@dataclass(frozen=True)
class Edit:
    """A replacement of the characters [begin, end) of a file by ``text``; ``begin`` of None: at its end."""

    file: str
    begin: int | None
    end: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One fault.

    Attributes:
        code: stable; a heading of the reference page.
        severity: ``error`` (something is not measured, or measured wrongly), ``warning`` (a figure means less than it
            seems) or ``info`` (good to know).
        subject: what it is about: a location, an upstream, a backend, a route, a log.
        what: one sentence that says what is wrong.
        why: what follows from it.
        fix: the exact lines.
        how: what to do with them: ``add`` them, ``replace`` the line by them, ``remove`` them, or ``run`` them (a
            command, or code of the app).
        where: file:line, and the block; for a log, its name.
        into: where the fix belongs, where that is not ``where``: the log format, the app.
        edits: the same fix as changes of the configuration's text, where it is one.
    """

    code: str
    severity: str
    subject: str
    what: str
    why: str
    fix: str
    where: str
    how: str = ADD
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    into: str = ""

    @property
    def link(self) -> str:
        """The section of the reference page."""
        return f"{PAGE}#{self.code}"

    def to_dict(self) -> dict[str, object]:
        """Return the entry of ``findings`` in the JSON output."""
        entry = asdict(self)
        edits = entry.pop("edits")
        return {**entry, "link": self.link, "edits": list(edits)}


@dataclass(repr=False)
class Diagnosis(Result):
    """The targets, their faults, and the checks that passed.

    Attributes:
        targets: names of the targets, each with its kind: ``nginx``, ``log`` or ``store``.
        findings: worst first.
        checked: sentences about checks that passed.
        unseen: sentences about what the targets do not show.
        connects: of logs, the answers of each backend and their mean connect time, s.
    """

    TABLES: ClassVar = ("findings", "targets")

    targets: list[dict[str, str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    connects: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether there is an error among the findings."""
        return any(each.severity == ERROR for each in self.findings)

    def count(self, severity: str) -> int:
        """Return the number of findings of this severity."""
        return sum(each.severity == severity for each in self.findings)

    def add(self, other: Diagnosis) -> None:
        """Add another diagnosis."""
        self.targets += other.targets
        self.findings += other.findings
        self.checked += other.checked
        self.unseen += other.unseen
        for backend, (answers, mean) in other.connects.items():
            earlier, earlier_mean = self.connects.get(backend, (0, 0.0))
            total = earlier + answers
            self.connects[backend] = total, (earlier * earlier_mean + answers * mean) / total

    def ordered(self, ignored: Iterable[str] = ()) -> Diagnosis:
        """Return the diagnosis worst first, every finding once, without ignored codes."""
        ignored_codes = set(ignored)
        findings = [each for each in dict.fromkeys(self.findings) if each.code not in ignored_codes]
        findings.sort(key=lambda each: (SEVERITIES.index(each.severity), each.code not in FIRST))
        return replace(self, findings=findings, unseen=list(dict.fromkeys(self.unseen)))

    def to_dict(self) -> dict[str, object]:
        """Return the object that ``sojourn doctor --json`` prints."""
        return {
            "targets": self.targets,
            "broken": self.broken,
            "counts": {severity: self.count(severity) for severity in SEVERITIES},
            "findings": [each.to_dict() for each in self.findings],
            "checked": self.checked,
            "unseen": self.unseen,
        }


def edited(texts: dict[str, str], edits: Iterable[Edit]) -> dict[str, str]:
    """Return the texts of files, by name, after these edits, which must not overlap."""
    done = dict(texts)
    where = {file: len(text) for file, text in texts.items()}
    ordered = sorted(set(edits), key=lambda e: where[e.file] if e.begin is None else e.begin, reverse=True)
    for edit in ordered:
        text = done[edit.file]
        begin, end = (len(text), len(text)) if edit.begin is None else (edit.begin, edit.end)
        done[edit.file] = text[:begin] + edit.text + text[end:]
    return done
