"""Check buffers and retries between nginx and the app."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sojourn.doctor.findings import ADD, INFO, WARNING, Finding
from sojourn.doctor.nginx_keepalive import keepalive_findings
from sojourn.doctor.nginx_levels import Conf, Pass, after, place_of, replacing
from sojourn.model.formatting import counted, printable
from sojourn.nginx.syntax import Directive

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "M": 2592000.0, "y": 31536000.0}
LONG = 30.0  # s: a retry after so long a wait is a second queue
DEFAULT_TIMEOUT = "60s"


def upstream_findings(conf: Conf) -> Iterator[Finding]:
    """Yield what is wrong between nginx and the app."""
    yield from keepalive_findings(conf)
    reported: list[int] = []
    for each in conf.passes:
        for finding, line in (*_buffering(each), *_retries(conf, each)):
            if id(line) not in reported:
                reported.append(id(line))
                yield finding


def _buffering(handover: Pass) -> Iterator[tuple[Finding, Directive]]:
    level, family = handover.level, handover.family
    for name, code, severity, what, why, better in (
        (
            f"{family}_request_buffering",
            "upload-unbuffered",
            WARNING,
            "hands uploads on as they come",
            "The stamp is set before the body is read: a slow upload looks like queueing, and holds a worker.",
            "on",
        ),
        (
            f"{family}_buffering",
            "answer-unbuffered",
            WARNING,
            "hands answers on as they come",
            "A slow client holds the worker, and its time counts as the app's. (Right for event streams only.)",
            "on",
        ),
    ):
        for each in level.effective(name):
            if each.args == ["off"]:
                text = f"{name} {better};"
                yield _instead(code, severity, handover, each, f"{level.title} {what}.", why, text), each
    for each in level.effective(f"{family}_max_temp_file_size"):
        if each.args == ["0"]:
            what = f"{level.title} does not buffer large answers: beyond the memory buffers the client sets the pace."
            why = "A slow client then holds the worker until the rest fits into the buffers."
            text = f"{family}_max_temp_file_size 1024m;"
            yield _instead("answer-unbuffered", INFO, handover, each, what, why, text), each


def _instead(code: str, severity: str, handover: Pass, each: Directive, what: str, why: str, text: str) -> Finding:
    holder = handover.level.holder(each.name) or handover.level
    return Finding(code, severity, holder.title, what, why, *replacing(each, text, holder))


def _retries(conf: Conf, handover: Pass) -> Iterator[tuple[Finding, Directive]]:
    level, family = handover.level, handover.family
    upstream = conf.upstreams.get(handover.target)
    name = f"{family}_next_upstream"
    lines = level.effective(name)
    conditions = lines[-1].args if lines else ["error", "timeout"]
    servers = [d for d in upstream.block if d.name == "server" and "down" not in d.args] if upstream else []
    bounded = level.value(f"{name}_timeout", "0") not in ("0", "0s") or level.value(f"{name}_tries", "0") != "0"
    wait = level.value(f"{family}_read_timeout", DEFAULT_TIMEOUT)
    if len(servers) < 2 or "off" in conditions or "timeout" not in conditions or bounded or _seconds(wait) < LONG:
        return
    again = "non_idempotent" in conditions
    text = f"{name}_tries 2;\n{name}_timeout 10s;"
    line = lines[-1] if lines else handover.directive
    holder = level.holder(name) or level
    edit = after(line if lines else handover.outermost, text)
    finding = Finding(
        "retries-unbounded",
        WARNING if again else INFO,
        holder.title,
        f"{holder.title} may wait {wait} for each of {counted(len(servers), 'server')} of "
        f"{printable(handover.target)} in turn.",
        "A request that timed out joins the next queue while the first app still works on it."
        + (" With non_idempotent, a request may be executed twice." if again else ""),
        text,
        place_of(line, holder),
        ADD,
        (edit,),
    )
    yield finding, line if lines else holder.directive


def _seconds(text: str) -> float:
    """Return the seconds of a time as nginx writes it: ``30``, ``500ms``, ``1m30s``."""
    return sum(int(digits) * _UNITS[unit or "s"] for digits, unit in re.findall(r"([0-9]{1,15})(ms|[smhdwMy]?)", text))
