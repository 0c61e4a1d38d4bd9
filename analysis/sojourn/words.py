"""Numbers and foreign text as people read them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

# Controls, surrogates, unassigned, and the format characters that reorder or hide text (Cf).
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
# Unicode's Default_Ignorable_Code_Point beside those, and a blank that counts as a letter of Braille: nobody sees them.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)
_MARKS = {"Mn", "Me"}
_PILE = 3  # marks on one letter; more would be drawn over the lines around it


def printable(text: object, limit: int = 120) -> str:
    """Text that came from a log, safe for a terminal: escape sequences and their like are shown, not obeyed."""
    raw = str(text)
    shown = raw[: limit + 1] if raw.isascii() and raw.isprintable() else "".join(_shown(raw[: limit + 1]))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _shown(text: str) -> Iterator[str]:
    marks = 0
    for c in text:
        category = unicodedata.category(c)
        marks = marks + 1 if category in _MARKS else 0
        hidden = category in _UNPRINTABLE or c in _UNSEEN or marks > _PILE
        yield c.encode("unicode_escape").decode() if hidden else c


def iso(instant: datetime) -> str:
    """An instant as JSON has it: ISO 8601, UTC, to the millisecond."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds with three digits that matter: 1,204 / 99.8 / 0.31; – for None."""
    if seconds is None:
        return "–"
    ms = seconds * 1000
    size = abs(ms)
    digits = 0 if size >= 99.95 or size == 0 else 1 if size >= 9.995 else 2
    text = f"{ms:,.{digits}f}"
    return "0" if float(text.replace(",", "")) == 0 else text


def briefly(seconds: float | None) -> str:
    """A length of time with its unit, in milliseconds below one second: 12 ms, 4.0 s, 2 min 5 s; – for None."""
    if seconds is None:
        return "–"
    return f"{milliseconds(seconds)} ms" if abs(seconds) < 0.9995 else duration(seconds)


def percent(share: float | None) -> str:
    """A share as whole per cent, with one digit below ten; – for None."""
    if share is None:
        return "–"
    value = share * 100
    text = f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.1f} %"
    return text.removeprefix("-") if text == "-0.0 %" else text


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 request, 2,000 requests."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def agreeing(number: int, noun: str, singular: str, plural: str) -> str:
    """A number with its noun and verb: 1 packet was, 2 packets were."""
    return f"{counted(number, noun)} {singular if number == 1 else plural}"


def address_and_port(address: str, port: int) -> str:
    """``10.0.0.1:8000`` or ``[::1]:8000``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence after one another: a, b and c."""
    return " and ".join([", ".join(parts[:-1]), *parts[-1:]] if len(parts) > 1 else parts)


def unbroken(text: str) -> str:
    """``text`` with its numbers and their units held together on one line."""
    return re.sub(r"(?<=\d) (?=(?:%|ms|s|min|h|d)\b|%)", "\u00a0", text)


def duration(seconds: float) -> str:
    """A length of time in the largest unit that fits: 8.0 s, 2 min 5 s, 3 h 10 min, 4 d 2 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, size, lower, small in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
