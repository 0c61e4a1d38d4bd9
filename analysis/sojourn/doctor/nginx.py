"""The diagnosis of an nginx configuration."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from sojourn.doctor.app_lookup import servers_at
from sojourn.doctor.app_servers import AppServer
from sojourn.doctor.builtin_includes import with_house
from sojourn.doctor.findings import ADD, ERROR, RUN, WARNING, Diagnosis, Edit, Finding
from sojourn.doctor.nginx_clients import client_findings
from sojourn.doctor.nginx_levels import Conf
from sojourn.doctor.nginx_log import Logs, log_findings
from sojourn.doctor.nginx_machine import machine_findings
from sojourn.doctor.nginx_sockets import UNSEEN, app_sockets
from sojourn.doctor.nginx_stamp import stamp_findings
from sojourn.doctor.nginx_trust import header_findings, trust_findings
from sojourn.doctor.nginx_upstream import upstream_findings
from sojourn.model.errors import CaptureError
from sojourn.model.formatting import printable
from sojourn.nginx.syntax import Directive, Reading, reading

_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
_PATIENCE_S = 10.0
# What nginx says of a machine rather than of a text: a file, a name, a user or a right that is not there.
_OF_THE_MACHINE = re.compile(
    r"failed \(\d+:|host not found|cannot load certificate|getpwnam|getgrnam|could not open|BIO_new_file|no such file",
    re.IGNORECASE,
)
_TAKEN_NOT = "nginx does not take it"
_DENIED = "13: Permission denied"
MODULE_LINE = "load_module modules/ngx_http_js_module.so;"


def diagnosed_conf(path: Path, somaxconn: int | None = None, *, ask: bool = False) -> tuple[Diagnosis, Conf]:
    """What is wrong with an nginx configuration, and the configuration.

    Args:
        path: nginx.conf, or a file of conf.d.
        somaxconn: net.core.somaxconn of the machine it is for; None: read from this one, where nginx here takes it.
        ask: send ``HEAD /`` to every backend of a ``proxy_pass``, to learn which server it is.

    Raises:
        CaptureError: the file cannot be read.
    """
    found = Diagnosis(targets=[{"name": printable(path, 300), "kind": "nginx"}])
    try:
        read = reading(path)
    except CaptureError as error:
        if not path.is_file():
            raise
        found.findings.append(_refused(path, f"The configuration cannot be read: {printable(error, 400)}.", _UNREAD))
        return found, Conf(path, _empty(path))
    with_house(read.root, path)
    told = read.refusal is None
    denied = _DENIED in (read.refusal or "")  # it is this machine's, and only root may have it tested
    conf = Conf(path, read, _version() if told or denied else None)
    conf.probed = ask
    conf.servers = _servers(conf, on_this_machine=told or denied)
    conf.somaxconn = somaxconn or (_somaxconn() if told or denied else None)
    if told:
        found.checked.append("nginx takes the configuration (nginx -t)")
    elif denied or not _refused_by_nginx(conf):
        found.unseen.append(f"What nginx itself says: {printable(read.refusal, 300)}.")
    elif not conf.fragment:
        found.findings.append(_refusal(conf))
    if conf.fragment:
        found.unseen.append(
            f"{printable(path, 300)} is no whole configuration: what stands around it (the log, the stamp, headers set "
            "further up) was not looked at. Give nginx.conf."
        )
    found.unseen += [printable(each, 300) for each in read.missing]
    if conf.somaxconn is None:
        found.unseen.append("net.core.somaxconn of its machine: give --somaxconn to have backlogs held against it.")
    _look(conf, found)
    found.add(app_sockets(conf) if told or denied else Diagnosis(unseen=[UNSEEN]))
    return found, conf


def _empty(path: Path) -> Reading:
    return Reading(Directive("", [], str(path)), None, (), {})


def _servers(conf: Conf, *, on_this_machine: bool) -> dict[str, AppServer]:
    http, others = (
        [address for each in conf.passes if (each.family == "proxy") == of_http for address in conf.addresses(each)]
        for of_http in (True, False)
    )
    return {
        **servers_at(others, on_this_machine=on_this_machine, ask=False),
        **servers_at(http, on_this_machine=on_this_machine, ask=conf.probed),
    }


def _look(conf: Conf, found: Diagnosis) -> None:
    for findings, fine in (
        (list(stamp_findings(conf)), _stamped(conf) if conf.passes else ""),
        (list(log_findings(conf)), _logged(conf)),
        (
            [*trust_findings(conf), *client_findings(conf)],
            "stamps are believed from listed addresses only" if conf.judges else "",
        ),
        (list(header_findings(conf)), _told(conf)),
        (
            list(upstream_findings(conf)),
            "connections, buffers and retries leave the wait to be seen" if conf.passes else "",
        ),
        (
            list(machine_findings(conf)),
            "backlogs, clock, limits and route names are as they should be" if conf.levels else "",
        ),
    ):
        found.findings += findings
        if fine and not findings:
            found.checked.append(fine)


def _told(conf: Conf) -> str:
    stamped = any(each.stamped for each in conf.passes)
    return "the app's headers reach the log and not the client" if stamped else ""


def _stamped(conf: Conf) -> str:
    number = len(conf.passes)
    places = "the one place" if number == 1 else f"all {number} places"
    return f"requests are stamped, once, in {places} that hands them to an app".replace(
        "places that hands", "places that hand"
    )


def _logged(conf: Conf) -> str:
    if conf.fragment or not conf.passes:
        return ""
    paths = sorted({each.args[0] for each in Logs(conf).lines if each.args})
    return f"requests to an app are logged with all keys: {printable(', '.join(paths), 300)}"


def _refused(path: Path, what: str, why: str, severity: str = ERROR) -> Finding:
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


_UNREAD = "Nothing in it was looked at."
_ANOTHERS = "That is about this machine rather than the text: right, if the configuration is another machine's."


def _refused_by_nginx(conf: Conf) -> bool:
    return (conf.read.refusal or "").startswith(_TAKEN_NOT)


def _refusal(conf: Conf) -> Finding:
    words = (conf.read.refusal or "").removeprefix(f"{_TAKEN_NOT} (").removesuffix(")")
    if 'unknown directive "js_' in words:
        return _without_njs(conf, words)
    what = f"nginx does not take the configuration: {printable(words, 400)}."
    if _OF_THE_MACHINE.search(words):
        return _refused(conf.path, what, _ANOTHERS, WARNING)
    return _refused(conf.path, what, "Everything else said here goes by the text alone.")


def _without_njs(conf: Conf, words: str) -> Finding:
    return Finding(
        "njs-missing",
        ERROR,
        "njs",
        f"nginx's njs module is not loaded: {printable(words, 300)}.",
        "sojourn.conf needs it for the stamps of trusted peers. Debian and Ubuntu: apt install libnginx-mod-http-js; "
        "packages of nginx.org: nginx-module-njs.",
        MODULE_LINE,
        f"{printable(conf.path, 300)}:1",
        ADD,
        (Edit(str(conf.path), 0, 0, MODULE_LINE + "\n"),),
    )


def _somaxconn() -> int | None:
    try:
        return int(_SOMAXCONN.read_text())
    except (OSError, ValueError):
        return None


def _version() -> tuple[int, ...] | None:
    """Of the nginx that is installed here."""
    try:
        done = subprocess.run(
            ["nginx", "-v"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"/(\d+)\.(\d+)\.(\d+)", done.stderr.decode("utf-8", "replace"))
    return tuple(int(part) for part in match.groups()) if match else None
