"""A duration without a name behind the common or combined format, as Apache, Tomcat, Rack and gunicorn write it.

They append whole numbers (``%D``, ``%{ms}T``, ``%T``), or seconds with four digits (Rack) or six (gunicorn). Numbers
that do not behave like durations are none. The unit follows from their sizes, and from the stamps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.readers.formats import catalogue
from sojourn.readers.formats.apache import apache_parts
from sojourn.readers.formats.behaviour import Context, not_a_duration
from sojourn.readers.formats.columns import SECONDS, Column
from sojourn.readers.formats.fields import UNIT_NAMES
from sojourn.readers.formats.line_format import ASSUMED, LIKELY, LineFormat
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.unit_guess import Guess, Instants, guessed_unit

DISORDERED = 0.05
HEADERS_BYTES, DISTINCT_HEADERS = (60, 4_096), 0.2  # what the headers add to the size of a response
_WHOLE = re.compile(r"\d+")
_MICROSECONDS = re.compile(r"\d+\.\d{6}")
_DURATION_LABEL = re.compile(r"|d|t|rt|took|.*(?:time|duration|latency|elapsed).*|(?:.*_)?(?:ms|msec|us|usec)")
_WORKER = re.compile(r"-|\w+://[\w.:\[\]-]+/?")
_WORD = re.compile(r"-|[A-Za-z_][\w.:/-]*")  # names of threads and hosts
_RACK = re.compile(r"\d+\.\d{4}")
_DIRECTIVES = {"us": "%D", "ms": "%{ms}T", "s": "%T"}
_CUT = "It counts whole seconds, so shorter responses are 0: write %D."


def whole_number_format(
    columns: Sequence[Column], lines: Sequence[Context], *, combined: bool, vhost: bool
) -> LineFormat | None:
    """Return the format of lines whose last value is a duration as Apache or gunicorn writes it; None if it is not.

    ``lines``: what else each line has. ``combined``: whether lines have a referer and a
    user agent. ``vhost``: whether they begin with the name and the port of a host.
    """
    if any(column.all(SECONDS) and any(value != "-" for value in column.values) for column in columns):
        return None
    end = _end_of_duration(columns, [line.size for line in lines])
    last = columns[end - 1] if end >= 1 else None
    if last is not None and end == len(columns) and not vhost and _is_seconds(last, combined=combined):
        return _seconds(columns[:end], combined=combined)
    guess = None if last is None else _unit(last, lines)
    if last is None or guess is None:
        return None
    directive = _DIRECTIVES[guess.unit]
    text = ("%v:%p " if vhost else "") + '%h %l %u %t "%r" %>s %b'
    text += ' "%{Referer}i" "%{User-Agent}i"' if combined else ""
    for k, column in enumerate(columns, 1):
        worker = k > end and _is_worker(column)
        name = directive if k == end else "%{BALANCER_WORKER_NAME}e" if worker else f"%{{column_{k}}}i"
        text += column.before + name + column.after
    which = "last number" if end == len(columns) else f"value {end}"
    note = f"Its {which} is taken as Apache's {directive}, the response time in {UNIT_NAMES[guess.unit]}."
    doubt = guess.doubt(f"its {which}")
    other = f" It may be in {UNIT_NAMES[guess.alternative]}." if guess.alternative else ""
    unit_note = f"{note}{other} --log-format request_time={guess.alternative or guess.unit} sets its unit."
    notes = (catalogue.OF_THE_START, *((_CUT,) if directive == "%T" else ()))
    certain = guess.certain and (guess.unit == "us" or bool(last.name) or bool(last.unit))
    return LineFormat(
        text, f"Apache's format with {directive}", tuple(apache_parts(text)), certainty=LIKELY if certain else ASSUMED,
        url=True, notes=notes, unit_notes=(unit_note,), alternative=doubt,
    )  # fmt: skip


def _end_of_duration(columns: Sequence[Column], sizes: Sequence[int]) -> int:
    """Return the number of columns up to the one that may be a duration, which sizes and a worker may follow."""
    end = len(columns)
    while end and (_is_worker(columns[end - 1]) or (not columns[end - 1].label and columns[end - 1].all(_WORD))):
        end -= 1
    after_whole = end > 1 and columns[end - 2].all(_WHOLE)
    if end and columns[end - 1].all(_WHOLE) and _is_size(columns[end - 1], sizes, after_whole=after_whole):
        end -= 2  # Apache's %I %O
    return end


def _is_seconds(column: Column, *, combined: bool) -> bool:
    return column.all(_MICROSECONDS) or (column.all(_RACK) and not combined)


def refused_number(columns: Sequence[Column], lines: Sequence[Context]) -> str:
    """Return why the last number of lines is no duration, in a sentence; empty if it is one, or there is none."""
    last = columns[-1] if columns else None
    if last is None or last.name or last.unit or not last.all(_WHOLE) or not (why := _refusal(last, lines)):
        return ""
    return f"Its last numbers ({', '.join(last.values[:3])}) are not read as durations: {why}."


def _refusal(column: Column, lines: Sequence[Context]) -> str:
    pairs = [(int(value), line) for value, line in zip(column.values, lines, strict=True) if _WHOLE.fullmatch(value)]
    return not_a_duration([value for value, _ in pairs], [line for _, line in pairs])


def _is_worker(column: Column) -> bool:
    return column.all(_WORKER) and any(value != "-" for value in column.values)


def _is_size(column: Column, sizes: Sequence[int], *, after_whole: bool) -> bool:
    """Return whether the values are the sizes of the responses with their headers, as Apache's %O is.

    Sizes that are all the same show it only behind another whole number, Apache's %I.
    """
    if not after_whole and len(set(sizes)) < 2:
        return False
    more = [int(value) - size for value, size in zip(column.values, sizes, strict=True)
            if _WHOLE.fullmatch(value)]  # fmt: skip
    fitting = [each for each in more if HEADERS_BYTES[0] <= each <= HEADERS_BYTES[1]]
    most = max(DISTINCT_HEADERS * len(more), 1)
    return len(fitting) > (1 - DISORDERED) * len(more) and len(set(fitting)) <= most


def _unit(column: Column, lines: Sequence[Context]) -> Guess | None:
    """Return the unit that the label says, or that fits the sizes and the order of the lines; None: it is none."""
    if not column.all(_WHOLE) or not _DURATION_LABEL.fullmatch(column.name):
        return None
    if column.unit:
        return Guess(column.unit)
    if not column.name and _refusal(column, lines):
        return None
    values = [value if _WHOLE.fullmatch(value) else "" for value in column.values]
    return guessed_unit(values, Instants([line.instant for line in lines], of_start=True), candidates=("s", "ms", "us"))


def _seconds(columns: Sequence[Column], *, combined: bool) -> LineFormat:
    base = "combined" if combined else "common"
    text = catalogue.COMBINED if combined else catalogue.COMMON
    text += "".join(f"{column.before}${{column_{k}}}{column.after}" for k, column in enumerate(columns[:-1], 1))
    is_rack = columns[-1].all(_RACK)
    text += (
        f"{columns[-1].before}${{{'upstream_http_x_service_time' if is_rack else 'request_time'}}}{columns[-1].after}"
    )
    note = (
        "Its last number is taken as the seconds that Rack's CommonLogger writes: the service time. "
        + catalogue.OF_APP_ALONE
        if is_rack else
        "Its last number is taken as the response time in s (gunicorn's %(L)s is one). Give --log-format if it is not."
    )  # fmt: skip
    title = "the log of Rack's CommonLogger" if is_rack else f"the {base} format with seconds"
    name = re.sub(r"\$\{(\w+)\}(?!\w)", r"$\1", text)
    return LineFormat(
        name,
        title,
        tuple(nginx_parts(text)),
        certainty=ASSUMED,
        lists=True,
        notes=(note,),
    )
