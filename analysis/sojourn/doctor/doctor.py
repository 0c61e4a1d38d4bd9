"""Diagnose nginx configurations, logs and stores together: what is missing, and the line that mends it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from sojourn.doctor.app_lookup import plain_address, servers_at
from sojourn.doctor.app_servers import ANSWER_PAGE, AppServer
from sojourn.doctor.findings import Diagnosis, Finding
from sojourn.doctor.nginx import diagnosed_conf
from sojourn.doctor.nginx_keepalive import weigh_connects
from sojourn.doctor.nginx_levels import Conf
from sojourn.doctor.nginx_machine import location_paths, route_map
from sojourn.doctor.requests import answering
from sojourn.model.errors import CaptureError, SojournError
from sojourn.model.instants import Instant, limit_of
from sojourn.nginx.syntax import reading
from sojourn.readers.foreign_logs import IN_NGINX

NGINX, LOG, STORE = "nginx", "log", "store"
_MAGIC = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1")
_BLOCKS = {"http", "events", "server", "upstream", "stream", "location", "map", "load_module", "include", "user"}
_PEEK = 65_536
# Finding of a log -> findings of a configuration that can be its cause.
_CAUSES = {
    "app-silent": ("stamp-not-inherited", "stamp-missing", "headers-stripped"),
    "stamp-missing": ("stamp-not-inherited", "stamp-missing"),
    "log-keys": ("log-keys", "include-missing"),
    "log-stamp": ("log-stamp",),
    "log-format": ("include-missing", "log-missing"),
}


def diagnose(
    targets: Sequence[str] | str,
    *,
    spans: Sequence[str] = (),
    since: Instant = None,
    somaxconn: int | None = None,
    ask_backends: bool = False,
    ignored: Iterable[str] = (),
    log_format: str | None = None,
    table_columns: Sequence[str] = (),
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Return what nginx configurations, logs and stores lack.

    Targets explain each other: where the configuration is the cause of what a log lacks, the finding names it.

    Args:
        targets: nginx.conf (or a folder with one), anything ``sojourn.read`` reads, DSNs of stores.
        spans: files with the app's spans, for the logs.
        since: look at requests from this time on; None: all.
        somaxconn: net.core.somaxconn of the machine the configuration is for; None: this machine's.
        ask_backends: send ``HEAD /`` to backends, whose Server and X-Powered-By headers say which server each is.
        ignored: codes of findings to leave out.
        log_format: format of the logs, as for ``sojourn.log_file``; None: as a configuration among the targets defines
            it for the file, or recognised by the lines.
        table_columns: roles of the columns of tables, as ``--columns`` takes them; the logs are tables then.
        on_size: as for ``sojourn.read``.
        on_progress: as for ``sojourn.read``.

    Raises:
        SojournError: a target cannot be read at all.
    """
    names = [targets] if isinstance(targets, str) else list(targets)
    if not names:
        raise SojournError("no target: name nginx.conf, a log, a run folder or a store")
    diagnosis, confs, kinds = Diagnosis(), [], {target: kind_of(target) for target in names}
    for target in sorted(names, key=lambda one: kinds[one] != NGINX):
        if kinds[target] == NGINX:
            part, conf = diagnosed_conf(_conf_path(target), somaxconn, ask=ask_backends)
            confs.append(conf)
        elif kinds[target] == STORE:
            from sojourn.doctor.store import diagnosed_store  # noqa: PLC0415 - a store's driver is loaded for stores

            part = diagnosed_store(target, limit_of(since, "since"))
        else:
            from sojourn.doctor.log import diagnosed_log  # noqa: PLC0415 - Polars takes its time to load

            part = diagnosed_log(
                target,
                spans,
                limit_of(since, "since"),
                on_size,
                on_progress,
                log_format=log_format,
                columns=table_columns,
                confs=confs,
            )
        if kinds[target] != NGINX:
            servers = _servers(part.connects, confs, ask=ask_backends)
            part.findings = [_explained(finding, diagnosis, confs, servers) for finding in part.findings]
        diagnosis.add(part)
    weigh_connects(confs, diagnosis)
    return diagnosis.ordered(ignored)


def kind_of(target: str) -> str:
    """Return the kind of a target by its name and first bytes: ``nginx``, ``log`` or ``store``."""
    if "://" in target:
        return STORE
    path, isfile = Path(target), os.path.isfile  # False, not an error, without permission
    if os.path.isdir(path):
        is_conf = isfile(path / "nginx.conf") and not isfile(path / "access.jsonl")
    else:
        is_conf = path.suffix == ".conf" or (isfile(path) and _looks_like_conf(path))
    return NGINX if is_conf else LOG


def _looks_like_conf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            begin = file.read(_PEEK)
    except OSError:
        return False  # the reader of logs reports the reason
    if begin.startswith(_MAGIC) or begin.lstrip()[:1] in (b"{", b"[", b""):
        return False
    words = re.findall(rb"^[ \t]*(\w++)[^\n]*[;{]", begin, re.M)
    return bool({word.decode() for word in words} & _BLOCKS) and _parses(path)


def _parses(path: Path) -> bool:
    try:
        return any(each.name in _BLOCKS for each in reading(path).root.block)
    except CaptureError:
        return False


def _conf_path(target: str) -> Path:
    path = Path(target)
    return path / "nginx.conf" if path.is_dir() else path


def _servers(backends: Iterable[str], confs: list[Conf], *, ask: bool) -> dict[str, AppServer]:
    """Return the servers of backends: by a configuration, or, if ``ask``, by the responses of the others."""
    servers: dict[str, AppServer] = {}
    for conf in confs:
        for each in conf.passes:
            servers.update(conf.servers_of(each))
    plain = {backend: plain_address(backend) for backend in backends}
    unseen = [address for address in plain.values() if address not in servers]
    servers.update(servers_at(unseen, on_this_machine=False, ask=ask))
    return {backend: servers.get(address, AppServer()) for backend, address in plain.items()}


def _explained(finding: Finding, diagnosis: Diagnosis, confs: list[Conf], servers: dict[str, AppServer]) -> Finding:
    """Return a finding of a log or a store, completed by its backends' servers and its cause in a configuration."""
    if finding.code == "app-silent":
        finding = answering(finding, servers)
    if not confs:
        return finding
    if finding.code == "routes-many":
        return replace(finding, fix=route_map([path for conf in confs for path in location_paths(conf)]))
    codes = _CAUSES.get(finding.code, ())
    if finding.code == "log-format" and finding.into != IN_NGINX:  # another product wrote it
        return finding
    places = _places(finding.subject, confs)
    for cause in (each for code in codes for each in diagnosis.findings if each.code == code):
        if not places or cause.subject in places or cause.subject.startswith("log_format"):
            why = f"{finding.why} Cause in the configuration ({cause.code}): {cause.what}"
            return replace(finding, why=why, fix=cause.fix, how=cause.how, where=cause.where, into="")
    if finding.code == "app-silent" and places:
        why = f"The configuration stamps its requests and passes its headers: the app sends no times. {ANSWER_PAGE}"
        return replace(finding, why=why)
    return finding


def _places(backend: str, confs: list[Conf]) -> set[str]:
    """Return the titles of the levels whose requests go to a backend; empty for every backend or an unknown one."""
    titles: set[str] = set()
    for conf in confs:
        for each in conf.passes:
            if plain_address(backend) in conf.addresses(each):
                titles.update(level.title for level in (each.level, *each.level.above()))
    return titles
