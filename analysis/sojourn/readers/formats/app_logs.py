"""Access logs of app servers, as they are joined to the proxy's log: each needs a request id and a duration.

A duration begins when the server has the request, and ends with the headers or with the whole response. Its server
decides: ``Until`` says which.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice

from sojourn.model.errors import SojournError
from sojourn.readers.formats.app_servers import (
    GUNICORN_VARIABLE,
    MORGAN_VARIABLE,
    UWSGI_VARIABLE,
    gunicorn_parts,
    morgan_parts,
    servlet_parts,
    uwsgi_parts,
)
from sojourn.readers.formats.fields import UNIT_WORDS, Field
from sojourn.readers.formats.json_template import object_in
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.template import Part, Variable, joined_path, leaves_of

LINES = 5_000
MAJORITY = 0.5
OWN = "sojourn"
OPTION = "--app-log-format"


class Until(Enum):
    """Until when the duration of an app log runs."""

    HEADERS = "until the response headers"
    END = "until the end of the response"


@dataclass(frozen=True)
class AppLogFormat:
    """A format of an app log.

    Attributes:
        title: for people.
        form: the variables of a line; None: Sojourn's own JSON lines.
        until: until when its durations run.
        notes: what else its durations contain or leave out, in sentences.
    """

    title: str
    form: LineFormat | None
    until: Until
    notes: tuple[str, ...] = ()


OWN_FORMAT = AppLogFormat("JSON lines with request_id and service_time", None, Until.END)
_GUNICORN = "Its durations run from the parsed request head to the end of the response, its sending included."
_UWSGI = "Its durations run from the accepted connection of a request to the end of the response."
_MORGAN = "Its :response-time runs from morgan's call to the response headers."
_MORGAN_TOTAL = "Its :total-time runs from morgan's call to the end of the response."
_SERVLET = "Its durations run from the first byte of the request in a thread to the end of the response."
_SERVLET_COMMIT = "Its %F runs until the response is committed, which is when the headers are sent."
_NODE = "Its durations run to the end of the response, which is when the last byte is handed to the system."
_RAILS = (
    "Its durations are those of the controller's action. What ran before and after it, such as Rack middlewares, "
    "counts as queueing delay."
)
_UNKNOWN_END = "Whether its durations include the sending of the response is unknown, and taken as such."


def _language(text: str) -> tuple[str, Callable[[str], list[Part]]]:
    if GUNICORN_VARIABLE.search(text):
        return "gunicorn", gunicorn_parts
    if UWSGI_VARIABLE.search(text):
        return "uWSGI", uwsgi_parts
    if any(match[1] in ("response-time", "total-time") for match in MORGAN_VARIABLE.finditer(text)):
        return "morgan", morgan_parts
    if "%" in text:
        return "servlet", servlet_parts
    raise SojournError(
        f"{OPTION}: {text[:80]!r} is neither a name ({', '.join(FORMATS)}) nor the text of a format: gunicorn's "
        "access_log_format, uWSGI's log-format, morgan's, or the pattern of Tomcat or Jetty"
    )


_TITLES = {
    "gunicorn": "gunicorn's access log", "uWSGI": "uWSGI's request log", "morgan": "morgan's log",
    "servlet": "the access log of Tomcat or Jetty",
}  # fmt: skip
_ID = {
    "gunicorn": "%({x-request-id}i)s", "uWSGI": "%(var.HTTP_X_REQUEST_ID)", "morgan": ":req[x-request-id]",
    "servlet": "%{X-Request-ID}i",
}  # fmt: skip
_DURATION = {
    "gunicorn": "%(D)s", "uWSGI": "%(micros)", "morgan": ":response-time", "servlet": "%{us}T",
}  # fmt: skip
_WHOLE_SECONDS = {"gunicorn": ("%(T)s",), "uWSGI": ("%(secs)",)}
_AMBIGUOUS = "%D"


def app_log_format(text: str) -> AppLogFormat:
    """Return the format of a name or of a text in the language of an app server.

    Args:
        text: gunicorn's ``access_log_format``, uWSGI's ``log-format``, morgan's format, the pattern of Tomcat or Jetty;
            or an object in JSON with one of their variables for each key.

    Raises:
        SojournError: it is neither, or has no request id or no duration.
    """
    text = text.strip()
    if text in FORMATS:
        return FORMATS[text]
    product, parts_of = _language(text)
    _check_durations(text, product)
    title = f"{_TITLES[product]} as given"
    if text.startswith("{"):
        paths = _json_fields(text, parts_of)
        form = LineFormat(text, title, paths=tuple(paths), fields=tuple(paths.values()))
    else:
        form = LineFormat(text, title, tuple(parts_of(text)))
    for field, variable in (("request_id", _ID), ("service_time", _DURATION)):
        if not form.has(field):
            name = "request id" if field == "request_id" else "duration"
            raise SojournError(f"{OPTION}: this format has no {name}: add {variable[product]} to it and to the app")
    until, note = _until(text, product)
    if form.json:
        note = _UNKNOWN_END if until is Until.END else note
    return AppLogFormat(title, form, until, (note,))


def _check_durations(text: str, product: str) -> None:
    for variable in _WHOLE_SECONDS.get(product, ()):
        if variable in text and not _is_finer(text, product):
            raise SojournError(
                f"{OPTION}: {variable} counts whole seconds, too coarse for a queueing delay: log "
                f"{_DURATION[product]} instead"
            )
    if product == "servlet" and re.search(r"%D(?!\w)", text):
        raise SojournError(
            f"{OPTION}: {_AMBIGUOUS} is milliseconds in Tomcat before 10 and microseconds in Tomcat 10 and Jetty: "
            "write %{ms}T or %{us}T in its place, whichever it is"
        )


def _is_finer(text: str, product: str) -> bool:
    finer = {"gunicorn": ("%(D)s", "%(L)s", "%(M)s"), "uWSGI": ("%(msecs)", "%(micros)")}
    return any(variable in text for variable in finer[product])


def _until(text: str, product: str) -> tuple[Until, str]:
    if product == "morgan":
        headers = ":response-time" in text
        return (Until.HEADERS, _MORGAN) if headers else (Until.END, _MORGAN_TOTAL)
    if product == "servlet":
        whole = re.search(r"%(?:\{\w+\})?T", text)
        return (Until.END, _SERVLET) if whole else (Until.HEADERS, _SERVLET_COMMIT)
    return (Until.END, _GUNICORN) if product == "gunicorn" else (Until.END, _UWSGI)


def _json_fields(text: str, parts_of: Callable[[str], list[Part]]) -> dict[str, Field]:
    try:
        keys = json.loads(text)
    except ValueError as error:
        raise SojournError(f"{OPTION}: {text[:80]!r} begins as JSON but is none: {error}") from None
    fields: dict[str, Field] = {}
    for steps, value in leaves_of(keys):
        path, variable = ".".join(steps), str(value)
        parts = parts_of(variable)
        if len(parts) != 1 or not isinstance(parts[0], Variable):
            raise SojournError(f"{OPTION}: the value of {path!r} must be one variable, not {variable[:40]!r}")
        fields[path] = replace(parts[0].field, pattern="")
    return fields


_MS = Field("service_time", "ms", r"[\d.]+")
_WORD = Field("request_id", pattern=r"[^\s\]]+")
_ANY = ".*?"
_RAILS_PARTS: tuple[Part, ...] = (
    Variable("before", Field("before", pattern=_ANY)), "[", Variable("id", _WORD), "] Completed ",
    Variable("status", Field("status", pattern=r"\d{3}")), " ", Variable("reason", Field("reason", pattern=_ANY)),
    "in ", Variable("duration", _MS), "ms", Variable("after", Field("after", pattern=".*")),
)  # fmt: skip
_LOGRAGE_PARTS: tuple[Part, ...] = (
    Variable("before", Field("before", pattern=_ANY)), "method=", Variable("method", Field("method")), " path=",
    Variable("path", Field("uri")), " ", Variable("rest", Field("rest", pattern=_ANY)), "duration=",
    Variable("duration", _MS), " ", Variable("more", Field("more", pattern=_ANY)), "request_id=",
    Variable("request_id", _WORD), Variable("after", Field("after", pattern=".*")),
)  # fmt: skip
FORMATS: dict[str, AppLogFormat] = {
    OWN: OWN_FORMAT,
    "rails": AppLogFormat(
        "Rails' log with request ids (config.log_tags)", LineFormat("rails", "Rails' log", _RAILS_PARTS),
        Until.HEADERS, (_RAILS,),
    ),
    "lograge": AppLogFormat(
        "lograge's lines", LineFormat("lograge", "lograge's lines", _LOGRAGE_PARTS), Until.HEADERS, (_RAILS,)
    ),
}  # fmt: skip

# Why the lines of a server say nothing about a request, and what mends it.
_REFUSED = (
    (
        re.compile(r'(?:INFO:\s+|.* - )?\S+ - "[A-Z]+ \S+ HTTP/[\d.]+" \d{3}(?: [A-Z][\w -]*)?$'),
        "uvicorn's access log has no durations and no request ids: add Sojourn's middleware, or run the app under "
        "gunicorn or hypercorn and log %(D)s and %({x-request-id}i)s",
    ),
    (
        re.compile(r"\[pid: \d+\|app: "),
        "uWSGI's default log has no request ids: set log-format with %(var.HTTP_X_REQUEST_ID), %(micros) and %(wid), "
        f"and give {OPTION} with the same text",
    ),
    (
        re.compile(r'.* - \S+ \[[^\]]+\] "[A-Z]+ [^"]*" \d{3} (?:\d+|-) \d+\.\d{4}$'),
        "the CommonLogger of Rack and Puma writes no request ids: use lograge or Rails' log_tags with :request_id, or "
        "Sojourn's middleware",
    ),
    (
        re.compile(r".*Completed \d{3} .*in \d+ms"),
        "Rails' log has no request ids: set config.log_tags = [:request_id]",
    ),
    (
        re.compile(r'\S+ \S+ .{0,200}?\[\d\d/\w{3}/\d{4}:[\d:]{8}[^\]]*\] "'),
        f"its format is not recognised: give {OPTION} with the text of the app server's own setting, which needs a "
        "duration and the request id, such as %(D)s and %({x-request-id}i)s of gunicorn or %{us}T and "
        "%{X-Request-ID}i of Tomcat",
    ),
)  # fmt: skip
_IDS = (
    "request_id", "req.headers.x-request-id", "request.headers.x-request-id", "x_request_id", "x-request-id",
    "requestId", "reqId", "req.id", "request.id",
)  # fmt: skip
_DURATION_WORDS = {
    "response", "request", "service", "duration", "elapsed", "latency", "took", "processing", "time", "in", "runtime",
}  # fmt: skip
_WORKERS = ("worker", "worker_id", "pid")


def detected_app_log(lines: Iterable[str], name: str) -> AppLogFormat:
    """Return the format of an app log by its first lines.

    Args:
        lines: the first lines, and others.
        name: the file, for the error.

    Raises:
        SojournError: the format is not recognised, or lacks a request id or a duration; with what to do.
    """
    sample = [text for line in islice(lines, LINES) if (text := line.strip())]
    objects = [value for line in sample if line.startswith("{") and (value := object_in(line)) is not None]
    if not sample or any("service_time" in value for value in objects):
        return OWN_FORMAT
    if len(objects) > MAJORITY * len(sample):
        return _of_objects(objects, name)
    for each in (FORMATS["rails"], FORMATS["lograge"]):
        if each.form is not None and any(each.form.pattern.match(line) for line in sample):
            return each
    if all(line.startswith("{") for line in sample):
        return OWN_FORMAT  # damaged lines: each is refused for its own reason
    counts = Counter(reason for line in sample if (reason := _refusal(line)))
    if counts:
        raise SojournError(f"{name}: {counts.most_common(1)[0][0]}")
    if not any(map(_looks_like_request, sample)):
        return OWN_FORMAT
    raise SojournError(f"{name}: its format is not recognised: give {OPTION} with the text of the server's own setting")


def _looks_like_request(line: str) -> bool:
    return len(line.split()) > 2


def _refusal(line: str) -> str:
    return next((reason for pattern, reason in _REFUSED if pattern.match(line)), "")


def _of_objects(objects: Sequence[Mapping[str, object]], name: str) -> AppLogFormat:
    # A name is the same for {"req": {"id": …}} and for {"req.id": …}.
    every = [steps for value in objects for steps, _ in leaves_of(value)]
    counts, paths = Counter(map(".".join, every)), {".".join(steps): joined_path(steps) for steps in set(every)}
    # Lines of requests have a duration; other messages of the app have none.
    durations = [path for path in counts if _duration_field(path, counts)]
    if not durations and any("request_id" in value for value in objects):
        return OWN_FORMAT  # whose lines are refused for what they lack
    common = {path for path in durations if counts[path] == max(counts[each] for each in durations)}
    if len(common) != 1:
        keys = ", ".join(sorted(common)) or "none"
        raise SojournError(
            f"{name}: the duration of a request is not certain (keys with one: {keys}): give {OPTION} "
            '\'{"KEY": "%({x-request-id}i)s", "KEY": "%(M)s"}\' with the keys of the id and of the duration (%(L)s: s, '
            "%(M)s: ms, %(D)s: µs)"
        )
    (duration,) = common
    identifier = next((path for path in _IDS if counts[path] >= MAJORITY * counts[duration]), None)
    if identifier is None:
        raise SojournError(
            f"{name}: its objects have no request id under a usual key ({', '.join(_IDS)}): let the app log the header "
            f"X-Request-ID, or give {OPTION} with the key"
        )
    worker = next((path for path in _WORKERS if counts[path] >= MAJORITY * counts[duration]), None)
    took = _duration_field(duration, counts) or _MS
    fields = {paths[identifier]: Field("request_id"), paths[duration]: took}
    fields |= {paths[worker]: Field("worker")} if worker else {}
    title = f"JSON lines with {identifier} and {duration} ({took.unit})"
    rails = duration == "duration"
    node = duration == "responseTime"
    until = Until.HEADERS if rails else Until.END
    return AppLogFormat(
        title, LineFormat(title, title, paths=tuple(fields), fields=tuple(fields.values())), until,
        (_RAILS if rails else _NODE if node else _UNKNOWN_END,),
    )  # fmt: skip


def _duration_field(path: str, counts: Mapping[str, int]) -> Field | None:
    """Return the field of a key that holds the duration of a request; None if it is none, or its unit is unknown."""
    if path == "responseTime":  # of pino-http and Fastify
        return Field("service_time", "ms")
    if path == "duration":  # of lograge
        return Field("service_time", "ms") if {"controller", "action"} <= set(counts) else None
    *words, unit = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", path.rpartition(".")[2]).lower().split("_")
    if unit not in UNIT_WORDS or not words or not _DURATION_WORDS.issuperset(words):
        return None
    return Field("service_time", UNIT_WORDS[unit])
