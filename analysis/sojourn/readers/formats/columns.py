"""The values that lines of text have in common, as columns."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sojourn.readers.formats.fields import CLF, UNIT_WORDS
from sojourn.readers.formats.roles import role_of
from sojourn.readers.formats.template import QUOTED

MAJORITY = 0.5
DAMAGED = 0.01
_ELEMENT, _JOIN = r"(?:-|\d+\.\d{3})", "(?:, | : )"
_ANY = r"(?:-|\d+(?:\.\d+)?)"
SECONDS = re.compile(rf"{_ELEMENT}(?:{_JOIN}{_ELEMENT})*")  # as nginx writes them
DURATION = re.compile(rf"{_ANY}(?:{_JOIN}{_ANY})*")
# IPv6 addresses have brackets of their own.
_IPV6 = r"\[[0-9a-f:]+\]:\d+"
_UNIT = "(?:ms|us|µs|ns|s)"
_LABEL = r'(?P<label>[A-Za-z_][\w.-]*(?:=|: |:(?=[-"]|\d+\.\d)))?'
_OPEN = r'(?P<open>"|\[(?![0-9a-f:]+\]:\d)|)'
_PLAIN = r'(?:[^\s",\[\]]|,(?! ))+'
_TOKEN = re.compile(
    rf"(?P<blank>\s+){_LABEL}{_OPEN}"
    rf'(?P<value>{SECONDS.pattern}(?={_UNIT}?(?:["\]\s]|$))|\d+(?:\.\d+)?(?={_UNIT}(?:["\]\s]|$))|{CLF}(?=["\]\s]|$)|{_IPV6}(?:{_JOIN}[^\s"]+)*'
    rf'|(?<="){QUOTED}(?=")|(?<=\[)[^\]]*(?=\])'
    rf'|{_PLAIN}(?:{_JOIN}(?:{_PLAIN}|{_IPV6}))*|(?<=")(?=")|(?<=\[)(?=\]))'
    rf'(?P<close>{_UNIT}?["\]]?)'
)

# Signs between values that may hold blanks.
SIGNS = ("\t", "|", ";", ",")
_FEWEST_CELLS = 5


@dataclass
class Column:
    """A value of lines: the text before it, its label, the text behind it, and what follows from its values.

    ``opening``: the quote or the bracket before it; a value between two signs counts as quoted. ``word``: the unit that
    follows as a word of its own.
    """

    before: str
    label: str
    opening: str
    after: str
    values: list[str] = field(default_factory=list)
    word: str = ""

    @property
    def unit(self) -> str:
        """The unit that is written behind the values, as a word of its own or not, or in the label; empty without."""
        written = re.match(_UNIT, self.after)
        unit = written[0].replace("µ", "u") if written else UNIT_WORDS.get(self.word.lower(), "")
        if unit:
            return unit
        role = role_of(self.name) if self.label else None
        return (role.unit if role else "") or UNIT_WORDS.get(self.name, "")

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


def columns_of(rests: Sequence[str], pattern: re.Pattern[str] = _TOKEN) -> tuple[list[Column], list[int]]:
    """Return the columns of what is appended, and the lines they are of; none where the lines are not alike."""
    split = [list(pattern.finditer(rest)) for rest in rests]
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
    return _with_words(columns), numbers


def columns_of_lines(lines: Sequence[str]) -> Iterator[list[Column]]:
    """Yield the columns of whole lines: between blanks, and then between other signs, where there are some."""
    if columns := columns_of([f" {line.rstrip()}" for line in lines])[0]:
        columns[0].before = columns[0].before.lstrip(" ")
        yield columns
    for sign in SIGNS:
        columns, _ = columns_of([line.rstrip("\r\n") for line in lines], _cell(sign))
        if len(columns) >= _FEWEST_CELLS:
            for column in columns:
                column.opening = column.opening or '"'
            yield columns


@functools.cache
def _cell(sign: str) -> re.Pattern[str]:
    """Return the pattern of a value that signs of this kind enclose."""
    sign = re.escape(sign)
    end = rf"(?= *(?:$|{sign}))"
    return re.compile(
        rf"(?P<blank>(?:^|{sign}) *){_LABEL}{_OPEN}"
        rf'(?P<value>(?<="){QUOTED}(?=")|(?<=\[)[^\]]*(?=\])|\d+(?:\.\d+)?(?={_UNIT}{end})|[^"{sign}]*?{end})'
        rf'(?P<close>{_UNIT}?["\]]? *)(?=$|{sign})'
    )


def _with_words(columns: Sequence[Column]) -> list[Column]:
    """Return the columns, a word that is a unit as a part of the number before it: 53.000 ms."""
    result: list[Column] = []
    for column in columns:
        word = set(column.values).pop() if len(set(column.values)) == 1 else ""
        before = result[-1] if result else None
        if before and not column.label and word.lower() in UNIT_WORDS and before.all(DURATION) and not before.after:
            before.word, before.after = word, f"{column.before}{word}{column.after}"
        else:
            result.append(column)
    return result


def _total(value: str) -> float | None:
    parts = [part for part in re.split(_JOIN, value) if DURATION.fullmatch(part) and part != "-"]
    return sum(map(float, parts)) if parts else None
