"""What in a log contradicts the format that the user states: response times in another unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from sojourn.model.formatting import duration
from sojourn.readers.formats import nginx
from sojourn.readers.formats.dividing import Values, values_of
from sojourn.readers.formats.fields import DURATIONS, UNITS
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.line_time import instant
from sojourn.readers.formats.template import Variable
from sojourn.readers.formats.unit_guess import is_ordered

ENOUGH = 3  # lines
LONGER = 10  # times as long as the log: the median of the response times
LONG_S = 300.0  # a shorter one is a timeout or a long poll
SHORTEST_S = 100e-6  # no response over a network is shorter
SHORT_SHARE = 0.5
_SMALLER = ("ms", "us", "ns")
_NAMES = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_TOMCAT = "Tomcat writes %D in milliseconds before version 10, in microseconds since then"


def with_warnings(form: LineFormat, lines: Sequence[str]) -> LineFormat:
    """Return a format with sentences about the durations that these lines of its log contradict."""
    if not form.from_user:
        return form
    read = values_of(form)
    values = [each for line in lines if (each := read(line)) is not None]
    warnings = [text for variable in form.variables if (text := _warning(form, variable, values))]
    return replace(form, warnings=tuple(warnings))


@dataclass(frozen=True)
class _Duration:
    """A duration of the sample: its name in ``--log-format``, its unit, and its values as they are written."""

    name: str
    unit: str
    texts: list[str]
    numbers: list[float]

    @property
    def middle(self) -> float:
        return median(self.numbers)

    @property
    def seconds(self) -> float:
        return self.middle * UNITS[self.unit] / UNITS["s"]


def _warning(form: LineFormat, variable: Variable, values: Sequence[Values]) -> str:
    """Return what contradicts the unit of a duration; empty without a contradiction, or if the user states the unit."""
    field = variable.field
    if field.name not in DURATIONS or not field.unit or "=" in variable.text:
        return ""
    texts = [text for each in values if (text := each.get(field.name, "")) not in ("", "-")]
    numbers = [number for text in texts if (number := _number(text)) is not None]
    if len(numbers) < ENOUGH or not any(numbers):
        return ""
    took, stamps = _Duration(_name(form, variable), field.unit, texts, numbers), _stamps(form, values)
    span = max(stamps) - min(stamps) if stamps else 0.0
    if form.lists and field.unit == "s" and all(text.isdigit() for text in texts):
        why = f"{took.name} holds whole numbers, and nginx writes seconds with three decimals."
        return f"{why} {_remedy(took, _fitting(took, span))}"
    if field.name != "request_time":
        return ""
    return _longer_than(took, span) or (_shorter_than_any(took, form, stamps) if form.url else "")


def _longer_than(took: _Duration, span: float) -> str:
    """Return what contradicts response times that are far longer than the log."""
    if took.seconds <= LONG_S or took.seconds <= LONGER * span:
        return ""
    why = f"The median of {took.name} is {duration(took.seconds)}, and the log covers {duration(span)}."
    unit = _fitting(took, span)
    return f"{why} {_remedy(took, unit)}" if UNITS[unit] < UNITS[took.unit] else why


def _shorter_than_any(took: _Duration, form: LineFormat, stamps: Sequence[float]) -> str:
    """Return what contradicts microseconds: too short for responses, or only as ms their ends are in order."""
    if took.unit != "us":
        return ""
    short = sum(number < SHORTEST_S * UNITS["s"] for number in took.numbers) > SHORT_SHARE * len(took.numbers)
    if not short:
        if form.has("end") or len(stamps) != len(took.numbers):
            return ""
        pairs = list(zip(stamps, took.numbers, strict=True))
        in_us, in_ms = (
            is_ordered([(start, number * UNITS[unit] / UNITS["s"]) for start, number in pairs]) for unit in ("us", "ms")
        )
        if in_us or not in_ms:
            return ""
    return f"The median of {took.name} is {took.middle:,.0f} µs. {_TOMCAT}. {_remedy(took, 'ms')}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _name(form: LineFormat, variable: Variable) -> str:
    """Return how a text of ``--log-format`` writes the variable."""
    if variable.text.startswith(("$", "%")):
        return variable.text
    names = [f"${name}" for name, field in nginx.FIELDS.items() if field.name == variable.field.name]
    return names[0] if form.lists and names else "%D" if form.url else variable.text


def _remedy(took: _Duration, other: str) -> str:
    factor = UNITS[took.unit] / UNITS[other]
    wrong = f"{factor:,.0f} times too long" if factor > 1 else f"{1 / factor:,.0f} times too short"
    return f"If it holds {_NAMES[other]}, it is read {wrong} here: write {took.name}={other}."


def _fitting(took: _Duration, span: float) -> str:
    """Return the coarsest unit below seconds in which a response time fits into the log."""
    fitting = (unit for unit in _SMALLER if took.middle * UNITS[unit] / UNITS["s"] <= max(span, 1.0))
    return next(fitting, _SMALLER[-1])


def _stamps(form: LineFormat, values: Sequence[Values]) -> list[float]:
    stamp = form.first("end", "start")
    if stamp is None:
        return []
    unit = form.by_field[stamp].unit
    return [at for each in values if (at := instant(each.get(stamp, ""), unit)) is not None]
