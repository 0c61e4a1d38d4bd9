"""A duration without a name behind the common or combined format, as Apache and gunicorn write it.

They append whole numbers (``%D``, ``%{ms}T``, ``%T``) or, gunicorn alone, seconds with six digits. The unit follows
from the sizes, and from the stamps: lines are written in the order in which their requests end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from statistics import median

from sojourn.readers.formats import catalogue
from sojourn.readers.formats.apache import apache_parts
from sojourn.readers.formats.columns import SECONDS, Column
from sojourn.readers.formats.line_format import ASSUMED, LIKELY, LineFormat
from sojourn.readers.formats.nginx import nginx_parts

SMALLEST_US = 100  # a median below is hardly in µs
LONGEST_S = 9  # a median above is hardly in s
CERTAIN_US = 10_000  # a median of that many ms is not plausible
LATE_S, DISORDERED = 2.0, 0.05
HEADERS_BYTES, DISTINCT_HEADERS = (60, 4_096), 0.2  # what the headers add to the size of a response
_WHOLE = re.compile(r"\d+")
_MICROSECONDS = re.compile(r"\d+\.\d{6}")
_DURATION_LABEL = re.compile(r"|d|t|rt|took|.*(?:time|duration|latency|elapsed).*|(?:.*_)?(?:ms|msec|us|usec)")
_WORKER = re.compile(r"-|\w+://[\w.:\[\]-]+/?")
_UNITS = {"%D": (1e-6, "µs"), "%{ms}T": (1e-3, "ms"), "%T": (1.0, "s")}
_OF_THE_START = "Its stamps are of the beginning of a request; the end is computed from the response time."
_CUT = "It counts whole seconds, so shorter responses are 0: write %D."


def whole_number_format(
    columns: Sequence[Column], stamped: Sequence[tuple[str, str]], *, combined: bool, vhost: bool
) -> LineFormat | None:
    """Return the format of lines whose last value is a duration as Apache or gunicorn writes it; None if it is not.

    ``stamped``: the stamp and the size of the response of each line. ``combined``: whether lines have a referer and a
    user agent. ``vhost``: whether they begin with the name and the port of a host.
    """
    if any(column.all(SECONDS) and any(value != "-" for value in column.values) for column in columns):
        return None
    end = len(columns)
    while end and _is_worker(columns[end - 1]):
        end -= 1
    sizes = [size for _, size in stamped]
    after_whole = end > 1 and columns[end - 2].all(_WHOLE)
    if end and columns[end - 1].all(_WHOLE) and _is_size(columns[end - 1], sizes, after_whole=after_whole):
        end -= 2  # Apache's %I %O
    if end < 1:
        return None
    if columns[end - 1].all(_MICROSECONDS):
        return _seconds(columns[:end], combined=combined) if end == len(columns) and not vhost else None
    if not columns[end - 1].all(_WHOLE) or not _DURATION_LABEL.fullmatch(columns[end - 1].name):
        return None
    unit, certainty = _unit(columns[end - 1], [stamp for stamp, _ in stamped])
    text = ("%v:%p " if vhost else "") + '%h %l %u %t "%r" %>s %b'
    text += ' "%{Referer}i" "%{User-Agent}i"' if combined else ""
    for k, column in enumerate(columns, 1):
        worker = k > end and _is_worker(column)
        name = unit if k == end else "%{BALANCER_WORKER_NAME}e" if worker else f"%{{column_{k}}}i"
        text += column.before + name + column.after
    which = "last number" if end == len(columns) else f"value {end}"
    note = f"Its {which} is taken as Apache's {unit}, the response time in {_UNITS[unit][1]}."
    notes = (f"{note} Give --log-format if it is not.", _OF_THE_START, *((_CUT,) if unit == "%T" else ()))
    return LineFormat(
        text, f"Apache's format with {unit}", tuple(apache_parts(text)), certainty=certainty, url=True, notes=notes
    )


def _is_worker(column: Column) -> bool:
    return column.all(_WORKER) and any(value != "-" for value in column.values)


def _is_size(column: Column, sizes: Sequence[str], *, after_whole: bool) -> bool:
    """Return whether the values are the sizes of the responses with their headers, as Apache's %O is.

    Sizes that are all the same show it only behind another whole number, Apache's %I.
    """
    if not after_whole and len(set(sizes)) < 2:
        return False
    more = [int(value) - int(size.replace("-", "0")) for value, size in zip(column.values, sizes, strict=True)
            if _WHOLE.fullmatch(value)]  # fmt: skip
    fitting = [each for each in more if HEADERS_BYTES[0] <= each <= HEADERS_BYTES[1]]
    most = max(DISTINCT_HEADERS * len(more), 1)
    return len(fitting) > (1 - DISORDERED) * len(more) and len(set(fitting)) <= most


def _unit(column: Column, stamps: Sequence[str]) -> tuple[str, str]:
    """Return the directive whose unit fits the sizes and the order of the lines, and how certain it is."""
    pairs = [(_epoch(stamp), int(value)) for stamp, value in zip(stamps, column.values, strict=True)
             if _WHOLE.fullmatch(value)]  # fmt: skip
    if suffix := re.fullmatch(r"(?:.*_)?(ms|msec|us|usec)", column.name):
        return "%{ms}T" if suffix[1].startswith("m") else "%D", LIKELY
    middle = median(value for _, value in pairs)
    likely = ["%D", "%{ms}T"] if middle >= SMALLEST_US else ["%{ms}T"] if middle > LONGEST_S else ["%T", "%{ms}T"]
    unit = next((each for each in likely if _is_ordered(pairs, _UNITS[each][0])), likely[0])
    return unit, LIKELY if unit == "%D" and middle >= CERTAIN_US else ASSUMED


def _is_ordered(pairs: Sequence[tuple[float, int]], unit: float) -> bool:
    """Return whether requests end in the order of their lines, give or take the second of a stamp."""
    latest, disordered = 0.0, 0
    for start, value in pairs:
        end = start + value * unit
        disordered += end + LATE_S < latest
        latest = max(latest, end)
    return disordered <= DISORDERED * len(pairs)


def _epoch(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%d/%b/%Y:%H:%M:%S %z").timestamp()
    except ValueError:
        return 0.0


def _seconds(columns: Sequence[Column], *, combined: bool) -> LineFormat:
    base = "combined" if combined else "common"
    text = catalogue.COMBINED if combined else catalogue.COMMON
    text += "".join(f"{column.before}${{column_{k}}}{column.after}" for k, column in enumerate(columns[:-1], 1))
    text += f"{columns[-1].before}${{request_time}}{columns[-1].after}"
    note = (
        "Its last number is taken as the response time in s (gunicorn's %(L)s is one). Give --log-format if it is not."
    )
    name = re.sub(r"\$\{(\w+)\}(?!\w)", r"$\1", text)
    return LineFormat(
        name, f"the {base} format with seconds", tuple(nginx_parts(text)), certainty=ASSUMED, lists=True, notes=(note,)
    )
