"""Check that a log format has every key of a split and that its lines are always JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sojourn.doctor.findings import ADD, ERROR, INFO, REPLACE, WARNING, Edit, Finding
from sojourn.doctor.nginx_clients import comes_from_client, is_no_instant
from sojourn.doctor.nginx_levels import Conf, Pass, place_of, replacing, written
from sojourn.doctor.nginx_own_stamp import (
    MSEC,
    OF_SOJOURN,
    OneStamp,
    is_defined,
    is_same,
    is_stamp,
    logged_variable,
    one_stamp,
    stamp_lines,
    variable_of,
)
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import ESSENTIAL, USEFUL, LogFormat, key_lines, why_keys
from sojourn.nginx.syntax import Directive

_IN_FORMAT = "# in the format:"
_ONE_VARIABLE = "Send and log one variable, of a map that holds $msec."
# Variables that hold the query or a credential.
_URL = re.compile(r"\$\{?(?:request_uri|request)\b")
_PRIVATE = re.compile(r"\$\{?(?:args|query_string|arg_\w+|cookie_\w+|http_(?:cookie|(?:proxy_)?authorization))\b")


def format_findings(conf: Conf, fmt: LogFormat, passes: list[Pass]) -> Iterator[Finding]:
    """Yield what is wrong with a format.

    Args:
        conf: the configuration.
        fmt: the format.
        passes: where the requests that are logged in it are handed to an app.
    """
    stamp = one_stamp(conf, passes)
    missing = fmt.missing({**ESSENTIAL, "request_start": f"${stamp.logged}"})
    useful = fmt.missing(USEFUL)
    if "route" in useful and "uri" in fmt.keys:
        useful.pop("route")  # a template of the path stands in for it
    if missing or useful:
        text, edits = key_lines({**missing, **useful}), [_into_format(conf, fmt, {**missing, **useful})]
        if "request_start" in missing and stamp.lines:
            text = "\n".join([*stamp.text, _IN_FORMAT, text])
            edits += stamp.edits
        names = ", ".join({**missing, **useful})
        yield _finding(
            fmt,
            "log-keys",
            ERROR if missing else INFO,
            f"The format {printable(fmt.name)} does not write {names}.",
            why_keys(missing),
            text,
            ADD,
            *edits,
        )
    if fmt.escape != "json":
        text = written(Directive("log_format", [fmt.name, "escape=json"], "")).rstrip(";")
        yield _finding(
            fmt,
            "log-escape",
            ERROR,
            f"The format {printable(fmt.name)} is JSON, but not written with escape=json.",
            "A quote or a control byte in a URL then makes the line invalid JSON, and it is refused.",
            text,
            REPLACE,
            _with_escape(conf, fmt),
        )
    if fmt.unquoted:
        text = "\n".join(f""""{key}":"{fmt.keys[key][0]}\"""" for key in fmt.unquoted)
        yield _finding(
            fmt,
            "log-quotes",
            ERROR,
            f"The format {printable(fmt.name)} writes {', '.join(fmt.unquoted)} without quotes.",
            "Without a single number nginx writes -, nothing or a list; unquoted, the line is invalid JSON.",
            text,
            REPLACE,
            _rewritten(conf, fmt, {key: f'"{fmt.keys[key][0]}"' for key in fmt.unquoted}),
        )
    yield from _stamp(conf, fmt, passes)
    yield from _values(conf, fmt)
    yield from _private(conf, fmt)


def _finding(
    fmt: LogFormat, code: str, severity: str, what: str, why: str, text: str, how: str, *edits: Edit
) -> Finding:
    subject = f"log_format {printable(fmt.name)}"
    return Finding(code, severity, subject, what, why, text, place_of(fmt.directive), how, edits)


def _stamp(conf: Conf, fmt: LogFormat, passes: list[Pass]) -> Iterator[Finding]:
    """Yield whether the logged stamp is another than the one that is sent."""
    if "request_start" not in fmt.keys:
        return
    value, logged = fmt.keys["request_start"][0], logged_variable(fmt)
    if logged is None:
        return
    may_be_sent = logged.startswith(OF_SOJOURN) if conf.has_includes else is_defined(conf, logged)
    if logged == MSEC or value.startswith("t=") or (may_be_sent and not is_stamp(conf, logged)):
        yield _no_instant(conf, fmt, passes, logged)
        return
    others = [each for each in passes if _sends_another(conf, each, logged)]
    if others and not may_be_sent:
        yield _no_instant(conf, fmt, passes, logged)
        return
    for each in others:
        yield from _not_sent(conf, fmt, one_stamp(conf, [each], logged))


def _sends_another(conf: Conf, handover: Pass, logged: str) -> bool:
    """Return whether a location sends a stamp of another variable than this one.

    False where it sends another text; dates and values of clients have findings of their own.
    """
    values = [line.args[1] for _, line in stamp_lines(handover)]
    if not values or any(is_no_instant(value) or comes_from_client(conf, value) for value in values):
        return False
    variables = [variable_of(value) for value in values]
    return None not in variables and not any(is_same(conf, logged, sent) for sent in variables)


def _no_instant(conf: Conf, fmt: LogFormat, passes: list[Pass], logged: str) -> Finding:
    stamp = one_stamp(conf, passes)
    key = f'"request_start":"${stamp.logged}"'
    what, why = f"request_start is ${logged}, not the stamp that was sent.", _ONE_VARIABLE
    if logged == MSEC:
        what = "request_start is the time at which the line is written, not the stamp that was sent."
        why = "$msec is the time at each reading. A map is evaluated once a request: send and log the same variable."
    return _finding(
        fmt,
        "log-stamp",
        ERROR,
        what,
        why,
        "\n".join([*stamp.text, _IN_FORMAT, key] if stamp.lines else [key]),
        REPLACE,
        _rewritten(conf, fmt, {"request_start": f'"${stamp.logged}"'}),
        *stamp.edits,
    )


def _not_sent(conf: Conf, fmt: LogFormat, stamp: OneStamp) -> Iterator[Finding]:
    for line, text in stamp.lines:
        level = next((one for one in (conf.http, *conf.levels) if line in one.directive.block), conf.http)
        yield Finding(
            "log-stamp",
            ERROR,
            level.title,
            f"The format {printable(fmt.name)} logs ${logged_variable(fmt)} as request_start, and {level.title} sends "
            f"{printable(line.args[1])}.",
            f"A variable that no header sends is evaluated at the end of the request, by the log. {_ONE_VARIABLE}",
            *replacing(line, text, level),
        )


def _values(conf: Conf, fmt: LogFormat) -> Iterator[Finding]:
    stripped = [key for key, (text, _) in fmt.keys.items() if re.match(r"\$\{?sent_http_x_(que|ser|wor|rou)", text)]
    if stripped:
        better = {key: '"' + fmt.keys[key][0].replace("sent_http", "upstream_http") + '"' for key in stripped}
        yield _finding(
            fmt,
            "headers-stripped",
            ERROR,
            f"The format {printable(fmt.name)} logs {', '.join(stripped)} from the response to the client.",
            "proxy_hide_header removes the app's headers from that response; $upstream_http_… holds what the app sent.",
            "\n".join(f'"{key}":{text}' for key, text in better.items()),
            REPLACE,
            _rewritten(conf, fmt, better),
        )


def _private(conf: Conf, fmt: LogFormat) -> Iterator[Finding]:
    path = "$sojourn_uri" if conf.has_includes else "$uri"
    replacements = {key: path for key, (text, _) in fmt.keys.items() if _URL.search(text)}
    replacements |= {key: "" for key, (text, _) in fmt.keys.items() if _PRIVATE.search(text)}
    if replacements:
        better = {key: f'"{value}"' for key, value in replacements.items()}
        yield _finding(
            fmt,
            "log-private",
            WARNING,
            f"The format {printable(fmt.name)} logs queries or credentials, in {', '.join(replacements)}.",
            "Queries and cookies contain tokens and personal data, and every reader of the log or the store sees them. "
            "The split does not use them.",
            "\n".join(f'"{key}":{value}' for key, value in better.items()),
            REPLACE,
            _rewritten(conf, fmt, better),
        )


def _text(conf: Conf, fmt: LogFormat) -> tuple[str, int, int]:
    place = fmt.directive.place
    return conf.read.files.get(place.file, "")[place.begin : place.end], place.begin, place.end


def _into_format(conf: Conf, fmt: LogFormat, keys: dict[str, str]) -> Edit:
    """Return the edit that adds lines before the last brace of a format, with the quotes of its string."""
    text, begin, _ = _text(conf, fmt)
    at = text.rfind("}")
    quote = text[text.rfind("'", 0, at)] if "'" in text[:at] else '"'
    joined = f"{quote}\n" + "\n".join(
        f"{fmt.directive.place.indent}    {line}" for line in key_lines(keys).splitlines()
    )
    return Edit(fmt.directive.place.file, begin + at, begin + at, f"{joined}\n{fmt.directive.place.indent}    {quote}")


def _with_escape(conf: Conf, fmt: LogFormat) -> Edit:
    text, begin, _ = _text(conf, fmt)
    match = re.match(r"log_format\s+\S+(\s+escape=\w+)?", text)
    at = match.end() if match else 0
    start = match.start(1) if match and match[1] else at
    return Edit(fmt.directive.place.file, begin + start, begin + at, " escape=json")


def _rewritten(conf: Conf, fmt: LogFormat, values: dict[str, str]) -> Edit:
    text, begin, end = _text(conf, fmt)
    for key, value in values.items():
        text = re.sub(rf'("{key}"\s*:\s*)("?)[^",}}\']*("?)', lambda m, v=value: m[1] + v, text, count=1)  # type: ignore[misc]
    return Edit(fmt.directive.place.file, begin, end, text)
