"""The common or combined format with values appended to it, whose meaning follows from labels, forms and sizes.

nginx users append ``$request_time`` and ``$upstream_…_time`` in every order, with and without names. What a value is
follows from its label (``rt=``, ``urt=``); without one, from all its values: a response time is never shorter than the
times within it, and an epoch in milliseconds is no duration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sojourn.model.formatting import counted, listed
from sojourn.readers.formats import catalogue, nginx
from sojourn.readers.formats.behaviour import Context, depends_on_nothing
from sojourn.readers.formats.columns import DURATION, SECONDS, SIGNS, Column, columns_of
from sojourn.readers.formats.line_format import ASSUMED, LIKELY, SURE, LineFormat
from sojourn.readers.formats.line_time import instant
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.roles import role_of
from sojourn.readers.formats.template import QUOTED, Part, Variable
from sojourn.readers.formats.unit_guess import Guess, Instants, part_unit, taken_as
from sojourn.readers.formats.whole_numbers import refused_number, whole_number_format

MAJORITY, FEW = 0.5, 0.1
ONE_SIDED = 10  # times as many lines
CONTRADICTED = 0.05  # of the lines
ROUNDING_S = 0.002  # of two durations that nginx cut to the millisecond
LONGEST_CONNECT_S = 0.005
CONNECT_SHARE = 0.1  # of the upstream's response time
MANY_LINES, FEW_ADDRESSES = 20, 0.5  # addresses that differ from line to line are the clients'
_BEGIN = re.compile(
    rf"(?P<host>[^\s:]+:\d+ )?(?P<begin>\S+ \S+ .{{0,200}}?\[(?P<stamp>\d\d/\w{{3}}/\d{{4}}:[\d:]{{8}} [+-]\d{{4}})\] "
    rf'"(?P<request>{QUOTED})" (?:\d{{3}}|-) (?P<size>\d+|-))(?P<combined> "{QUOTED}" "{QUOTED}")?(?P<rest>.*)$',
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
# Field of a duration -> the variable of nginx.
VARIABLE_OF = {
    "request_time": "request_time", "response": "upstream_response_time", "header": "upstream_header_time",
    "connect": "upstream_connect_time",
}  # fmt: skip
_ATTEMPTS = r"[^ ]*(?:(?:, | : )[^ ]+)*"
GLUED = "(?:ms|us|µs|ns)"
_VAGUE = ("t", "time", "response_time", "upstream_time", "connect_time", "header_time")
_EPOCH = re.compile(r"\d{10}\.\d{3}")
_ADDRESS = r"(?:[\d.]+:\d+|\[[0-9a-f:]+\]:\d+|unix:[^\s,]+)"
_ADDRESSES = re.compile(rf"(?:-|{_ADDRESS}(?:(?:, | : ){_ADDRESS})*)")
_BACKENDS = re.compile(r"[\w.:\[\]-]+(?:(?:, | : )[\w.:\[\]-]+)*|unix:\S+")
_STATUSES = re.compile(r"(?:[1-5]\d\d|-)(?:(?:, | : )(?:[1-5]\d\d|-))*")
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
    begun = [alike[number] for number in numbers]
    context = [Context(instant(m["stamp"], "clf"), _client(m), int(m["size"].replace("-", "0"))) for m in begun]
    whole = None
    if not any(_labelled(column).endswith("_time") for column in columns):
        whole = whole_number_format(columns, context, combined=combined, vhost=vhost)
    return whole or _nginx(columns, context, combined=combined, vhost=vhost)


def _client(match: re.Match[str]) -> str:
    return f"{match['begin'].split(' ')[0]}{match['request']}{match['combined'] or ''}"


def _nginx(columns: Sequence[Column], lines: Sequence[Context], *, combined: bool, vhost: bool) -> LineFormat:
    meanings, doubts = meanings_of(columns)
    base = "combined" if combined else "common"
    text = ("$server_name:$server_port " if vhost else "") + (catalogue.COMBINED if combined else catalogue.COMMON)
    if all(name.startswith("column_") for name in meanings):
        title = f"the {base} format of nginx, Apache and gunicorn"
        why = refused_number(columns, lines)
        text += "".join(each.before + f"${{{name}}}" + each.after for each, name in zip(columns, meanings, strict=True))
        return LineFormat(base, title, listing(nginx_parts(text)), lists=True, notes=(why,) if why else ())
    return columns_format(text, f"nginx's {base} format", columns, meanings, doubts, lines)


def columns_format(
    text: str, base: str, columns: Sequence[Column], meanings: Sequence[str], doubts: Sequence[str],
    lines: Sequence[Context],
) -> LineFormat:  # fmt: skip
    """Return the format of columns behind a text.

    Args:
        text: of nginx's language, before the columns.
        base: what the text is, for people.
        columns: behind it.
        meanings: the variable of each column.
        doubts: sentences on what is assumed.
        lines: what else each line has; the instants are those of the end of the request.
    """
    recognised = [f"${name}" for name in meanings if name and not name.startswith("column_")]
    guesses = _units(columns, meanings, Instants([line.instant for line in lines]))
    for column, name in zip(columns, meanings, strict=True):
        guess = guesses.get(name)
        unit = f"={guess.unit}" if guess is not None and guess.unit != "s" else ""
        after = column.after
        if unit and (glued := re.match(GLUED, after)):
            after = after[glued.end() :]
        text += f"{column.before}${{{name}}}{unit}{after}"
    labelled = all(
        _labelled(column) and column.name not in _VAGUE
        for column, name in zip(columns, meanings, strict=True)
        if f"${name}" in recognised
    )
    written = {name for column, name in zip(columns, meanings, strict=True) if column.unit}
    notes = [taken_as(f"${name}", name, guess) for name, guess in guesses.items()
             if name not in written and (not guess.certain or guess.unit != "s")]  # fmt: skip
    whole = guesses.get("request_time")
    units = {nginx.FIELDS[name].name: guess.unit for name, guess in guesses.items()}
    unlike, no_time = _unlike_a_time(columns, meanings, lines)
    return LineFormat(
        re.sub(r"\$\{(\w+)\}(?!\w)", r"$\1", text), f"{base} with {listed(recognised)}",
        listing(nginx_parts(re.sub(r"(\$\{\w+\})=(?:ms|us|ns)(?!\w)", r"\1", text)), units),
        certainty=ASSUMED if doubts or notes or unlike else SURE if labelled else LIKELY,
        lists=all(unit == "s" for name, unit in units.items() if name in ("connect", "header", "response")),
        notes=(*doubts, *unlike, *_unread(columns, meanings)), unit_notes=tuple(notes),
        alternative=(whole.doubt("$request_time") if whole else "") or no_time,
    )  # fmt: skip


def _unlike_a_time(
    columns: Sequence[Column], meanings: Sequence[str], lines: Sequence[Context]
) -> tuple[list[str], str]:
    """Return a sentence on a value that only its form shows to be $request_time, and a clause of its doubt.

    A label, a unit, or another duration beside it say that it is one. Both are empty where values behave like times.
    """
    names = [name for name in meanings if name.endswith("_time")]
    k = meanings.index("request_time") if names == ["request_time"] else -1
    if k < 0 or columns[k].name or columns[k].unit:
        return [], ""
    pairs = [(value, line) for value, line in zip(columns[k].seconds, lines, strict=True) if value is not None]
    if not depends_on_nothing([round(value * 1000) for value, _ in pairs], [line for _, line in pairs]):
        return [], ""
    which = "last value" if k == len(columns) - 1 else f"value {k + 1}"
    sentence = (
        f"Its {which} is taken as $request_time by its form alone: it depends on nothing that a duration depends on. "
        "Give --log-format."
    )
    return [sentence], f"no time at all if its {which} is not $request_time"


def _units(columns: Sequence[Column], meanings: Sequence[str], instants: Instants) -> dict[str, Guess]:
    """Return the unit of each duration."""
    guesses: dict[str, Guess] = {}
    whole: tuple[list[str], str] | None = None
    timed = [(column, name) for column, name in zip(columns, meanings, strict=True) if name.endswith("_time")]
    for column, name in sorted(timed, key=lambda pair: pair[1] != "request_time"):
        guess = Guess(column.unit) if column.unit else part_unit(column.values, instants, whole, by_nginx=True)
        guesses[name] = guess or Guess("s")
        if name == "request_time":
            whole = (column.values, guesses[name].unit)
    return guesses


def listing(parts: Sequence[Part], units: Mapping[str, str] | None = None) -> tuple[Part, ...]:
    """Return parts whose own columns may hold the lists of attempts, with other units of durations."""
    result: list[Part] = []
    for k, part in enumerate(parts):
        if not isinstance(part, Variable):
            result.append(part)
            continue
        field = part.field
        before = parts[k - 1] if k else ""
        enclosed = isinstance(before, str) and before.endswith(('"', "[", *SIGNS))
        if field.name.startswith("column_") and not enclosed:
            field = replace(field, pattern=_ATTEMPTS)
        unit = (units or {}).get(field.name, field.unit)
        if field.unit and unit != field.unit:
            field = replace(field, unit=unit, pattern=r"(?:-|[0-9.]+(?:ms|us|µs|ns|s)?)")
        result.append(replace(part, field=field))
    return tuple(result)


def meanings_of(columns: Sequence[Column], settled: Mapping[int, str] | None = None) -> tuple[list[str], list[str]]:
    """Return the variable of each column, column_1 and so on where it is unknown, and sentences of what is doubtful.

    ``settled``: number of a column -> its variable, of those whose meaning is clear.
    """
    names = [(settled or {}).get(k, "") or _labelled(column) for k, column in enumerate(columns)]
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
    _name_statuses(columns, names)
    doubts = _name_durations(columns, names)
    doubts += _contradictions(columns, names)
    return [name or f"column_{k}" for k, name in enumerate(names, 1)], doubts


def _name_statuses(columns: Sequence[Column], names: list[str]) -> None:
    """Name $upstream_status: statuses behind the address of the backend, or lists of them."""
    for k, column in enumerate(columns):
        if names[k] or "upstream_status" in names or not column.all(_STATUSES):
            continue
        if any(value != "-" for value in column.values) and ("upstream_addr" in names[:k] or column.has_several):
            names[k] = "upstream_status"


def _labelled(column: Column) -> str:
    """Return the variable that the label of a column names; empty if it has none, or its values are of another kind."""
    name = _MEANING.get(column.name, "") if column.label else ""
    if column.label and not name and (role := role_of(column.name)) and column.name not in _VAGUE:
        name = VARIABLE_OF.get(role.field, "")
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
    free = [k for k, name in enumerate(names) if not name and (columns[k].all(SECONDS) or columns[k].unit)]
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
