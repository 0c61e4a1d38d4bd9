"""Check that every request to an app is logged with the keys of a split."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from functools import cached_property

from sojourn.doctor.findings import ADD, ERROR, REPLACE, WARNING, Edit, Finding
from sojourn.doctor.nginx_format import format_findings
from sojourn.doctor.nginx_levels import Conf, Level, Pass, after, at_top, instead_of, place_of, replacing, written
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import LogFormat
from sojourn.nginx.syntax import Directive

DEFAULT_LOG = "/var/log/nginx/sojourn.jsonl"


class Logs:
    """The logs of a configuration."""

    def __init__(self, conf: Conf) -> None:
        self.conf = conf

    @property
    def formats(self) -> dict[str, LogFormat]:
        """Formats by name."""
        return self.conf.log_formats

    def format_of(self, line: Directive) -> LogFormat | None:
        """Return the format of an ``access_log`` if `split` can use it, otherwise None."""
        names = [word for word in line.args[1:] if "=" not in word and word != "gzip"]
        fmt = self.formats.get(names[0]) if names else None
        return fmt if fmt is not None and fmt.meant else None

    def sojourn_logs(self, lines: list[Directive]) -> list[Directive]:
        """Return the ``access_log`` lines that `split` can use; none where one of them is ``off``."""
        if any(each.args[:1] == ["off"] for each in lines):
            return []
        return [each for each in lines if self.format_of(each)]

    @cached_property
    def lines(self) -> list[Directive]:
        """All ``access_log`` lines of the configuration that `split` can use."""
        access_logs = [each for level in (self.conf.http, *self.conf.levels) for each in level.own("access_log")]
        return [each for each in access_logs if self.format_of(each)]

    def line_for(self, level: Level) -> str:
        """Return an ``access_log`` for a level, with a file name that the configuration does not use yet."""
        in_use = self.format_of(self.lines[0]) if self.lines else None
        usable = [in_use] if in_use else [each for each in self.formats.values() if each.meant]
        beside = self.lines[0].args[0] if self.lines else DEFAULT_LOG
        folder = os.path.dirname(beside if beside.startswith("/") and "$" not in beside else DEFAULT_LOG)
        paths = (f"{folder}/{name}.jsonl" for name in self._file_names(level))
        path = next(each for each in paths if each not in self.files)
        self.files.add(path)
        return f"access_log {path} {usable[0].name if usable else 'sojourn'};"

    def _file_names(self, level: Level) -> Iterator[str]:
        """Yield log file names for a level, the best first, without end: ``sojourn-shop.example-api``."""
        servers = [each for each in self.conf.levels if each.directive.name == "server"]
        if len(servers) == 1:
            yield "sojourn"
        around = [*reversed([*level.above()]), level]
        titles = [each.title.partition(" ")[2] for each in around if each.directive.name in ("server", "location")]
        name = "-".join(["sojourn", *filter(None, map(_slug, titles))])
        yield name
        yield from (f"{name}-{number}" for number in itertools.count(2))

    @cached_property
    def files(self) -> set[str]:
        """The files of the configuration's lines, and the proposed ones."""
        levels = (self.conf.http, *self.conf.levels)
        return {each.args[0] for level in levels for each in level.own("access_log") if each.args}


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")


def log_findings(conf: Conf) -> Iterator[Finding]:
    """Yield what is wrong with the logs of a configuration."""
    if conf.fragment:
        return
    logs = Logs(conf)
    if not conf.has_includes and not logs.lines:
        yield _not_included(conf)
        return
    reported: list[object] = []
    used: list[Directive] = []
    logged: dict[str, list[Pass]] = {}
    for each in conf.passes:
        lines = logs.sojourn_logs(each.block.effective("access_log"))
        used += lines
        for name in {fmt.name for fmt in map(logs.format_of, lines) if fmt is not None}:
            logged.setdefault(name, []).append(each)
        holder = each.block.holder("access_log")
        if not lines and holder not in reported:
            reported.append(holder)
            yield _unlogged(logs, each, holder)
    yield from _sampled(used)
    for name, passes in logged.items():
        yield from format_findings(conf, logs.formats[name], passes)


def _not_included(conf: Conf) -> Finding:
    lines = [f"include {conf.folder}/sojourn.conf;", f"access_log {DEFAULT_LOG} sojourn;"]
    own = conf.http.own("access_log")
    if own and own[-1].args[:1] != ["off"]:
        edits = (after(own[-1], "\n".join(lines)),)
    else:
        edits = (at_top(conf.http, "\n".join(lines)),)
    return Finding(
        "include-missing",
        ERROR,
        "http",
        "sojourn.conf is not included: the times of a split are not logged.",
        "It defines the stamp, the trusted peers and the log format. Copy the folder nginx/ next to nginx.conf, as "
        f"{conf.folder}/, and load the njs module (load_module modules/ngx_http_js_module.so;).",
        "\n".join(lines),
        place_of(conf.http.directive),
        ADD,
        edits,
    )


def _unlogged(logs: Logs, handover: Pass, holder: Level | None) -> Finding:
    outer = holder.above() if holder else ()
    above = next((lines for level in outer if (lines := logs.sojourn_logs(level.own("access_log")))), [])
    text = written(above[0]) if above else logs.line_for(holder or logs.conf.http)
    subject = holder.title if holder and holder is not logs.conf.http else handover.level.title
    where = place_of(holder.own("access_log")[-1], holder) if holder else place_of(handover.directive, handover.level)
    if holder is None:
        what = f"The requests of {subject} are not logged with the keys of a split."
        last = logs.formats.get("sojourn")
        anchor = last.directive if last else None
        edits: tuple[Edit, ...] = (after(anchor, text) if anchor else at_top(logs.conf.http, text),)
        return Finding("log-missing", ERROR, subject, what, _WHY_LOG, text, where, ADD, edits)
    offs = [each for each in holder.own("access_log") if each.args[:1] == ["off"]]
    if offs:
        severity = WARNING if logs.lines else ERROR
        what = f"{holder.title} is not logged at all (access_log off)."
        why = "Its requests occupy workers, too: requests that wait for them have no visible cause."
        return Finding("log-off", severity, subject, what, why, text, where, REPLACE, (instead_of(offs[0], text),))
    code = "log-replaced" if above else "log-missing"
    what = (
        f"{holder.title} has its own access_log, and so loses the one of the level above."
        if above
        else f"The requests of {subject} are not logged with the keys of a split."
    )
    why = "nginx inherits access_log only where a level has none of its own. " if above else ""
    edit = after(holder.own("access_log")[-1], text)
    if not above and holder is logs.conf.http and (last := logs.formats.get("sojourn")):
        edit = after(max((last.directive, holder.own("access_log")[-1]), key=_order), text)
    return Finding(code, ERROR, subject, what, why + _WHY_LOG, text, where, ADD, (edit,))


_WHY_LOG = "Requests that are not logged cannot be split. A level may have several access_log lines."


def _order(directive: Directive) -> int:
    return (directive.via or directive).place.begin


def _sampled(lines: list[Directive]) -> Iterator[Finding]:
    for line in dict.fromkeys(map(id, lines)):
        each = next(one for one in lines if id(one) == line)
        if not any(word.startswith("if=") for word in each.args):
            continue
        arguments = [word for word in each.args if not word.startswith("if=")]
        text = written(Directive(each.name, arguments, each.where))
        condition = next(word for word in each.args if word.startswith("if="))
        yield Finding(
            "log-sampled",
            WARNING,
            printable(each.args[0]),
            f"Only some requests are logged ({printable(condition)}).",
            "The others occupy workers, too: depth, utilisation, blame and Little's law are wrong without them.",
            *replacing(each, text),
        )
