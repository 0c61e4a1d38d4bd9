"""A log format: its variables, what its times are seen from, and what it lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sojourn.model.frame import APP, PROXY, WHOLE, LogFacts
from sojourn.readers.formats.fields import CLOCKS, Field
from sojourn.readers.formats.template import ANYTHING, HEADER, Part, Variable, pattern_of, variables

SURE, LIKELY, ASSUMED = "sure", "likely", "assumed"
UPSTREAM = ("response", "header", "first_byte")  # durations of which one says how long the backend took


@dataclass(frozen=True)
class LineFormat:
    """A format of log lines.

    Attributes:
        name: as ``--log-format`` takes it; of a text that a user gave, the text.
        title: for people.
        parts: literals and variables of a line of text; empty for JSON.
        paths: of JSON: the path of each variable, as its keys joined by ".".
        fields: of JSON, in the order of ``paths``.
        certainty: how the format is known: ``SURE`` (given, or nothing else fits), ``LIKELY`` (deduced from the values
            of many lines) or ``ASSUMED``.
        prefix: anything may precede the line.
        header: a header of a shipper of logs may precede the line.
        lists: durations of the upstream are nginx's lists, an element per attempt.
        url: the URI of the request is a whole URL.
        notes: what else there is to know about the log, in sentences.
        alternative: what else its times may be, as in ``LogFacts``.
    """

    name: str
    title: str
    parts: tuple[Part, ...] = ()
    paths: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    certainty: str = SURE
    prefix: bool = False
    header: bool = False
    lists: bool = False
    url: bool = False
    notes: tuple[str, ...] = ()
    alternative: str = ""

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, one of each field."""
        every = self.parts or map(Variable, self.paths, self.fields)
        return tuple(variables(every))

    @cached_property
    def by_field(self) -> Mapping[str, Field]:
        """Field name -> field."""
        return {variable.field.name: variable.field for variable in self.variables}

    @property
    def json(self) -> bool:
        """Whether its lines are JSON objects."""
        return not self.parts

    def has(self, *names: str) -> bool:
        """Return whether it has all these fields."""
        return all(name in self.by_field for name in names)

    def first(self, *names: str) -> str | None:
        """Return the first of these fields that it has; None without any."""
        return next((name for name in names if name in self.by_field), None)

    @property
    def before(self) -> str:
        """The expression of what may precede a line of text."""
        return ANYTHING if self.prefix else HEADER if self.header else ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression of a line of text, with a group per field."""
        return re.compile(pattern_of(self.parts, before=self.before), re.DOTALL)

    @cached_property
    def vantage(self) -> str:
        """What its times are seen from: ``PROXY``, ``WHOLE`` or ``APP`` (see ``sojourn.model.frame``)."""
        if self.first(*UPSTREAM):
            return PROXY
        return APP if self.has("service_time") and not self.has("request_time") else WHOLE

    @cached_property
    def step(self) -> float:
        """The step in which the instant of a line counts, s."""
        stamp = self.first("end", "start")
        return CLOCKS[self.by_field[stamp].unit][1] if stamp else 1.0

    @cached_property
    def lacks(self) -> tuple[str, ...]:
        """The fields that no line can do without and this format does not have: time, status, request_time."""
        timed = self.first("request_time", "service_time") or self.has("start", "end")
        timed = timed or self.has("first_byte", "transfer") or self.has("upload", "header", "send")
        present = {"time": self.first("end", "start"), "status": self.has("status"), "request_time": timed}
        return tuple(name for name, is_present in present.items() if not is_present)

    def facts(self, source: str) -> LogFacts:
        """Return what there is to know about a log of this format."""
        mapping = tuple((each.text, each.field.meaning) for each in self.variables if each.field.meaning)
        return LogFacts(
            source, self.name, self.title, self.certainty, self.vantage, self.step, mapping, self.lacks, self.notes,
            self.alternative,
        )  # fmt: skip
