"""The first lines of a log: is it one that can be split, and if not, what is it?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from sojourn.doctor.findings import ADD, ERROR, INFO, Finding
from sojourn.doctor.log_format import ESSENTIAL, REFUSED_WITHOUT, USEFUL, key_lines, why_keys
from sojourn.readers.sources import LogInput
from sojourn.words import printable

LINES = 500
LINE_BYTES = 64 << 10
# 203.0.113.9 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 12 …
_COMBINED = re.compile(r'^\S+ \S+ .{0,200}?\[\d{2}/\w{3}/\d{4}:[\d:]{8} [+-]\d{4}\] "')
SWITCH = "include sojourn/sojourn.conf;\naccess_log /var/log/nginx/sojourn.jsonl sojourn;"


@dataclass
class Sniffed:
    """The first lines: how many are JSON objects, how many in nginx's own format, and the keys seen."""

    name: str
    lines: int = 0
    objects: int = 0
    combined: int = 0
    keys: set[str] = field(default_factory=set)
    first: str = ""

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
        found.first = found.first or text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            found.combined += _COMBINED.match(text) is not None
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
    if found.objects < 0.5 * found.lines:
        combined = found.combined > 0.5 * found.lines
        what = "is written in nginx's own combined format" if combined else "does not hold JSON lines"
        yield Finding(
            "log-format",
            ERROR,
            name,
            f"{name} {what}.",
            f"A split is made of times that are not in it. It begins: {printable(found.first, 80)}",
            SWITCH,
            f"{name}:1",
            ADD,
            into="nginx.conf, inside http",
        )
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
