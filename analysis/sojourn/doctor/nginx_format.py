"""Does a log format hold all that a split is made of, in lines that stay JSON?"""

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


def format_findings(conf: Conf, found: LogFormat) -> Iterator[Finding]:
    """What is wrong with a format that requests to an app are logged in."""
    place, subject = place_of(found.directive), f"log_format {printable(found.name)}"
    stamp = _stamp_variable(conf)
    own = "" if conf.house or stamp not in ("", "msec") else OWN
    sent = "sojourn_logged_start" if conf.house else own or stamp
    missing, useful = found.missing({**ESSENTIAL, "request_start": f"${sent}"}), found.missing(USEFUL)
    if "route" in useful and "uri" in found.keys:
        useful.pop("route")  # a template of the path stands in for it
    if missing or useful:
        text = key_lines({**missing, **useful})
        edits = [_into_format(conf, found, text)]
        if own and "request_start" in missing:
            text = f"# in http:\n{_MAP}\n# beside proxy_pass:\n{_HEADER}\n# in the format:\n{text}"
            edits += _one_stamp(conf)
        names = ", ".join({**missing, **useful})
        yield Finding(
            "log-keys",
            ERROR if missing else INFO,
            subject,
            f"The format {printable(found.name)} does not write {names}.",
            why_keys(missing),
            text,
            place,
            ADD,
            tuple(edits),
        )
    if found.escape != "json":
        text = written(Directive("log_format", [found.name, "escape=json"], "")).rstrip(";")
        yield Finding(
            "log-escape",
            ERROR,
            subject,
            f"The format {printable(found.name)} is JSON, but not written with escape=json.",
            "A quote or a control byte in a URL then makes a line that is no JSON, and the line is refused.",
            text,
            place,
            REPLACE,
            (_with_escape(conf, found),),
        )
    if found.unquoted:
        text = "\n".join(f""""{key}":"{found.keys[key][0]}\"""" for key in found.unquoted)
        yield Finding(
            "log-quotes",
            ERROR,
            subject,
            f"The format {printable(found.name)} writes {', '.join(found.unquoted)} without quotes.",
            "nginx writes - or nothing or a list where there is no single number; unquoted, the line is no JSON.",
            text,
            place,
            REPLACE,
            (_rewritten(conf, found, {key: f'"{found.keys[key][0]}"' for key in found.unquoted}),),
        )
    yield from _values(conf, found, sent, subject, place)
    yield from _private(conf, found, subject, place)


def _values(conf: Conf, found: LogFormat, sent: str, subject: str, place: str) -> Iterator[Finding]:
    own = sent == OWN
    value = found.keys.get("request_start", ("", True))[0]
    if value.strip("${}") == "msec":
        yield Finding(
            "log-stamp",
            ERROR,
            subject,
            "request_start is the time at which the line is written, not the stamp that was sent.",
            "$msec is the time at each reading. A map is evaluated once a request: send and log the same variable.",
            "\n".join(
                [
                    *(["# in http:", _MAP, "# beside proxy_pass:", _HEADER, "# in the format:"] if own else []),
                    f'"request_start":"${sent}"',
                ]
            ),
            place,
            REPLACE,
            (_rewritten(conf, found, {"request_start": f'"${sent}"'}), *(_one_stamp(conf) if own else ())),
        )
    stripped = [key for key, (text, _) in found.keys.items() if re.match(r"\$\{?sent_http_x_(que|ser|wor|rou)", text)]
    if stripped:
        better = {key: '"' + found.keys[key][0].replace("sent_http", "upstream_http") + '"' for key in stripped}
        yield Finding(
            "headers-stripped",
            ERROR,
            subject,
            f"The format {printable(found.name)} logs {', '.join(stripped)} from the answer to the client.",
            "There proxy_hide_header has taken the app's headers out; $upstream_http_… is what the app answered.",
            "\n".join(f'"{key}":{text}' for key, text in better.items()),
            place,
            REPLACE,
            (_rewritten(conf, found, better),),
        )


def _private(conf: Conf, found: LogFormat, subject: str, place: str) -> Iterator[Finding]:
    path = "$sojourn_uri" if conf.house else "$uri"
    told = {key: path for key, (text, _) in found.keys.items() if _URL.search(text)}
    told |= {key: "" for key, (text, _) in found.keys.items() if _PRIVATE.search(text)}
    if told:
        better = {key: f'"{value}"' for key, value in told.items()}
        yield Finding(
            "log-private",
            WARNING,
            subject,
            f"The format {printable(found.name)} logs queries or credentials, in {', '.join(told)}.",
            "Tokens and addresses of people are in queries and cookies, and whoever reads the log or the store reads "
            "them. No part of the split is made of them.",
            "\n".join(f'"{key}":{value}' for key, value in better.items()),
            place,
            REPLACE,
            (_rewritten(conf, found, better),),
        )


def _stamp_variable(conf: Conf) -> str:
    """The variable that the stamp sent is made of, where one is sent: ``msec``, say; else nothing."""
    for each in conf.passes:
        for name, value, _ in each.sent():
            if name == "x-request-start" and (match := _OWN_STAMP.search(value)):
                return "sojourn_logged_start" if match[1] == "sojourn_stamp_sent" else match[1]
    return ""


def _text(conf: Conf, found: LogFormat) -> tuple[str, int, int]:
    place = found.directive.place
    return conf.read.files.get(place.file, "")[place.begin : place.end], place.begin, place.end


def _into_format(conf: Conf, found: LogFormat, lines: str) -> Edit:
    """Before the format's last brace, in whatever string it stands."""
    text, begin, _ = _text(conf, found)
    at = text.rfind("}")
    quote = text[text.rfind("'", 0, at)] if "'" in text[:at] else '"'
    joined = f"{quote}\n" + "\n".join(f"{found.directive.place.indent}    {line}" for line in lines.splitlines())
    return Edit(
        found.directive.place.file, begin + at, begin + at, f"{joined}\n{found.directive.place.indent}    {quote}"
    )


def _with_escape(conf: Conf, found: LogFormat) -> Edit:
    text, begin, _ = _text(conf, found)
    match = re.match(r"log_format\s+\S+(\s+escape=\w+)?", text)
    at = match.end() if match else 0
    start = match.start(1) if match and match[1] else at
    return Edit(found.directive.place.file, begin + start, begin + at, " escape=json")


def _rewritten(conf: Conf, found: LogFormat, values: dict[str, str]) -> Edit:
    text, begin, end = _text(conf, found)
    for key, value in values.items():
        text = re.sub(rf'("{key}"\s*:\s*)("?)[^",}}\']*("?)', lambda m, v=value: m[1] + v, text, count=1)  # type: ignore[misc]
    return Edit(found.directive.place.file, begin, end, text)


def _one_stamp(conf: Conf) -> list[Edit]:
    """A stamp that is sent and logged alike, for who has none of ours."""
    sent = [
        instead_of(made, f"{made.name} {made.args[0]} t=${OWN};")
        for each in conf.passes
        for name, value, made in each.sent()
        if name == "x-request-start" and "msec" in value
    ]
    return list(dict.fromkeys([at_top(conf.http, _MAP), *sent]))
