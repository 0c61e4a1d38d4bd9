"""The variable of the stamp: what locations send, what formats log, and the lines that make both the same instant.

nginx evaluates a variable of a ``map`` once per request, when it is first used. One that no header sends is first used
by the log: it is then the time at which the line is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sojourn.doctor.findings import Edit, Finding
from sojourn.doctor.nginx_headers import NO_INSTANTS, OWN_MAP, OWN_VARIABLE, STAMPS
from sojourn.doctor.nginx_levels import Conf, Pass, at_top, instead_of, place_of, word, written
from sojourn.nginx.log_format import LogFormat
from sojourn.nginx.syntax import Directive

MSEC = "msec"
_KEY = "request_start"
_NAME = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
OF_SOJOURN = "sojourn_"


def variable_of(value: str) -> str | None:
    """Return the variable that is all of a value, but for ``t=``; None for another text."""
    match = _NAME.fullmatch(value.removeprefix("t="))
    return (match[1] or match[2]) if match else None


def logged_variable(fmt: LogFormat) -> str | None:
    """Return the variable that a format logs as ``request_start``."""
    return variable_of(fmt.keys[_KEY][0]) if _KEY in fmt.keys else None


def stamp_lines(handover: Pass) -> list[tuple[str | None, Directive]]:
    """Return (variable, line) of the stamps that are sent, X-Request-Start before X-Queue-Start."""
    sent = sorted((STAMPS.index(name), number) for number, (name, value, _) in _numbered(handover) if value)
    lines = handover.sent()
    return [(variable_of(lines[number][1]), lines[number][2]) for _, number in sent]


def _numbered(handover: Pass) -> list[tuple[int, tuple[str, str, Directive]]]:
    return [(number, each) for number, each in enumerate(handover.sent()) if each[0] in STAMPS]


def is_same(conf: Conf, logged: str, sent: str | None) -> bool:
    """Return whether a logged variable is the instant of a sent one: the same, or one is made of the other."""
    if sent is None or MSEC in (logged, sent):
        return False
    if logged.startswith(OF_SOJOURN) and sent.startswith(OF_SOJOURN) and conf.has_includes:
        return True
    return logged == sent or logged in _made_of(conf, sent) or sent in _made_of(conf, logged)


def is_defined(conf: Conf, variable: str) -> bool:
    """Return whether a ``map`` or ``set`` of the configuration defines a variable."""
    return bool(_values(conf, variable))


def is_stamp(conf: Conf, variable: str) -> bool:
    """Return whether a variable may be sent and logged: unix seconds that are read once per request, without ``t=``.

    A variable that the configuration does not define (one of Lua, for example) may be one, unless it is a date.
    """
    if conf.has_includes and variable.startswith(OF_SOJOURN):
        return True
    values = _values(conf, variable)
    if variable == MSEC or _is_volatile(conf, variable) or any(value.startswith("t=") for value in values):
        return False
    made_of = _made_of(conf, variable)
    return not any(name in NO_INSTANTS or name.startswith("http_") for name in (variable, *made_of)) and (
        not values or MSEC in made_of
    )


def own_variable(conf: Conf, passes: Iterable[Pass] = ()) -> str:
    """Return the variable to send and to log in a configuration without files of Sojourn.

    The one that a format logs, if a header may send it; the one that all locations send, if a format may log it;
    otherwise a new one.
    """
    for fmt in conf.usable_formats:
        logged = logged_variable(fmt)
        if logged is not None and is_defined(conf, logged) and is_stamp(conf, logged):
            return logged
    sent = {lines[0][0] for each in passes or conf.passes if (lines := stamp_lines(each))}
    only = sent.pop() if len(sent) == 1 else None
    return only if only is not None and is_stamp(conf, only) else OWN_VARIABLE


@dataclass(frozen=True)
class OneStamp:
    """The changes that make locations send what a format logs.

    Attributes:
        logged: the variable to log.
        lines: (line to replace, its new text).
    """

    logged: str
    lines: tuple[tuple[Directive, str], ...]

    @property
    def text(self) -> list[str]:
        """The new lines, each with the place of the one that it replaces."""
        return [
            part
            for line, text in self.lines
            for part in (f"# in place of {' '.join(written(line).split())} in {place_of(line)}:", text)
        ]

    @property
    def edits(self) -> list[Edit]:
        """The same as edits."""
        return [instead_of(line, text) for line, text in self.lines]


def one_stamp(conf: Conf, passes: list[Pass], logged: str | None = None) -> OneStamp:
    """Return the changes after which these locations send one variable, and the variable that is then to be logged.

    Args:
        conf: the configuration.
        passes: locations whose requests are logged in one format.
        logged: the variable of the format, if it can be sent; None: chosen.
    """
    if conf.record is not None:
        logged, value = conf.record.logged, conf.record.stamp
    else:
        logged = logged or own_variable(conf, passes)
        value = f"t=${logged}"
    others = [line for each in passes for sent, line in stamp_lines(each) if not is_same(conf, logged, sent)]
    different = {id(line): line for line in others}.values()
    return OneStamp(logged, tuple((line, restamped(line, value)) for line in different))


def restamped(line: Directive, value: str) -> str:
    """Return a line that sends a stamp, with another value."""
    return written(replace(line, args=[line.args[0], value, *line.args[2:]], source=""))


def defining(conf: Conf, finding: Finding) -> Finding:
    """Return a finding whose fix also defines the variable that it uses, if the configuration does not."""
    uses = any(f"${OWN_VARIABLE}" in edit.text for edit in finding.edits)
    if not uses or conf.fragment or conf.has_includes or is_defined(conf, OWN_VARIABLE):
        return finding
    lines = ["# in http:", OWN_MAP, *([] if finding.fix.startswith("#") else ["# in this place:"]), finding.fix]
    return replace(finding, fix="\n".join(lines), edits=(at_top(conf.http, OWN_MAP), *finding.edits))


def own_value(conf: Conf, sent: Iterable[str]) -> str | None:
    """Return the value of a stamp to send: as another location of ``sent`` has it; None where no format is usable."""
    if not conf.usable_formats:
        return None
    variable = own_variable(conf)
    return next((word(value) for value in sent if variable_of(value) == variable), f"t=${variable}")


def _maps(conf: Conf, variable: str) -> list[Directive]:
    return [each for each in conf.http.own("map") if each.args[-1:] in ([f"${variable}"], [f"${{{variable}}}"])]


def _is_volatile(conf: Conf, variable: str) -> bool:
    return any(entry.name == "volatile" and not entry.args for each in _maps(conf, variable) for entry in each.block)


def _values(conf: Conf, variable: str) -> list[str]:
    """Return the texts that define a variable: the values of its map, or of its ``set`` lines."""
    mapped = [entry.args[0] for each in _maps(conf, variable) for entry in each.block if entry.args]
    levels = (conf.http, *conf.levels)
    lines = [each for level in levels for each in level.own("set") if len(each.args) > 1]
    return mapped + [each.args[1] for each in lines if each.args[0].strip("${}") == variable]


def _made_of(conf: Conf, variable: str) -> set[str]:
    """Return the variables that a variable is made of, at any depth."""
    sources: set[str] = set()
    left = [variable]
    while left:
        name = left.pop()
        texts = [*_values(conf, name), *(each.args[0] for each in _maps(conf, name) if len(each.args) > 1)]
        for text in texts:
            names = {match[1] or match[2] for match in _NAME.finditer(text)}
            left += names - sources
            sources |= names
    return sources
