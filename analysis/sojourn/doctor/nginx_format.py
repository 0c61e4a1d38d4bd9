"""Check that a log format has every key of a split and that its lines are always JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sojourn.doctor.findings import ADD, ERROR, INFO, REPLACE, WARNING, Edit, Finding
from sojourn.doctor.nginx_levels import Conf, at_top, instead_of, place_of, written
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import ESSENTIAL, USEFUL, LogFormat, key_lines, why_keys
from sojourn.nginx.syntax import Directive

OWN = "sojourn_sent"
_MAP = f'map "" ${OWN} {{ default $msec; }}'
_HEADER = f"proxy_set_header X-Request-Start t=${OWN};"
_OWN_STAMP = re.compile(r"\$\{?(\w+)")
# Variables that hold the query or a credential.
_URL = re.compile(r"\$\{?(?:request_uri|request)\b")
_PRIVATE = re.compile(r"\$\{?(?:args|query_string|arg_\w+|cookie_\w+|http_(?:cookie|(?:proxy_)?authorization))\b")


def format_findings(conf: Conf, fmt: LogFormat) -> Iterator[Finding]:
    """Yield what is wrong with a format in which requests to an app are logged."""
    stamp = _stamp_variable(conf)
    own = "" if conf.has_includes or stamp not in ("", "msec") else OWN
    sent = "sojourn_logged_start" if conf.has_includes else own or stamp
    missing, useful = fmt.missing({**ESSENTIAL, "request_start": f"${sent}"}), fmt.missing(USEFUL)
    if "route" in useful and "uri" in fmt.keys:
        useful.pop("route")  # a template of the path stands in for it
    if missing or useful:
        text = key_lines({**missing, **useful})
        edits = [_into_format(conf, fmt, text)]
        if own and "request_start" in missing:
            text = f"# in http:\n{_MAP}\n# beside proxy_pass:\n{_HEADER}\n# in the format:\n{text}"
            edits += _one_stamp(conf)
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
    yield from _values(conf, fmt, sent)
    yield from _private(conf, fmt)


def _finding(
    fmt: LogFormat, code: str, severity: str, what: str, why: str, text: str, how: str, *edits: Edit
) -> Finding:
    subject = f"log_format {printable(fmt.name)}"
    return Finding(code, severity, subject, what, why, text, place_of(fmt.directive), how, edits)


def _values(conf: Conf, fmt: LogFormat, sent: str) -> Iterator[Finding]:
    own = sent == OWN
    value = fmt.keys.get("request_start", ("", True))[0]
    if value.strip("${}") == "msec":
        yield _finding(
            fmt,
            "log-stamp",
            ERROR,
            "request_start is the time at which the line is written, not the stamp that was sent.",
            "$msec is the time at each reading. A map is evaluated once a request: send and log the same variable.",
            "\n".join(
                [
                    *(["# in http:", _MAP, "# beside proxy_pass:", _HEADER, "# in the format:"] if own else []),
                    f'"request_start":"${sent}"',
                ]
            ),
            REPLACE,
            _rewritten(conf, fmt, {"request_start": f'"${sent}"'}),
            *(_one_stamp(conf) if own else ()),
        )
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


def _stamp_variable(conf: Conf) -> str:
    """Return the variable in the stamp that is sent, ``msec`` for example; empty where none is sent."""
    for each in conf.passes:
        for name, value, _ in each.sent():
            if name == "x-request-start" and (match := _OWN_STAMP.search(value)):
                return "sojourn_logged_start" if match[1] == "sojourn_stamp_sent" else match[1]
    return ""


def _text(conf: Conf, fmt: LogFormat) -> tuple[str, int, int]:
    place = fmt.directive.place
    return conf.read.files.get(place.file, "")[place.begin : place.end], place.begin, place.end


def _into_format(conf: Conf, fmt: LogFormat, lines: str) -> Edit:
    """Return the edit that adds lines before the last brace of a format, with the quotes of its string."""
    text, begin, _ = _text(conf, fmt)
    at = text.rfind("}")
    quote = text[text.rfind("'", 0, at)] if "'" in text[:at] else '"'
    joined = f"{quote}\n" + "\n".join(f"{fmt.directive.place.indent}    {line}" for line in lines.splitlines())
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


def _one_stamp(conf: Conf) -> list[Edit]:
    """Return the edits that send and log the same stamp, for a configuration without sojourn.conf."""
    sent = [
        instead_of(line, f"{line.name} {line.args[0]} t=${OWN};")
        for each in conf.passes
        for name, value, line in each.sent()
        if name == "x-request-start" and "msec" in value
    ]
    return list(dict.fromkeys([at_top(conf.http, _MAP), *sent]))
