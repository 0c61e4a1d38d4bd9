"""Judge a refusal of ``nginx -t``: a wrong text, or a module, file or host that this machine does not have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sojourn.doctor.findings import ADD, ERROR, RUN, WARNING, Diagnosis, Edit, Finding
from sojourn.doctor.nginx_records import FULL, LEAN, WITHOUT_NJS
from sojourn.model.formatting import printable
from sojourn.nginx.directives import STOCK, module_of_directive, module_of_variable, similar_directive

REFUSED = "nginx refuses it"
MODULE_LINE = "load_module modules/ngx_http_js_module.so;"
# Errors of nginx about the machine instead of the text: a missing file, host name, user or permission.
_OF_THE_MACHINE = re.compile(
    r"failed \(\d+:|host not found|cannot load certificate|getpwnam|getgrnam|could not open|BIO_new_file|no such file",
    re.IGNORECASE,
)
_DIRECTIVE = re.compile(r'unknown directive "([^"]*)"')
_OF_SOJOURN = re.compile(r'unknown "(sojourn_\w+)" variable')
_PLACE = re.compile(r" in (\S.*):(\d+)$")
_NGINX_THERE = "Check it with the nginx of the machine that the configuration is for."
_OF_TEXT = "The other findings come from the text alone."
_OTHER_MACHINE = f"The error is about this machine, not the text. {_NGINX_THERE}"


@dataclass(frozen=True)
class Judgement:
    """The severity of a refusal, and the reason for it."""

    severity: str
    why: str


def judged(message: str) -> Judgement:
    """Return whether the text is wrong, or something is missing on this machine, by nginx's message."""
    if match := _DIRECTIVE.search(message):
        return _unknown_directive(match[1])
    if match := _OF_SOJOURN.search(message):
        return Judgement(ERROR, _undefined(match[1]))
    for pattern, reason in _ABSENT:
        if (match := pattern.search(message)) and (absent := reason(match)):
            return _module_absent(absent)
    if _OF_THE_MACHINE.search(message):
        return Judgement(WARNING, _OTHER_MACHINE)
    return Judgement(ERROR, _OF_TEXT)


def _of_variable(match: re.Match[str]) -> str | None:
    module = module_of_variable(match[1])
    return f"${match[1]} is of the module {module}" if module else None


def _of_library(match: re.Match[str]) -> str:
    return f"the file is the module {printable(Path(match['file'] or match['other']).stem, 100)}"


# Message -> what this nginx lacks; None where the text is wrong after all.
_ABSENT: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]], ...] = (
    (re.compile(r'unknown "([^"]*)" variable'), _of_variable),
    (
        re.compile(
            r'dlopen\(\) "(?P<file>[^"]+)"|module "(?P<other>[^"]+)" (?:version \d+ instead|is not binary compatible)'
        ),
        _of_library,
    ),
    (re.compile(r"requires? (?:the )?(ngx_\w+_module|PCRE library)"), lambda match: f"this needs {match[1]}"),
    (
        re.compile(r'invalid parameter "(quic|http2|http3)"'),
        lambda match: f"{match[1]} belongs to a module, or to a later version",
    ),
)


def _undefined(variable: str) -> str:
    return (
        f"No included file defines ${variable}. Files of a location belong to one at http level: "
        f"{FULL.include_name('proxy')} and sojourn_server_timing.conf to {FULL.http} or {WITHOUT_NJS}, "
        f"{LEAN.include_name('proxy')} to {LEAN.http}. {_OF_TEXT}"
    )


def _unknown_directive(name: str) -> Judgement:
    module = module_of_directive(name)
    if module is not None:
        return _module_absent(f"{printable(name, 60)} is of the module {module}")
    if name in STOCK:
        return _module_absent(f"{name} belongs to a module, or to another version of nginx")
    similar = similar_directive(name)
    if similar is not None:
        return Judgement(ERROR, f"nginx has {similar}. {_OF_TEXT}")
    return _module_absent(f"{printable(name, 60)} resembles no directive of nginx, so it is a module's")


def _module_absent(reason: str) -> Judgement:
    return Judgement(WARNING, f"The nginx of this machine does not have it: {reason}. {_NGINX_THERE}")


def refusal(path: Path, reason: str) -> Diagnosis:
    """Return the finding about a refusal of nginx, and what nginx did not check.

    Args:
        path: the configuration.
        reason: why nginx refused it (``Reading.refusal``).
    """
    message = reason.removeprefix(f"{REFUSED} (").removesuffix(")")
    what = f"nginx refuses the configuration: {printable(message, 400)}."
    if 'unknown directive "js_' in message:
        return Diagnosis(findings=[_without_njs(path, message)], unseen=[_unchecked(message)])
    judgement = judged(message)
    return Diagnosis(findings=[refused(path, what, judgement.why, judgement.severity)], unseen=[_unchecked(message)])


def refused(path: Path, what: str, why: str, severity: str = ERROR) -> Finding:
    """Return the finding ``nginx-refuses``."""
    return Finding(
        "nginx-refuses",
        severity,
        printable(path.name),
        what,
        why,
        f"nginx -t -c {printable(path, 300)}",
        printable(path, 300),
        RUN,
    )


def _unchecked(message: str) -> str:
    place = _PLACE.search(message)
    if place is None:
        return "nginx stops at its first error: it did not check the rest of the configuration."
    return (
        f"nginx stops at its first error: it did not check what follows line {place[2]} of {printable(place[1], 200)}."
    )


def _without_njs(path: Path, message: str) -> Finding:
    return Finding(
        "njs-missing",
        ERROR,
        "njs",
        f"nginx's njs module is not loaded: {printable(message, 300)}.",
        "sojourn.conf needs it for the stamps of trusted peers. Debian and Ubuntu: apt install libnginx-mod-http-js; "
        "packages of nginx.org: nginx-module-njs. Without the module, include sojourn_without_njs.conf instead.",
        MODULE_LINE,
        f"{printable(path, 300)}:1",
        ADD,
        (Edit(str(path), 0, 0, MODULE_LINE + "\n"),),
    )
