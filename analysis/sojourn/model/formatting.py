"""Format numbers and untrusted text for people."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len

# Controls, surrogates, unassigned, and the format characters that reorder or hide text (Cf).
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
# Unicode's Default_Ignorable_Code_Point and the blank letter of Braille: they are invisible.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)
_MARKS = {"Mn", "Me"}
_ROUTE = re.compile(r"(?:(\S+) )?(/.*)", re.DOTALL)  # of a service, or of the only one
_PATH = re.compile(r"[\w/.~%:{}*+@-]*")
RESOLUTION = 1e-3  # s: nginx's clock
_PILE = 3  # marks on one letter; more would be drawn over the lines around it


def printable(text: object, limit: int = 120) -> str:
    """Return text from a log, safe for a terminal: escape sequences are shown, not executed.

    Text that is too long loses its end, or its middle where it is one word: addresses and paths differ in their ends.
    A path loses whole segments, if it has several.
    """
    raw = str(text)
    head = _safe(raw[: limit + 1])
    if len(raw) <= limit and len(head) <= limit:
        return head
    if " " in head:
        return head[: limit - 1] + "…"
    tail = limit // 2
    return _joined(head[: limit - 1 - tail], _safe(raw[-tail:])[-tail:]) if tail else "…"


def shortened(text: str, width: int) -> str:
    """Return a name at most ``width`` terminal columns wide; the middle of a longer one is left out.

    A path loses whole segments, if it has several. A service before it is shortened to a third of the width at most.
    """
    if cell_len(text) <= width:
        return text
    if (route := _ROUTE.fullmatch(text)) is not None and route[1]:
        service_width = max(width - 1 - cell_len(route[2]), min(cell_len(route[1]), width // 3))
        service = shortened(route[1], service_width)
        return f"{service} {shortened(route[2], width - 1 - cell_len(service))}" if width > 2 else shortened("/", width)
    tail = max(width - 1, 0) // 2
    end = next((text[k:] for k in range(len(text)) if cell_len(text[k:]) <= tail), "")
    head = max(width - 1 - cell_len(end), 0)
    begin = next(text[:k] for k in range(min(len(text), head), -1, -1) if cell_len(text[:k]) <= head)
    if width <= 0:
        return ""
    return _joined(begin, end) if text.count("/") > 1 else f"{begin}…{end}"


def is_route(text: str) -> bool:
    """Return whether a text is a route: a path, or a service and a path ("shop /reports/monthly")."""
    return _ROUTE.fullmatch(text) is not None


def _joined(begin: str, end: str) -> str:
    """Return the begin and the end of a text without its middle, of a path both cut at a slash where it is near."""
    whole, last = begin[: begin.rfind("/") + 1], end[end.find("/") :] if "/" in end[:-1] else ""
    if begin.startswith("/") and _PATH.fullmatch(begin + end):
        begin = whole if 2 * len(whole) >= len(begin) else begin
        end = last if 2 * len(last) >= len(end) else end
    return f"{begin}…{end}"


def _safe(raw: str) -> str:
    return raw if raw.isascii() and raw.isprintable() else "".join(_escaped(raw))


def _escaped(text: str) -> Iterator[str]:
    marks = 0
    for c in text:
        category = unicodedata.category(c)
        marks = marks + 1 if category in _MARKS else 0
        hidden = category in _UNPRINTABLE or c in _UNSEEN or marks > _PILE
        yield c.encode("unicode_escape").decode() if hidden else c


def iso(instant: datetime) -> str:
    """Format an instant for JSON: ISO 8601, UTC, milliseconds."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def interval_text(begin: datetime, end: datetime) -> str:
    """Return an interval in words: "from 00:01:08 to 00:01:40 UTC", with the days if it has several."""
    day = "" if begin.date() == end.date() else "%m-%d "
    return f"from {begin:{day}%H:%M:%S} to {end:{day}%H:%M:%S} UTC"


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds with three significant digits: 1,204 / 99.8 / 0.31; – for None."""
    return "–" if seconds is None else three_digits(seconds * 1000)


def time_in_ms(seconds: float | None, uncertainty: float = RESOLUTION) -> str:
    """Return a time as ``milliseconds`` does; 0 for a negative time that is within the uncertainty of the clocks, s."""
    return milliseconds(without_noise(seconds, seconds, uncertainty))


def share_of_time(share: float | None, seconds: float | None, uncertainty: float = RESOLUTION) -> str:
    """Return the share of a time as ``percent`` does; 0 % for a negative time within the uncertainty, as there."""
    return percent(without_noise(share, seconds, uncertainty))


def without_noise(value: float | None, seconds: float | None, uncertainty: float = RESOLUTION) -> float | None:
    """Return a figure of a time of ``seconds``; 0 if the time is negative within the uncertainty of the clocks, s."""
    return 0.0 if seconds is not None and -uncertainty <= seconds < 0 else value


def three_digits(value: float) -> str:
    """Return a number with three significant digits, and at most two decimals: 1,204 / 99.8 / 0.31."""
    size = abs(value)
    digits = 0 if size >= 99.95 or size == 0 else 1 if size >= 9.995 else 2
    text = formatted(value, f",.{digits}f")
    return "0" if float(text.replace(",", "")) == 0 else text


def formatted(value: float, form: str) -> str:
    """Return a number in one of Python's number formats, as in ``formatted(0.5, "+.1%")``; zero has no minus sign."""
    sign = "+" if form.startswith("+") else ""
    return format(value, f"{sign}z{form.removeprefix(sign)}")


def percent(share: float | None) -> str:
    """Format a share in per cent, with one decimal below ten; – for None."""
    if share is None:
        return "–"
    value = share * 100
    return f"{formatted(value, '.0f')} %" if abs(value) >= 9.95 or value == 0 else f"{formatted(value, '.1f')} %"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, and its verb if any: 1 request, 2,000 requests, 1 line was refused.

    Args:
        number: of the things.
        one: what follows the number 1.
        many: what follows every other number; by default ``one`` with an s.
    """
    return f"{number:,} " + (one if number == 1 else f"{one}s" if many is None else many)


def address_and_port(address: str, port: int) -> str:
    """Return ``10.0.0.1:8000`` or ``[::1]:8000``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def listed(parts: Sequence[str]) -> str:
    """Join parts of a sentence: a, b and c."""
    return " and ".join([", ".join(parts[:-1]), *parts[-1:]] if len(parts) > 1 else parts)


def tally(counts: Mapping[str, int]) -> str:
    """Return names in alphabetical order with their counts: bad_time 3, invalid_json 1,204."""
    return ", ".join(f"{printable(name)} {count:,}" for name, count in sorted(counts.items()))


def headline(text: str) -> tuple[str, str]:
    """Return the first sentence of a text, and the others; a sentence begins with a capital letter."""
    first, *rest = re.split(r"(?<=[.!?]) (?=[A-Z])", text, maxsplit=1)
    return first, "".join(rest)


def unbroken(text: str) -> str:
    """Return ``text`` with no-break spaces between numbers and their units."""
    return re.sub(r"(?<=\d) (?=(?:%|ms|s|min|h|d)\b|%)", "\u00a0", text)


def duration(seconds: float | None) -> str:
    """Return a duration in a suitable unit: 10 ms, 8.0 s, 2 min 5 s, 3 h 10 min, 4 d 2 h; – for None, NaN."""
    if seconds is None or math.isnan(seconds):
        return "–"
    if abs(seconds) < 0.9995:
        return f"{milliseconds(seconds)} ms"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 59.95 or math.isinf(seconds):
        return f"{formatted(seconds, '.1f')} s"
    whole = round(seconds)
    for unit, size, lower, small in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def rounded(value: Any) -> Any:
    """Return ``value`` with every float in it rounded to a nanosecond's digits, and instants as text.

    No 0.30000000000000004 reaches a reader.
    """
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, float):
        return round(value, 9) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value


def group_name(value: object) -> str:
    """Format the value of a group; a dash for requests without one."""
    return "–" if value is None or value == "" else printable(value, 80)
