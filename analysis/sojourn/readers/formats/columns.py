"""The values that lines have in common behind the common or combined format, as columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sojourn.readers.formats.template import QUOTED

MAJORITY = 0.5
DAMAGED = 0.01
_ELEMENT, _JOIN = r"(?:-|\d+\.\d{3})", "(?:, | : )"
_ANY = r"(?:-|\d+\.\d+)"
SECONDS = re.compile(rf"{_ELEMENT}(?:{_JOIN}{_ELEMENT})*")  # as nginx writes them
DURATION = re.compile(rf"{_ANY}(?:{_JOIN}{_ANY})*")
# IPv6 addresses have brackets of their own.
_IPV6 = r"\[[0-9a-f:]+\]:\d+"
_PLAIN = r'(?:[^\s",\[\]]|,(?! ))+'
_TOKEN = re.compile(
    rf'(?P<blank>\s+)(?P<label>[A-Za-z_][\w.-]*(?:=|: |:(?=[-"]|\d+\.\d)))?(?P<open>"|\[(?![0-9a-f:]+\]:\d)|)'
    rf'(?P<value>{SECONDS.pattern}(?=s?(?:["\]\s]|$))|{_IPV6}(?:{_JOIN}[^\s"]+)*'
    rf'|(?<="){QUOTED}(?=")|(?<=\[)[^\]]*(?=\])'
    rf'|{_PLAIN}(?:{_JOIN}(?:{_PLAIN}|{_IPV6}))*|(?<=")(?=")|(?<=\[)(?=\]))'
    r'(?P<close>s?["\]]?)'
)


@dataclass
class Column:
    """A value appended to the combined format: the text before it, its label, and what follows from its values."""

    before: str
    label: str
    opening: str
    after: str
    values: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The label without its sign."""
        return self.label.rstrip("=: ").lower()

    def all(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the values match; a line in a hundred may be damaged."""
        return sum(pattern.fullmatch(value) is None for value in self.values) <= DAMAGED * len(self.values)

    @cached_property
    def seconds(self) -> list[float | None]:
        """The sum of the durations of each value; None for -."""
        return [_total(value) for value in self.values]

    @property
    def sum(self) -> float:
        """The sum of all durations, s."""
        return round(sum(value or 0.0 for value in self.seconds), 6)

    @property
    def has_several(self) -> bool:
        """Whether a value has several elements."""
        return any(re.search(_JOIN, value) for value in self.values)

    @property
    def always(self) -> bool:
        """Whether every line has a duration; a line in a hundred may be damaged."""
        return self.seconds.count(None) <= DAMAGED * len(self.values)


def columns_of(rests: Sequence[str]) -> tuple[list[Column], list[int]]:
    """Return the columns of what is appended, and the lines they are of; none where the lines are not alike."""
    split = [list(_TOKEN.finditer(rest)) for rest in rests]
    whole = [k for k, (tokens, rest) in enumerate(zip(split, rests, strict=True))
             if "".join(token[0] for token in tokens) == rest]  # fmt: skip
    if not whole:
        return [], []
    shapes = [
        tuple((t["blank"], t["label"] or "", t["open"], t["close"]) for t in tokens)
        for tokens in (split[k] for k in whole)
    ]
    shape = max(set(shapes), key=shapes.count)
    if shapes.count(shape) <= MAJORITY * len(rests):
        return [], []
    columns = [Column(blank + label + begin, label, begin, end) for blank, label, begin, end in shape]
    numbers = [k for k, form in zip(whole, shapes, strict=True) if form == shape]
    for k in numbers:
        for column, token in zip(columns, split[k], strict=True):
            column.values.append(token["value"])
    return columns, numbers


def _total(value: str) -> float | None:
    parts = [part for part in re.split(_JOIN, value) if DURATION.fullmatch(part) and part != "-"]
    return sum(map(float, parts)) if parts else None
