"""The first lines of a log: is it one that can be split, and if not, what is it?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from sojourn.doctor.findings import ADD, ERROR, INFO, RUN, Finding
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import ESSENTIAL, REFUSED_WITHOUT, USEFUL, key_lines, why_keys
from sojourn.readers.foreign_logs import COMBINED, LENGTH, NGINX_JSON, ForeignFormat, foreign_format
from sojourn.readers.inputs import LogInput

LINES = 500
LINE_BYTES = 64 << 10


@dataclass
class Sniffed:
    """The first lines: how many are JSON objects, the keys seen, and the beginnings of the lines."""

    name: str
    lines: int = 0
    objects: int = 0
    keys: set[str] = field(default_factory=set)
    begins: list[str] = field(default_factory=list)

    @property
    def readable(self) -> bool:
        """Whether lines of it can be taken at all."""
        return self.objects > 0 and all(key in self.keys for key in REFUSED_WITHOUT)


def sniffed(log: LogInput) -> Sniffed:
    """What the first lines of an opened log are; it is read from where it stands."""
    found = Sniffed(log.name)
    for raw in islice(_lines(log), LINES):
        text = raw.decode("utf-8", "replace").strip()
        if not text:
            continue
        found.lines += 1
        found.begins.append(text[:LENGTH])
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.objects += 1
            found.keys.update(map(str, value))
    return found


def _lines(log: LogInput) -> Iterator[bytes]:
    # A damaged stream, or one that ends within a member: what came before it is told, the reader tells the rest.
    try:
        while line := log.stream.readline(LINE_BYTES):
            yield line
    except (OSError, EOFError, ValueError):
        return


def sniff_findings(found: Sniffed) -> Iterator[Finding]:
    """What the first lines show to be wrong."""
    name = printable(found.name, 300)
    if not found.lines:
        return
    known = foreign_format(found.begins)
    if known is not None and known is not NGINX_JSON:
        yield _foreign(known, name, f"{name} is {known.name}.", known.sentence)
        return
    if found.objects < 0.5 * found.lines:
        why = f"The times that a split consists of are not in it. It begins: {printable(found.begins[0], 80)}"
        yield _foreign(COMBINED, name, f"{name} does not hold JSON lines.", why)
        return
    missing = {key: variable for key, variable in ESSENTIAL.items() if key not in found.keys}
    useful = {key: variable for key, variable in USEFUL.items() if key not in found.keys}
    if "uri" in found.keys:
        useful.pop("route", None)
    if missing or useful:
        names = ", ".join({**missing, **useful})
        yield Finding(
            "log-keys",
            ERROR if missing else INFO,
            name,
            f"The lines of {name} have no {names}.",
            why_keys(missing),
            key_lines({**missing, **useful}),
            f"{name}:1",
            ADD,
            into="the log_format in nginx.conf, before its closing brace",
        )


def _foreign(known: ForeignFormat, name: str, what: str, why: str) -> Finding:
    how = ADD if known.into else RUN
    return Finding("log-format", ERROR, name, what, why, known.fix, f"{name}:1", how, into=known.into)
