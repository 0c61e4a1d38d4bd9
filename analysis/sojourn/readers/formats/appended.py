"""The common or combined format with values appended to it, whose meaning follows from labels, forms and sizes.

nginx users append ``$request_time`` and ``$upstream_…_time`` in every order, with and without names. What a value is
follows from its label (``rt=``, ``urt=``); without one, from all its values: a response time is never shorter than the
times within it, and an epoch in milliseconds is no duration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sojourn.readers.formats import catalogue
from sojourn.readers.formats.apache import apache_parts
from sojourn.readers.formats.line_format import LIKELY, SURE, LineFormat
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.template import QUOTED

MAJORITY = 0.5
DAMAGED = 0.01
_SECONDS = r"(?:-|\d+\.\d{3})(?:(?:, | : )(?:-|\d+\.\d{3}))*"
_TOKEN = re.compile(
    rf'(?P<blank>\s+)(?P<label>[A-Za-z_][\w.-]*(?:=|: ))?(?P<open>["\[]?)'
    rf'(?P<value>{_SECONDS}(?=["\]\s]|$)|(?<="){QUOTED}(?=")|(?<=\[)[^\]]*(?=\])'
    r'|[^\s"\[\]]+(?:(?:, | : )[^\s"\[\]]+)*|(?<=")(?=")|(?<=\[)(?=\]))'
    r'(?P<close>["\]]?)'
)
_BEGIN = re.compile(
    rf'(?P<host>[^\s:]+:\d+ )?(?P<begin>\S+ \S+ .{{0,200}}?\[\d\d/\w{{3}}/\d{{4}}:[\d:]{{8}} [+-]\d{{4}}\] "{QUOTED}" '
    rf'(?:\d{{3}}|-) (?:\d+|-))(?P<combined> "{QUOTED}" "{QUOTED}")?(?P<rest>.*)$',
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
_EPOCH = re.compile(r"\d{10}\.\d{3}")
_DURATION = re.compile(_SECONDS)
_WHOLE = re.compile(r"\d+")
_ADDRESS = r"(?:[\d.]+:\d+|\[[0-9a-f:]+\]:\d+|unix:[^\s,]+)"
_ADDRESSES = re.compile(rf"(?:-|{_ADDRESS}(?:(?:, | : ){_ADDRESS})*)")
_IDENTIFIER = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f-]{27}")


@dataclass
class Column:
    """A value appended to the combined format: the text before it, its label, and what follows from its values."""

    before: str
    label: str
    after: str
    values: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The label without its sign."""
        return self.label.rstrip("=: ").lower()

    def all(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the values match; a line in a hundred may be damaged."""
        return sum(pattern.fullmatch(value) is None for value in self.values) <= DAMAGED * len(self.values)

    @property
    def seconds(self) -> list[float | None]:
        """The sum of the durations of each value; None for -."""
        return [_total(value) for value in self.values]


def appended_format(lines: Sequence[str]) -> LineFormat | None:
    """Return the format of lines that begin as the common or combined format; None if most do not."""
    begins = [match for line in lines if (match := _BEGIN.match(line))]
    if len(begins) <= MAJORITY * len(lines):
        return None
    combined = sum(match["combined"] is not None for match in begins) > MAJORITY * len(begins)
    vhost = sum(match["host"] is not None for match in begins) > MAJORITY * len(begins)
    rests = [
        match["rest"].rstrip()
        for match in begins
        if (match["combined"] is not None) == combined and (match["host"] is not None) == vhost
    ]
    columns = _columns(rests)
    if columns is not None and _of_apache(columns):
        return _apache(columns, combined=combined, vhost=vhost)
    return _nginx(columns or [], combined=combined, vhost=vhost)


def _columns(rests: Sequence[str]) -> list[Column] | None:
    """Return the columns of what is appended; None where the lines are not alike."""
    split = [list(_TOKEN.finditer(rest)) for rest in rests]
    whole = [tokens for tokens, rest in zip(split, rests, strict=True) if "".join(t[0] for t in tokens) == rest]
    if not whole:
        return None
    shapes = [tuple((t["blank"], t["label"] or "", t["open"], t["close"]) for t in tokens) for tokens in whole]
    shape = max(set(shapes), key=shapes.count)
    if shapes.count(shape) <= MAJORITY * len(rests):
        return None
    columns = [Column(blank + label + begin, label, end) for blank, label, begin, end in shape]
    for tokens, form in zip(whole, shapes, strict=True):
        if form == shape:
            for column, token in zip(columns, tokens, strict=True):
                column.values.append(token["value"])
    return columns


def _total(value: str) -> float | None:
    parts = [part for part in re.split(", | : ", value) if _DURATION.fullmatch(part) and part != "-"]
    return sum(map(float, parts)) if parts else None


def _of_apache(columns: Sequence[Column]) -> bool:
    """Return whether the last value is a whole number and none is a number of seconds, as nginx writes them."""
    return bool(columns) and columns[-1].all(_WHOLE) and not any(column.all(_DURATION) for column in columns)


def _apache(columns: Sequence[Column], *, combined: bool, vhost: bool) -> LineFormat:
    values = [int(value) for value in columns[-1].values]
    # Responses of seconds in microseconds have six digits and more; in seconds, hardly two.
    unit, title = ("%D", "µs") if sorted(values)[len(values) // 2] >= 100 else ("%T", "s")
    text = '%h %l %u %t "%r" %>s %b' + (' "%{Referer}i" "%{User-Agent}i"' if combined else "")
    text += "".join(f"{column.before}%{{column_{k}}}i{column.after}" for k, column in enumerate(columns[:-1], 1))
    text = ("%v:%p " if vhost else "") + text + columns[-1].before + unit + columns[-1].after
    note = f"Its last number is taken as Apache's {unit}, the response time in {title}. Give --log-format if it is not."
    return LineFormat(text, f"Apache's format with {unit}", tuple(apache_parts(text)), certainty=LIKELY, notes=(
        note, "Its stamps are of the beginning of a request; the end is computed from the response time."))  # fmt: skip


def _nginx(columns: Sequence[Column], *, combined: bool, vhost: bool) -> LineFormat:
    meanings = _meanings(columns)
    known = [f"${name}" for name in meanings if name and not name.startswith("column_")]
    text = ("$server_name:$server_port " if vhost else "") + (catalogue.COMBINED if combined else catalogue.COMMON)
    for column, name in zip(columns, meanings, strict=True):
        text += f"{column.before}${{{name}}}{column.after}"
    base = "combined" if combined else "common"
    if not known:
        title = f"the {base} format of nginx, Apache and gunicorn"
        return LineFormat(base, title, tuple(nginx_parts(text)), lists=True)
    labelled = all(_labelled(column) for column, name in zip(columns, meanings, strict=True) if f"${name}" in known)
    title = f"nginx's {base} format with {_listed(known)}"
    return LineFormat(
        re.sub(r"\$\{(\w+)\}", r"$\1", text), title, tuple(nginx_parts(text)),
        certainty=SURE if labelled else LIKELY, lists=True,
    )  # fmt: skip


def _meanings(columns: Sequence[Column]) -> list[str]:
    """Return the variable of each column; column_1 and so on where it is unknown."""
    names = [_labelled(column) for column in columns]
    free = [k for k, name in enumerate(names) if not name]
    for k in free:
        column = columns[k]
        for pattern, variable in ((_EPOCH, "msec"), (_ADDRESSES, "upstream_addr"), (_IDENTIFIER, "request_id")):
            if variable not in names and column.all(pattern) and any(value != "-" for value in column.values):
                names[k] = variable
                break
    _name_durations(columns, names)
    return [name or f"column_{k}" for k, name in enumerate(names, 1)]


def _labelled(column: Column) -> str:
    """Return the variable that the label of a column names; empty if it has none, or its values are of another kind."""
    name = _MEANING.get(column.name, "") if column.label else ""
    fits = column.all(_DURATION) if name.endswith("_time") else column.all(_EPOCH) if name == "msec" else True
    return name if fits else ""


def _name_durations(columns: Sequence[Column], names: list[str]) -> None:
    """Name the durations without a label: the longest is the response time, those within it are the upstream's."""
    free = [k for k, name in enumerate(names) if not name and columns[k].all(_DURATION)]
    free = [k for k in free if any(value != "-" for value in columns[k].values)]
    if "request_time" not in names and free:
        always = [k for k in free if columns[k].seconds.count(None) <= DAMAGED * len(columns[k].values)]
        if always:
            longest = max(always, key=lambda k: (_sum(columns[k]), -k))
            names[longest] = "request_time"
            free.remove(longest)
    upstream = ["upstream_connect_time", "upstream_header_time", "upstream_response_time"]
    missing = [name for name in upstream if name not in names]
    # Each includes the one before it.
    free.sort(key=lambda k: (_sum(columns[k]), k))
    for k, name in zip(reversed(free), reversed(missing), strict=False):
        names[k] = name


def _sum(column: Column) -> float:
    return round(sum(value or 0.0 for value in column.seconds), 6)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
