"""A log format: its variables, what its times are seen from, and what it lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sojourn.model.frame import APP, PROXY, WHOLE, LogFacts
from sojourn.readers.formats.fields import CLOCKS, UNTIL_HEADER, Field, span
from sojourn.readers.formats.template import ANYTHING, Part, Variable, pattern_of, variables

SURE, LIKELY, ASSUMED = "sure", "likely", "assumed"
# Instants of which one dates a line.
STAMPS = ("end", "start", "accept", "emitted")
# Durations of which one says how long the backend took.
UPSTREAM = ("response", "header", "first_byte", "exchange", *UNTIL_HEADER)


@dataclass(frozen=True)
class LineFormat:
    """A format of log lines.

    Attributes:
        name: as ``--log-format`` takes it; of a text that a user gave, the text.
        title: for people.
        parts: literals and variables of a line of text; empty for JSON.
        paths: of JSON and of keys and values: the path of each variable (see ``template.joined_path``).
        fields: of these, in the order of ``paths``.
        composed: of JSON: paths whose values hold several variables or other text, and the parts of these.
        as_text: of JSON: the parts of the whole line, for lines that are no JSON (a value without quotes that is ``-``,
            a quote that is escaped in another way).
        certainty: how the format is known: ``SURE`` (given, or nothing else fits), ``LIKELY`` (deduced from the values
            of many lines) or ``ASSUMED``.
        prefix: anything may precede the line.
        lists: durations of the upstream are nginx's lists, an element per attempt.
        url: the URI of the request is a whole URL.
        notes: what else there is to know about the log, in sentences.
        unit_notes: sentences on units that were deduced.
        alternative: the doubt about its durations, as a clause: "1/1,000 of it if …"; empty without one.
        pairs: of lines of keys and values that are not JSON: the sign between the two, ":" (LTSV) or "=" (logfmt).
        warnings: what contradicts the format in the log, in sentences.
        escape: how values are escaped in a line of nginx: default, json or none; empty: unknown.
        from_user: the format was not recognised by the lines.
    """

    name: str
    title: str
    parts: tuple[Part, ...] = ()
    paths: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    composed: tuple[tuple[str, tuple[Part, ...]], ...] = ()
    as_text: tuple[Part, ...] = ()
    certainty: str = SURE
    prefix: bool = False
    lists: bool = False
    url: bool = False
    notes: tuple[str, ...] = ()
    unit_notes: tuple[str, ...] = ()
    alternative: str = ""
    pairs: str = ""
    warnings: tuple[str, ...] = ()
    escape: str = ""
    from_user: bool = False

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables, one of each field."""
        within = [part for _, parts in self.composed for part in parts]
        every = self.parts or [*map(Variable, self.paths, self.fields), *within]
        return tuple(variables(every))

    @cached_property
    def by_field(self) -> Mapping[str, Field]:
        """Field name -> field."""
        return {variable.field.name: variable.field for variable in self.variables}

    @property
    def json(self) -> bool:
        """Whether its lines are JSON objects."""
        return not self.parts and not self.pairs

    def has(self, *names: str) -> bool:
        """Return whether it has all these fields."""
        return all(name in self.by_field for name in names)

    def first(self, *names: str) -> str | None:
        """Return the first of these fields that it has; None without any."""
        return next((name for name in names if name in self.by_field), None)

    @property
    def before(self) -> str:
        """The expression of what may precede a line of text."""
        return ANYTHING if self.prefix else ""

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
        stamp = self.first(*STAMPS)
        return CLOCKS[self.by_field[stamp].unit][1] if stamp else 1.0

    @cached_property
    def lacks(self) -> tuple[str, ...]:
        """The fields that no line can do without and this format does not have: time, status, request_time."""
        timed = self.first("request_time", "service_time") or self.has("start", "end")
        timed = timed or self.has("first_byte", "transfer") or self.has("upload", "header", "send")
        timed = timed or self.has("until_header", "after_header") or self.has("start", "emitted")
        timed = timed or self.has(span("ds_rx_beg", "ds_tx_end")) or self.has("exchange")
        timed = timed or self.has("session_time", "until_read") or self.has("session_time", "handshake", "idle")
        present = {"time": self.first(*STAMPS), "status": self.has("status"), "request_time": timed}
        return tuple(name for name, is_present in present.items() if not is_present)

    def facts(self, source: str) -> LogFacts:
        """Return what there is to know about a log of this format."""
        mapping = tuple((each.text, each.field.meaning) for each in self.variables if each.field.meaning)
        return LogFacts(
            source, self.name, self.title, self.certainty, self.vantage, self.step, mapping, self.lacks,
            (*self.unit_notes, *self.notes), self.warnings, self.alternative,
        )  # fmt: skip
