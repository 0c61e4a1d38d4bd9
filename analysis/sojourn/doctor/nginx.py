"""Diagnose an nginx configuration."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path, PurePath

from sojourn.doctor.app_lookup import servers_at
from sojourn.doctor.app_servers import AppServer
from sojourn.doctor.findings import Diagnosis
from sojourn.doctor.nginx_clients import client_findings
from sojourn.doctor.nginx_headers import FAMILIES
from sojourn.doctor.nginx_levels import Conf
from sojourn.doctor.nginx_log import Logs, log_findings
from sojourn.doctor.nginx_machine import UNSEEN, app_sockets, machine_findings
from sojourn.doctor.nginx_own_stamp import defining
from sojourn.doctor.nginx_records import FULL, LEAN, RECORDS, Record
from sojourn.doctor.nginx_refusal import REFUSED, refusal, refused
from sojourn.doctor.nginx_stamp import stamp_findings
from sojourn.doctor.nginx_trust import header_findings, trust_findings
from sojourn.doctor.nginx_upstream import upstream_findings
from sojourn.model.errors import CaptureError
from sojourn.model.formatting import printable
from sojourn.nginx.log_format import ESSENTIAL, USEFUL
from sojourn.nginx.syntax import Directive, Reading, parsed, reading

_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
_PATIENCE_S = 10.0
_DENIED = "13: Permission denied"
_ROUTE = 'map "" $sojourn_route { default $upstream_http_x_route; }'


def _keys(record: Record) -> str:
    keys = {**ESSENTIAL, **USEFUL, "request_start": f"${record.logged}"}
    return ",".join(f'"{key}":"{variable}"' for key, variable in keys.items())


# Of Sojourn's include files, the lines that the checks need, for a configuration that is checked away from its own
# machine. A test compares them with the files.
BUILTIN_INCLUDES = {
    **{
        record.include_name(family): "\n".join(record.include_lines(family))
        for record in RECORDS.values()
        for family in FAMILIES
    },
    FULL.http: f"""
        {_ROUTE}
        map $sojourn_trusted $sojourn_stamp_sent {{ default t=$sojourn_proxy_start; }}
        log_format sojourn escape=json '{{{_keys(FULL)}}}';
    """,
    LEAN.http: f"""
        {_ROUTE}
        map $status $sojourn_start {{ default ""; 000 $msec; }}
        log_format sojourn escape=json '{{{_keys(LEAN)}}}';
    """,
}


def diagnosed_conf(path: Path, somaxconn: int | None = None, *, ask: bool = False) -> tuple[Diagnosis, Conf]:
    """Return what is wrong with an nginx configuration, and the configuration.

    Args:
        path: nginx.conf, or a file of conf.d.
        somaxconn: net.core.somaxconn of the machine it is for; None: this machine's, if its nginx accepts the file.
        ask: send ``HEAD /`` to every backend of a ``proxy_pass``, to identify its server.

    Raises:
        CaptureError: the file cannot be read.
    """
    diagnosis = Diagnosis(targets=[{"name": printable(path, 300), "kind": "nginx"}])
    try:
        read = reading(path)
    except CaptureError as error:
        if not path.is_file():
            raise
        diagnosis.findings.append(
            refused(path, f"The configuration cannot be read: {printable(error, 400)}.", "Nothing in it was checked.")
        )
        return diagnosis, Conf(path, _empty(path))
    with_builtin_includes(read.root, path)
    accepted = read.refusal is None
    denied = _DENIED in (read.refusal or "")  # it belongs to this machine, and only root may test it
    conf = Conf(path, read, _version() if accepted or denied else None)
    conf.probed = ask
    conf.servers = _servers(conf, on_this_machine=accepted or denied)
    conf.somaxconn = somaxconn or (_somaxconn() if accepted or denied else None)
    if accepted:
        diagnosis.checked.append("nginx accepts the configuration (nginx -t)")
    elif denied or not (read.refusal or "").startswith(REFUSED):
        diagnosis.unseen.append(f"The configuration was not checked by nginx: {printable(read.refusal, 300)}.")
    elif not conf.fragment:
        diagnosis.add(refusal(path, read.refusal or ""))
    if conf.fragment:
        diagnosis.unseen.append(
            f"{printable(path, 300)} is not a complete configuration: the levels around it (log, stamp, headers) "
            "were not checked. Give nginx.conf."
        )
    diagnosis.unseen += [printable(each, 300) for each in read.missing]
    if conf.somaxconn is None:
        diagnosis.unseen.append("net.core.somaxconn of its machine: give --somaxconn to check backlogs against it.")
    _run_checks(conf, diagnosis)
    diagnosis.add(app_sockets(conf) if accepted or denied else Diagnosis(unseen=[UNSEEN]))
    return diagnosis, conf


def with_builtin_includes(root: Directive, path: Path) -> None:
    """Replace includes of missing Sojourn files by their contents."""
    for block in (root, *_blocks(root)):
        directives: list[Directive] = []
        for each in block.block:
            text = BUILTIN_INCLUDES.get(PurePath(each.args[0]).name) if each.name == "include" and each.args else None
            if text is None:
                directives.append(each)
                continue
            for included in parsed(text, os.path.join(os.path.dirname(os.path.abspath(path)), each.args[0])).block:
                included.via = included.by = each
                directives.append(included)
        block.block[:] = directives


def _blocks(root: Directive) -> list[Directive]:
    return [inner for each in root.block if each.block for inner in (each, *_blocks(each))]


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


def _run_checks(conf: Conf, diagnosis: Diagnosis) -> None:
    for findings, fine in (
        (list(stamp_findings(conf)), _stamped(conf) if conf.passes else ""),
        (list(log_findings(conf)), _logged(conf)),
        (
            [*trust_findings(conf), *client_findings(conf)],
            "stamps are trusted from listed addresses only" if conf.judges else "",
        ),
        (list(header_findings(conf)), _headers_checked(conf)),
        (
            list(upstream_findings(conf)),
            "connections, buffers and retries do not hide queueing" if conf.passes else "",
        ),
        (
            list(machine_findings(conf)),
            "backlogs, clock, limits and route names are in order" if conf.levels else "",
        ),
    ):
        diagnosis.findings += [defining(conf, each) for each in findings]
        if fine and not findings:
            diagnosis.checked.append(fine)


def _headers_checked(conf: Conf) -> str:
    stamped = any(each.stamped for each in conf.passes)
    return "the app's headers reach the log and are hidden from the client" if stamped else ""


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


def _somaxconn() -> int | None:
    try:
        return int(_SOMAXCONN.read_text())
    except (OSError, ValueError):
        return None


def _version() -> tuple[int, ...] | None:
    """Return the version of the nginx that is installed here; None without one."""
    try:
        done = subprocess.run(
            ["nginx", "-v"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"/(\d+)\.(\d+)\.(\d+)", done.stderr.decode("utf-8", "replace"))
    return tuple(int(part) for part in match.groups()) if match else None
