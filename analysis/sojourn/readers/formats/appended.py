"""The common or combined format with values appended to it, whose meaning follows from labels, forms and sizes.

nginx users append ``$request_time`` and ``$upstream_…_time`` in every order, with and without names. What a value is
follows from its label (``rt=``, ``urt=``); without one, from all its values: a response time is never shorter than the
times within it, and an epoch in milliseconds is no duration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.model.formatting import counted, listed
from sojourn.readers.formats import catalogue
from sojourn.readers.formats.columns import DURATION, SECONDS, Column, columns_of
from sojourn.readers.formats.line_format import ASSUMED, LIKELY, SURE, LineFormat
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.template import QUOTED
from sojourn.readers.formats.whole_numbers import whole_number_format

MAJORITY, FEW = 0.5, 0.1
ONE_SIDED = 10  # times as many lines
CONTRADICTED = 0.05  # of the lines
ROUNDING_S = 0.002  # of two durations that nginx cut to the millisecond
LONGEST_CONNECT_S = 0.005
CONNECT_SHARE = 0.1  # of the upstream's response time
MANY_LINES, FEW_ADDRESSES = 20, 0.5  # addresses that differ from line to line are the clients'
_BEGIN = re.compile(
    rf"(?P<host>[^\s:]+:\d+ )?(?P<begin>\S+ \S+ .{{0,200}}?\[(?P<stamp>\d\d/\w{{3}}/\d{{4}}:[\d:]{{8}} [+-]\d{{4}})\] "
    rf'"{QUOTED}" (?:\d{{3}}|-) (?P<size>\d+|-))(?P<combined> "{QUOTED}" "{QUOTED}")?(?P<rest>.*)$',
    re.DOTALL,
)
_LABELS = {
    "request_time": ("rt", "request_time", "req_time", "reqtime", "request-time", "t", "time"),
    "upstream_connect_time": ("uct", "upstream_connect_time", "connect_time"),
    "upstream_header_time": ("uht", "upstream_header_time", "header_time"),
    "upstream_response_time": (
        "urt", "upstream_response_time", "ups_resp_time", "upstream_time", "uresp", "response_time",
    ),
    "upstream_addr": ("ua", "upstream_addr", "upstream", "backend"),
    "upstream_status": ("us", "upstream_status"),
    "request_id": ("rid", "request_id", "req_id", "id"),
    "request_length": ("rl", "request_length"),
    "msec": ("msec",),
    "host": ("host", "vhost"),
}  # fmt: skip
_MEANING = {label: variable for variable, labels in _LABELS.items() for label in labels}
_VAGUE = ("t", "time", "response_time", "upstream_time", "connect_time", "header_time")
_EPOCH = re.compile(r"\d{10}\.\d{3}")
_ADDRESS = r"(?:[\d.]+:\d+|\[[0-9a-f:]+\]:\d+|unix:[^\s,]+)"
_ADDRESSES = re.compile(rf"(?:-|{_ADDRESS}(?:(?:, | : ){_ADDRESS})*)")
_BACKENDS = re.compile(r"[\w.:\[\]-]+(?:(?:, | : )[\w.:\[\]-]+)*|unix:\S+")
_STATUSES = re.compile(r"(?:\d{3}|-)(?:(?:, | : )(?:\d{3}|-))*")
_IDENTIFIER = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}")
_FORMS = {"msec": _EPOCH, "upstream_addr": _BACKENDS, "upstream_status": _STATUSES}
_UPSTREAM = ("upstream_connect_time", "upstream_header_time", "upstream_response_time")


def appended_format(lines: Sequence[str]) -> LineFormat | None:
    """Return the format of lines that begin as the common or combined format; None if most do not."""
    begins = [match for line in lines if (match := _BEGIN.match(line))]
    if len(begins) <= MAJORITY * len(lines):
        return None
    combined = sum(match["combined"] is not None for match in begins) > MAJORITY * len(begins)
    vhost = sum(match["host"] is not None for match in begins) > MAJORITY * len(begins)
    alike = [m for m in begins if (m["combined"] is not None) == combined and (m["host"] is not None) == vhost]
    # A log whose format was changed has lines of the old one.
    longer = [match for match in alike if match["rest"].strip()]
    alike = longer if len(longer) >= FEW * len(alike) else alike
    columns, numbers = columns_of([match["rest"].rstrip() for match in alike])
    stamped = [(alike[number]["stamp"], alike[number]["size"]) for number in numbers]
    whole = None
    if not any(_labelled(column).endswith("_time") for column in columns):
        whole = whole_number_format(columns, stamped, combined=combined, vhost=vhost)
    return whole or _nginx(columns, combined=combined, vhost=vhost)


def _nginx(columns: Sequence[Column], *, combined: bool, vhost: bool) -> LineFormat:
    meanings, doubts = _meanings(columns)
    recognised = [f"${name}" for name in meanings if name and not name.startswith("column_")]
    text = ("$server_name:$server_port " if vhost else "") + (catalogue.COMBINED if combined else catalogue.COMMON)
    for column, name in zip(columns, meanings, strict=True):
        text += f"{column.before}${{{name}}}{column.after}"
    base = "combined" if combined else "common"
    if not recognised:
        title = f"the {base} format of nginx, Apache and gunicorn"
        return LineFormat(base, title, tuple(nginx_parts(text)), lists=True)
    labelled = all(
        _labelled(column) and column.name not in _VAGUE
        for column, name in zip(columns, meanings, strict=True)
        if f"${name}" in recognised
    )
    title = f"nginx's {base} format with {listed(recognised)}"
    return LineFormat(
        re.sub(r"\$\{(\w+)\}(?!\w)", r"$\1", text), title, tuple(nginx_parts(text)),
        certainty=ASSUMED if doubts else SURE if labelled else LIKELY, lists=True,
        notes=(*doubts, *_unread(columns, meanings)),
    )  # fmt: skip


def _meanings(columns: Sequence[Column]) -> tuple[list[str], list[str]]:
    """Return the variable of each column, column_1 and so on where it is unknown, and sentences of what is doubtful."""
    names = [_labelled(column) for column in columns]
    if "request_time" not in names:  # the only response time of a line is that of the request
        names = ["request_time" if column.name == "response_time" else name
                 for column, name in zip(columns, names, strict=True)]  # fmt: skip
    free = [k for k, name in enumerate(names) if not name]
    for k in free:
        column = columns[k]
        for pattern, variable in ((_EPOCH, "msec"), (_ADDRESSES, "upstream_addr"), (_IDENTIFIER, "request_id")):
            if variable not in names and column.all(pattern) and any(value != "-" for value in column.values):
                names[k] = variable if variable != "upstream_addr" or _few(column) else ""
                break
    doubts = _name_durations(columns, names)
    doubts += _contradictions(columns, names)
    return [name or f"column_{k}" for k, name in enumerate(names, 1)], doubts


def _labelled(column: Column) -> str:
    """Return the variable that the label of a column names; empty if it has none, or its values are of another kind."""
    name = _MEANING.get(column.name, "") if column.label else ""
    form = DURATION if name.endswith("_time") else _FORMS.get(name)
    return name if form is None or column.all(form) else ""


def _few(column: Column) -> bool:
    """Return whether the values of a column are few, as addresses of backends are."""
    values = [value for value in column.values if value != "-"]
    return len(values) < MANY_LINES or len(set(values)) <= FEW_ADDRESSES * len(values)


def _name_durations(columns: Sequence[Column], names: list[str]) -> list[str]:
    """Name the durations without a label, and return sentences of what is assumed.

    The longest is the response time, those within it are the upstream's.
    """
    doubts = []
    free = [k for k, name in enumerate(names) if not name and columns[k].all(SECONDS)]
    free = [k for k in free if any(value != "-" for value in columns[k].values)]
    if "request_time" not in names and free:
        longest = _longest([k for k in free if columns[k].always], columns)
        for k in longest[:1]:
            names[k] = "request_time"
            free.remove(k)
        if len(longest) > 1:
            numbers = " and ".join(str(k + 1) for k in longest)
            doubts.append(
                f"Its values {numbers} differ by no more than rounding in the first lines: "
                "the first is taken as $request_time."
            )
    missing = [name for name in _UPSTREAM if name not in names]
    # Each includes the one before it.
    free.sort(key=lambda k: (columns[k].sum, k))
    if len(free) == 2 and missing == list(_UPSTREAM) and _is_connect(*(columns[k] for k in free)):
        missing.remove("upstream_header_time")
        doubts.append(
            f"Its value {free[0] + 1} is taken as $upstream_connect_time, for it is short: "
            "give --log-format if it is $upstream_header_time."
        )
    for k, name in zip(reversed(free), reversed(missing), strict=False):
        names[k] = name
    return doubts


def _longest(free: Sequence[int], columns: Sequence[Column]) -> list[int]:
    """Return the columns that no other one exceeds by more than rounding; a list of attempts is part of a request."""
    single = [k for k in free if not columns[k].has_several] or list(free)

    return [k for k in single if not any(_exceeds(columns[other], columns[k]) for other in single)]


def _exceeds(column: Column, other: Column) -> bool:
    """Return whether a duration is longer than another: by more than rounding in some lines, or in nearly all."""
    more = [a - b for a, b in zip(column.seconds, other.seconds, strict=True) if a is not None and b is not None]
    if any(abs(each) > ROUNDING_S for each in more):
        return column.sum > other.sum
    return sum(each > 0 for each in more) > ONE_SIDED * sum(each < 0 for each in more)


def _is_connect(shorter: Column, longer: Column) -> bool:
    values = sorted(value or 0.0 for value in shorter.seconds)
    return values[len(values) // 2] <= LONGEST_CONNECT_S and shorter.sum <= CONNECT_SHARE * longer.sum


def _contradictions(columns: Sequence[Column], names: Sequence[str]) -> list[str]:
    """Return sentences of durations that are longer than the response time they should be a part of."""
    if "request_time" not in names:
        return []
    whole = columns[names.index("request_time")].seconds
    sentences = []
    for name in _UPSTREAM:
        if name in names:
            parts = columns[names.index(name)].seconds
            longer = sum(part > time + ROUNDING_S for part, time in zip(parts, whole, strict=True) if part and time)
            if longer > CONTRADICTED * len(whole):
                sentences.append(
                    f"${name} is longer than $request_time in {longer} of the first {counted(len(whole), 'line')}: "
                    "give --log-format if they are something else."
                )
    return sentences


def _unread(columns: Sequence[Column], names: Sequence[str]) -> list[str]:
    """Return a sentence on a value that may be the upstream's time, but is - in every line."""
    if "request_time" not in names or any(name in names for name in _UPSTREAM):
        return []
    timed = columns[names.index("request_time")]
    for k, column in enumerate(columns):
        if set(column.values) == {"-"} and (column.opening, column.after) == (timed.opening, timed.after):
            return [f"Its value {k + 1} is - in the first lines and is not read: "
                    "give --log-format if it is $upstream_response_time."]  # fmt: skip
    return []
