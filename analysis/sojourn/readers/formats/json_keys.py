"""The fields of lines of keys and values (JSON, LTSV, logfmt), by the names of the keys and their values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from sojourn.readers.formats import catalogue
from sojourn.readers.formats.behaviour import DAY_S
from sojourn.readers.formats.fields import CLF, Field
from sojourn.readers.formats.line_format import ASSUMED, LIKELY, LineFormat
from sojourn.readers.formats.line_time import instant
from sojourn.readers.formats.roles import Role, is_reserved, role_of
from sojourn.readers.formats.template import joined_path, leaves_of, path_keys
from sojourn.readers.formats.unit_guess import Guess, Instants, part_unit, taken_as

DAMAGED = 0.01
DEPTH = 3  # of nested objects whose keys are looked at
ALWAYS = ("ServiceURL",)  # Traefik leaves it out where it answers a request itself
OF_APP = ("queueing_delay", "service_time")  # the app's own headers, in seconds whatever the proxy's format is
SMALLEST_NS = 100_000  # of a request; a median of that many ms is not plausible
_CLF = re.compile(rf"\[?{CLF}\]?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:]{8}([.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_DECIMAL, _THIRTEEN = re.compile(r"\d{9,11}(?:\.\d+)?"), re.compile(r"\d{13}")
_SIXTEEN, _NINETEEN = re.compile(r"\d{16}"), re.compile(r"\d{19}")
_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|s)")
# The first of these that holds instants is the stamp.
_STAMPS = ("msec", "time_msec", "ts", "timestamp", "@timestamp", "time_iso8601", "time_local", "time", "date")
_TIMES = ("request_time", "response", "header", "connect", "proxy_queue", "service_time")
_PARTS = ("response", "header", "connect", "proxy_queue")
# Keys by which logs of an app show that the app wrote them: of Rails (lograge), of pino and bunyan for Node.
_OF_AN_APP = (frozenset(("controller", "action")), frozenset(("pid", "level", "req", "res")))
WHOLE_SECONDS = " It counts whole seconds, so shorter responses are 0."

Objects = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Keyed:
    """How keys and values are written in a line.

    Attributes:
        name: of the format.
        title: the format, for people.
        sign: between a key and its value (see ``LineFormat.pairs``); empty: JSON.
    """

    name: str = "json"
    title: str = "JSON lines"
    sign: str = ""


def occurring_keys(name: str, objects: Objects) -> LineFormat:
    """Return the format of that name with the paths that occur in these objects, be it with null."""
    log = catalogue.format_by_name(name)
    pairs = [
        (path, field)
        for path, field in zip(log.paths, log.fields, strict=True)
        if path in ALWAYS or any(_has(value, path_keys(path)) for value in objects)
    ]
    return replace(log, paths=tuple(path for path, _ in pairs), fields=tuple(field for _, field in pairs))


def caddy_keys(objects: Objects) -> LineFormat:
    """Return Caddy's format with the paths, the clock (``time_format``) and the unit (``duration_format``) it has."""
    log = occurring_keys("caddy", objects)
    clock = clock_of([value.get("ts") for value in objects])
    whole = [value for each in objects if isinstance(value := each.get("duration"), int)]
    unit = "s" if len(whole) < (1 - DAMAGED) * len(objects) else "ms" if median(whole) < SMALLEST_NS else "ns"
    fields = [
        replace(field, unit=clock or field.unit) if field.name == "end"
        else replace(field, unit=unit) if field.unit == "s" and field.name not in OF_APP else field
        for field in log.fields
    ]  # fmt: skip
    if unit == "s":
        return replace(log, fields=tuple(fields))
    note = f"Its durations are whole numbers, which are taken as {unit} (duration_format)."
    return replace(log, fields=tuple(fields), certainty=LIKELY, notes=(*log.notes, note))


def cloudflare_keys(objects: Objects) -> LineFormat:
    """Return Cloudflare's format with the paths and the clock it has.

    The response time is between its two instants where these are finer than a second, and else that to the first byte.
    """
    log = occurring_keys("cloudflare", objects)
    clocks = {
        path: clock_of([value.get(path) for value in objects]) for path in log.paths if path.endswith("Timestamp")
    }
    is_fine = len(clocks) == 2 and all(
        clock in ("iso_ms", "iso_us", "ms", "us", "ns", "s") for clock in clocks.values()
    )
    fields = {
        path: replace(field, unit=clocks.get(path) or field.unit)
        for path, field in zip(log.paths, log.fields, strict=True)
    }
    if is_fine:
        fields.pop("EdgeTimeToFirstByteMs", None)
    elif "EdgeEndTimestamp" in fields:
        fields.pop("EdgeStartTimestamp", None)
    notes = () if is_fine else ("Its response time is that to the first byte: EdgeTimeToFirstByteMs.",)
    return replace(log, paths=tuple(fields), fields=tuple(fields.values()), notes=notes)


def keyed_format(
    objects: Objects, units: Mapping[str, str] | None = None, how: Keyed | None = None
) -> LineFormat | None:
    """Return the format of lines of keys and values; None if no time, or no status, is among them.

    Args:
        objects: the decoded lines.
        units: key, or name of a field -> unit, as the user gave it.
        how: how the lines are written; None: as JSON.
    """
    how = how or Keyed()
    columns = _columns(objects)
    roles = _roles(columns)
    fields, times = _recognised(columns, roles, units or {})
    is_of_app = _is_of_app(columns)
    if is_of_app:
        fields = {path: replace(field, name="service_time") if field.name == "request_time" else field
                  for path, field in fields.items()}  # fmt: skip
    names = {field.name for field in fields.values()}
    timed = names & {"request_time", "service_time"}
    if not (names & {"status"} or timed) or not (names & {"end", "start"} or timed):
        return None
    fields |= {path: Field(path[0]) for path in columns if path not in fields and _may_be_own(path)}
    in_seconds = all(field.unit in ("", "s") for field in fields.values() if field.name in _PARTS)
    by_nginx = any(role.exact and role.field in (*_PARTS, "upstream_addr", "request_time") for role in roles.values())
    whose = " of an app" if is_of_app else " of nginx's variables" if by_nginx else ""
    uris = (text for path, role in roles.items() if role.field == "uri" for text in _texts(columns[path]))
    return LineFormat(
        how.name, how.title + whose, paths=tuple(joined_path(path) for path in fields), fields=tuple(fields.values()),
        lists=in_seconds, pairs=how.sign, certainty=LIKELY if times.certain else ASSUMED,
        notes=(catalogue.OF_APP_ALONE,) if is_of_app else (),
        unit_notes=times.notes, alternative=times.alternative, url=any("://" in text for text in uris),
    )  # fmt: skip


Path = tuple[str, ...]
Columns = Mapping[Path, Sequence[object]]


def _columns(objects: Objects) -> Columns:
    """Return path -> values (None where an object has none), of the paths that most objects have."""
    counts: dict[Path, int] = {}
    flat = [dict(leaves_of(each, DEPTH)) for each in objects]
    for each in flat:
        for path in each:
            counts[path] = counts.get(path, 0) + 1
    # A column is selected without regard to case, so the first of two spellings is the only one.
    paths: dict[str, Path] = {}
    for path, count in sorted(counts.items(), key=lambda item: len(item[0])):
        if count > 0.5 * len(objects):
            paths.setdefault(joined_path(path).lower(), path)
    return {path: [each.get(path) for each in flat] for path in paths.values()}


def keyed_fields(objects: Objects) -> dict[str, Field]:
    """Return path -> field of the keys whose names say what they hold."""
    columns = _columns(objects)
    fields, _ = _recognised(columns, _roles(columns), {})
    return {joined_path(path): field for path, field in fields.items()}


def _recognised(
    columns: Columns, roles: Mapping[Path, Role], units: Mapping[str, str]
) -> tuple[dict[Path, Field], _Times]:
    """Return the fields of the keys with a role, and what is assumed of their durations."""
    fields = {path: Field(role.field, role.unit) for path, role in roles.items() if role.field not in _TIMES}
    stamp = _stamp(columns, roles)
    of_app = {"request_time": "ms"} if _is_of_app(columns) else {}
    times = _durations(columns, roles, _instants(columns, stamp), {**of_app, **units})
    return fields | stamp | times.fields, times


def _is_of_app(columns: Columns) -> bool:
    top = {path[0] for path in columns}
    return any(each <= top for each in _OF_AN_APP)


def _may_be_own(path: Path) -> bool:
    return len(path) == 1 and not is_reserved(path[0])


def _texts(values: Sequence[object]) -> list[str]:
    """Return values as texts; empty where there is none."""
    return ["" if value in (None, "-") else str(value) for value in values]


def _fit(pattern: re.Pattern[str], values: Sequence[object]) -> bool:
    """Return whether values, of those there are, have a form; one in a hundred may be damaged."""
    texts = [text for text in _texts(values) if text]
    return bool(texts) and sum(pattern.fullmatch(text) is None for text in texts) <= DAMAGED * len(texts)


_FORMS = {
    "status": re.compile(r"\d{1,3}(?:\.0+)?"),
    "upstream_status": re.compile(r"\d{1,3}(?:(?:, | : )(?:\d{3}|-))*"),
    "upstream_addr": re.compile(r"[\w.:/\[\]-]+(?:(?:, | : )[\w.:/\[\]-]+)*"),
    "request": re.compile(r"[A-Z]+ \S.*|"),
    "method": re.compile(r"[A-Z]{3,10}"),
}
_DURATION = re.compile(r"-?\d+(?:\.\d+)?(?:[eE]-?\d+)?(?:ms|us|µs|ns|s)?(?:(?:, | : )(?:-|\d+(?:\.\d+)?))*")
_EPOCHS = {"s": 1.0, "whole_s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}  # clock -> its step, s
_EARLIEST, _LONGEST_S = 1e9, 100 * DAY_S  # unix s, and how long the first lines of a log may last
_VAGUE = (
    "code", "size", "id", "client", "backend", "us", "ua", "rt", "rl", "req", "bytes", "time", "date", "ts", "dur",
)  # fmt: skip


def _role(path: Path) -> Role | None:
    """Return the role of a path: of its keys together, or of the last one where that says enough."""
    names = [name for key in path for name in key.split(".") if name]
    whole = role_of("_".join(names))
    if whole is not None or len(names) < 2:
        return whole
    last = role_of(names[-1])
    allowed = ("status", "method", "uri", "upstream_addr", *_TIMES, "end", "start")
    return last if last is not None and last.field in allowed and names[-1].lower() not in _VAGUE else None


def _roles(columns: Columns) -> dict[Path, Role]:
    """Return the role of each path that has one: the best of several with the same."""
    best: dict[str, tuple[tuple[bool, int, float], Path, Role]] = {}
    for path, values in columns.items():
        role = _role(path)
        if role is None or role.field in ("end", "start") or not _is_of_role(role, path, values):
            continue
        numbers = [float(text) for text in _texts(values) if re.fullmatch(r"\d+(?:\.\d+)?", text)]
        rank = (not role.exact, len(path), -sum(numbers) if role.field in _TIMES else 0.0)
        if role.field not in best or rank < best[role.field][0]:
            best[role.field] = (rank, path, role)
    return {path: role for _, path, role in best.values()}


def _is_of_role(role: Role, path: Path, values: Sequence[object]) -> bool:
    if not any(_texts(values)):
        return role.exact
    if role.field in _TIMES:
        return _fit(_DURATION, values) and not _are_epochs(path, values)
    if role.field == "request_id" and path[-1].lower() in _VAGUE:
        texts = _texts(values)
        return len(set(texts)) == len(texts)
    form = _FORMS.get(role.field)
    return form is None or (role.exact and role.field != "status") or _fit(form, values)


def _stamp(columns: Columns, roles: Mapping[Path, Role]) -> dict[Path, Field]:
    """Return the path of the instant of the end, and of the beginning where the keys name one."""
    candidates = [path for path in columns if path not in roles]

    def rank(path: Path) -> tuple[int, int]:
        name = path[-1].lower()
        return len(path), _STAMPS.index(name) if name in _STAMPS else len(_STAMPS)

    clocks: dict[str, tuple[Path, Field]] = {}
    for path in sorted(candidates, key=rank):
        name = _stamp_name(path, columns[path])
        if name and name not in clocks and (clock := clock_of(columns[path])):
            clocks[name] = (path, Field(name, clock))
    return dict(clocks.values())


def _stamp_name(path: Path, values: Sequence[object]) -> str:
    """Return whether a path is the start or the end by its name, be it that of a duration; empty if it is neither."""
    role = _role(path)
    if role is None or role.field in ("end", "start"):
        return role.field if role else ""
    if role.field != "request_time" or _fit(_DURATION, values) != _are_epochs(path, values):
        return ""
    return "start" if path[-1].lower().startswith("req") else "end"


def _are_epochs(path: Path, values: Sequence[object]) -> bool:
    """Return whether numbers under the name of a time are instants of one log, in whatever unit, not durations."""
    texts = [text for text in _texts(values) if text]
    clock = clock_of(texts)
    if "time" not in path[-1].lower() or clock not in _EPOCHS or len(set(texts)) < 2:
        return False
    numbers = [float(text) * _EPOCHS[clock] for text in texts if re.fullmatch(r"\d+(?:\.\d+)?", text)]
    return min(numbers) > _EARLIEST and max(numbers) - min(numbers) < _LONGEST_S


def _instants(columns: Columns, stamp: Mapping[Path, Field]) -> Instants:
    by_name = {field.name: (path, field) for path, field in stamp.items()}
    path, field = by_name.get("end") or by_name.get("start") or (None, None)
    if path is None or field is None:
        return Instants([])
    return Instants([instant(text, field.unit) if text else None for text in _texts(columns[path])],
                    of_start=field.name == "start")  # fmt: skip


@dataclass(frozen=True)
class _Times:
    """Durations with their units, and what is assumed of these."""

    fields: dict[Path, Field]
    notes: tuple[str, ...]
    alternative: str
    certain: bool


def _durations(columns: Columns, roles: Mapping[Path, Role], instants: Instants, units: Mapping[str, str]) -> _Times:
    fields: dict[Path, Field] = {}
    notes: list[str] = []
    alternative, certain = "", True
    whole: tuple[list[str], str] | None = None
    ordered = sorted((path for path, role in roles.items() if role.field in _TIMES),
                     key=lambda path: _TIMES.index(roles[path].field))  # fmt: skip
    for path in ordered:
        role, key = roles[path], joined_path(path)
        texts, suffix = _numbers(columns[path])
        padded = replace(instants, values=instants.values or [None] * len(texts))
        chosen = units.get(key) or units.get(role.field) or suffix or role.unit
        guess = Guess(chosen) if chosen else part_unit(texts, padded, whole, by_nginx=role.exact)
        if guess is None:
            continue
        fields[path] = Field(role.field, guess.unit)
        if role.field == "request_time":
            whole, alternative = (texts, guess.unit), guess.doubt(key)
        in_whole_seconds = guess.unit == "s" and all(text.isdigit() for text in texts if text)
        if not chosen and (guess.unit != "s" or not guess.certain or in_whole_seconds):
            certain = False
            notes.append(taken_as(key, key, guess) + (WHOLE_SECONDS if in_whole_seconds else ""))
    return _Times(fields, tuple(notes), alternative, certain)


def _numbers(values: Sequence[object]) -> tuple[list[str], str]:
    """Return the numbers of values as texts, and the unit of the first if all have one; empty without."""
    texts = _texts(values)
    matches = [_SUFFIXED.fullmatch(text) for text in texts]
    units = [match[2].replace("µ", "u") for match in matches if match]
    bare = [match[1] if match else text for match, text in zip(matches, texts, strict=True)]
    return bare, units[0] if len(units) == sum(map(bool, texts)) and units else ""


def _has(value: object, keys: Sequence[str | int]) -> bool:
    first, *rest = keys
    return isinstance(value, Mapping) and first in value and (not rest or _has(value[first], rest))


def clock_of(values: Sequence[object]) -> str:
    """Return the format of instants; empty if they have none of the usual ones. A value in a hundred may be damaged."""
    texts = [text for text in _texts(values) if text]
    if not texts:
        return ""
    if _fit(_DECIMAL, texts):
        return "s" if any("." in text for text in texts) else "whole_s"
    for pattern, clock in ((_THIRTEEN, "ms"), (_SIXTEEN, "us"), (_NINETEEN, "ns"), (_CLF, "clf")):
        if _fit(pattern, texts):
            return clock
    if _fit(_ISO, texts):
        digits = max(len(match[1] or "") for text in texts if (match := _ISO.fullmatch(text)))
        return "iso" if not digits else "iso_ms" if digits <= 4 else "iso_us"
    return ""
