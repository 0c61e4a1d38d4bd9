"""Recognise a log by its first lines: can it be split, and if not, which format is it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from sojourn.doctor.findings import ADD, ERROR, INFO, RUN, Finding
from sojourn.doctor.nginx_headers import OWN_VARIABLE, own_stamp_lines
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import ESSENTIAL, REFUSED_WITHOUT, USEFUL, key_lines, why_keys
from sojourn.readers.foreign_logs import LENGTH, NGINX_JSON, ForeignFormat, advice_on, foreign_format, unrecognised
from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.json_template import object_in
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.wrapping import bare_lines
from sojourn.readers.inputs import LogInput

OF_SETTINGS = frozenset(("stamp", "proxy_start"))
"""Keys that only the format of ``sojourn.conf`` writes."""
LINES = 500
LINE_BYTES = 64 << 10


@dataclass
class Sniffed:
    """The first lines: the number of JSON objects, their keys, the lines, and the format that is configured."""

    name: str
    configured: LineFormat | None = None
    lines: int = 0
    objects: int = 0
    keys: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list, repr=False)

    @cached_property
    def form(self) -> LineFormat | None:
        """The format of its lines; None for Sojourn's own record, or an unknown one."""
        return self.configured or detected_format(self.texts)

    @property
    def begins(self) -> list[str]:
        """The beginnings of the lines."""
        return [text[:LENGTH] for text in self.texts]

    @property
    def readable(self) -> bool:
        """Whether its lines can be read as requests."""
        if self.form is not None:
            return not self.form.lacks
        return self.objects > 0 and all(key in self.keys for key in REFUSED_WITHOUT)


def sniffed(log: LogInput) -> Sniffed:
    """Return the facts of the first lines of an opened log, read from its current position."""
    sniff = Sniffed(log.name, log.form if log.recognised else None)
    for text in bare_lines([raw.decode("utf-8", "replace") for raw in islice(_lines(log), LINES)]):
        sniff.lines += 1
        sniff.texts.append(text)
        if (value := object_in(text)) is not None:
            sniff.objects += 1
            sniff.keys.update(value)
    return sniff


def _lines(log: LogInput) -> Iterator[bytes]:
    # A damaged or truncated stream: lines before the damage count, the reader reports the rest.
    try:
        while line := log.stream.readline(LINE_BYTES):
            yield line
    except (OSError, EOFError, ValueError):
        return


def sniff_findings(sniff: Sniffed) -> Iterator[Finding]:
    """Yield what is wrong with the first lines."""
    name = printable(sniff.name, 300)
    if not sniff.lines:
        return
    foreign = foreign_format(sniff.begins)
    if sniff.form is not None and not sniff.form.lacks:
        if sniff.form.has("request_start", "queueing_delay", "service_time"):
            return  # nothing that a split needs is missing
        facts = sniff.form.facts(sniff.name)
        advice = advice_on(sniff.form, sniff.begins)
        yield _of_format(advice, INFO, name, facts.sentence, f"{facts.reading} {advice.sentence}")
        return
    if foreign is not None and foreign is not NGINX_JSON:
        yield _of_format(foreign, ERROR, name, f"{name} is {foreign.name}.", foreign.sentence)
        return
    if sniff.objects < 0.5 * sniff.lines:
        form = unrecognised(sniff.begins)
        why = f"{form.sentence} It begins: {printable(sniff.begins[0], 80)}"
        yield _of_format(form, ERROR, name, f"{name} is {form.name}.", why)
        return
    missing = {key: variable for key, variable in ESSENTIAL.items() if key not in sniff.keys}
    useful = {key: variable for key, variable in USEFUL.items() if key not in sniff.keys}
    if "uri" in sniff.keys:
        useful.pop("route", None)
    if missing or useful:
        names = ", ".join({**missing, **useful})
        # Keys of sojourn.conf say that its files are there; without them its variable would be unknown to nginx.
        if "request_start" in missing and not sniff.keys & OF_SETTINGS:
            missing["request_start"] = f"${OWN_VARIABLE}"
            lines = own_stamp_lines(key_lines({**missing, **useful}))
        else:
            lines = key_lines({**missing, **useful})
        yield Finding(
            "log-keys",
            ERROR if missing else INFO,
            name,
            f"The lines of {name} have no {names}.",
            why_keys(missing),
            lines,
            f"{name}:1",
            ADD,
            into="the log_format in nginx.conf, before its closing brace",
        )


def _of_format(form: ForeignFormat, severity: str, name: str, what: str, why: str) -> Finding:
    how = ADD if form.into else RUN
    return Finding("log-format", severity, name, what, why, form.fix, f"{name}:1", how, into=form.into)
