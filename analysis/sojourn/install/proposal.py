"""What an installation or a removal changes in a configuration of nginx."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.doctor.nginx_levels import Conf
from sojourn.doctor.nginx_records import FULL, INCLUDES_FOLDER, RECORDS, Record
from sojourn.doctor.nginx_trust import LEAK, header_findings
from sojourn.install.changes import Plan, Settings, is_ours
from sojourn.install.files import MANIFEST, Writing, installed_files, manifest_of
from sojourn.install.marked_text import changed, is_changed, restored
from sojourn.install.nginx_program import NginxProgram, master_of, nginx_program
from sojourn.install.plan import MODULE, planned
from sojourn.install.rotation import rotation_rule
from sojourn.model.errors import SojournError
from sojourn.nginx.includes import USER_FILE, include_files
from sojourn.nginx.syntax import reading_of_files

LOG_NAME = "sojourn.jsonl"
DENIED = "13: Permission denied"  # only root may test the configuration of a running nginx


@dataclass
class Proposal:
    """What is to be done to a configuration.

    Attributes:
        conf: the first file of the configuration.
        writing: the files, before and after.
        plan: of an installation, what is changed for which purpose.
        log: the log of the requests.
        included: real paths of the include files, whose contents no diff shows.
        edited: include files that were edited since they were installed, and are removed.
        program: the nginx of this machine; None without one.
        master: the process of the nginx that runs with the configuration; None without one.
        njs: False: the variables need the njs module, and this nginx has none.
        record: of an installation, what is stamped and logged.
        is_decided: whether the caller or the configuration decided about the record.
        leaking: of a removal, the places that send a stamp of the user's to an app and do not hide its headers.
    """

    conf: Path
    writing: Writing
    plan: Plan
    log: str
    included: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    program: NginxProgram | None = None
    master: int | None = None
    njs: bool = True
    record: Record = FULL
    is_decided: bool = True
    leaking: list[str] = field(default_factory=list)

    @property
    def diff(self) -> str:
        """The change of the configuration as a unified diff, without the include files."""
        return self.writing.diff(self.included)


def _conf_of(path: Path) -> Conf:
    conf = Conf(path, reading_of_files(path))
    if conf.fragment:
        raise SojournError(f"{path}: a part of a configuration, without http {{ }}: name nginx.conf")
    return conf


def installation(path: Path, choices: Mapping[str, str], log: str | None = None, record: str | None = None) -> Proposal:
    """Return what an installation changes.

    Args:
        path: the first file of the configuration.
        choices: header in small letters -> ``ours`` or ``yours``, see ``sojourn.install.duplicates``.
        log: the file of the log; None: beside nginx's own.
        record: what is stamped and logged, ``full`` or ``lean``; None: as the configuration has it, otherwise full.

    Raises:
        SojournError: the configuration cannot be read, or is refused by nginx, or has another record, or its folder of
            include files is not the one of this version.
    """
    program = nginx_program()
    conf = _conf_of(path)
    refusal = program.refusal(path) if program is not None else None
    if refusal is not None and DENIED not in refusal:
        raise SojournError(f"{path}: nginx refuses the configuration as it is, so nothing was changed: {refusal}")
    of_record = _record_of(conf, None if record is None else RECORDS[record])
    default_log = program.default_log if program is not None else "/var/log/nginx/access.log"
    log = log or os.path.join(os.path.dirname(default_log), LOG_NAME)
    settings = Settings(
        folder=conf.folder,
        log=log,
        default_log=default_log,
        njs=program.njs_line(conf.read.root, MODULE) if program is not None and of_record is FULL else "",
        choices=choices,
        record=of_record,
    )
    plan = planned(conf, settings)
    writing = Writing()
    _write_changes(conf, plan, writing)
    earlier = installed_files(_folder_of(path))
    has_own_files = bool(earlier) or not conf.has_includes
    rule = rotation_rule(log, path, program) if program is not None else None
    included: list[str] = []
    if has_own_files and (plan.changes or earlier):
        included = _write_includes(path, writing, plan, earlier, rule)
    return Proposal(
        path, writing, plan, log, included, program=program, njs=settings.njs is not None, record=of_record,
        is_decided=record is not None or conf.record is not None,
        master=master_of(path, conf.read.root, program) if program is not None else None,
    )  # fmt: skip


def _record_of(conf: Conf, record: Record | None) -> Record:
    """Return the record to install: a configuration has one for all its requests."""
    if record is not None and conf.record not in (None, record):
        raise SojournError(
            f"{conf.path}: has the {conf.record.name} record already: remove it first, with sojourn uninstall nginx"
        )
    return record or conf.record or FULL


def _write_changes(conf: Conf, plan: Plan, writing: Writing) -> None:
    texts = {os.path.realpath(name): text for name, text in conf.read.files.items()}
    for file, changes in plan.changes.items():
        writing.set(file, changed(texts[file], changes).encode("utf-8", "surrogateescape"))


def _folder_of(path: Path) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(path)), INCLUDES_FOLDER)


def _write_includes(
    path: Path, writing: Writing, plan: Plan, earlier: Mapping[str, bool], rule: tuple[str, bytes] | None
) -> list[str]:
    """Add the include files to what is written, and return their real paths.

    A file that was edited since an earlier installation remains, and the list of trusted peers remains in any case.

    Args:
        path: the first file of the configuration.
        writing: what is written.
        plan: gets a sentence about each file that remains.
        earlier: name of each file of an earlier installation -> whether it is unchanged since.
        rule: path and content of the rule that rotates the log; None without one.
    """
    folder = _folder_of(path)
    files = include_files()
    in_manifest = dict(files)
    for name, content in files.items():
        target = os.path.join(folder, name)
        if not os.path.exists(target) or earlier.get(name):
            writing.set(target, content)
        elif name in earlier:
            plan.left.append(f"{target}: remains, because it was edited since its installation.")
        elif name == USER_FILE:
            del in_manifest[name]
        elif Path(target).read_bytes() != content:
            raise SojournError(f"{target}: exists, and is not the file of this version: move the folder away")
    if rule is not None:
        writing.set(*rule)
        in_manifest[rule[0]] = rule[1]
    writing.set(os.path.join(folder, MANIFEST), manifest_of(in_manifest))
    return _files_in(folder, writing)


def _files_in(folder: str, writing: Writing) -> list[str]:
    """Return the real paths of the files of a folder that are written or removed."""
    return [file for file in writing.after if os.path.dirname(file) == os.path.realpath(folder)]


def removal(path: Path) -> Proposal:
    """Return what an uninstallation changes.

    Raises:
        SojournError: the configuration cannot be read.
    """
    program = nginx_program()
    conf = _conf_of(path)
    folder = _folder_of(path)
    writing = _restored_files(conf)
    needed = _still_included(conf, writing, folder)
    if needed:
        writing = _restored_files(conf, MODULE)  # the files that remain in use need it
    files = installed_files(folder)
    included, edited = [], []
    if files and not needed:
        for name, is_same in files.items():
            target = os.path.join(folder, name)
            if not is_same:
                edited.append(target)
            if os.path.exists(target):
                writing.set(target, None)
        writing.set(os.path.join(folder, MANIFEST), None)
        included = _files_in(folder, writing)
    lines = [each for level in (conf.http, *conf.levels) for each in level.own("access_log")]
    logs = [each.args[0] for each in lines if is_ours(each)]
    plan = Plan(left=[f"{each}: still includes a file of {folder}" for each in needed])
    return Proposal(
        path, writing, plan, logs[0] if logs else "", included, edited, program,
        master=master_of(path, conf.read.root, program) if program is not None else None,
        leaking=_leaking(path, writing),
    )  # fmt: skip


def _leaking(path: Path, writing: Writing) -> list[str]:
    """Return the places from which clients get the headers of an app, after a change, if its middleware remains."""
    findings = header_findings(Conf(path, reading_of_files(path, contents=writing.texts)))
    return [each.where for each in findings if each.code == LEAK]


def _restored_files(conf: Conf, keep: str | None = None) -> Writing:
    writing = Writing()
    for name, text in conf.read.files.items():
        if is_changed(text):
            writing.set(name, restored(text, keep).encode("utf-8", "surrogateescape"))
    return writing


def _still_included(conf: Conf, writing: Writing, folder: str) -> list[str]:
    """Return the files of a configuration that include the folder by lines that were not installed."""
    names = []
    texts = writing.texts
    for name, text in conf.read.files.items():
        if os.path.dirname(os.path.realpath(name)) == os.path.realpath(folder):
            continue
        lines = (line.split("#")[0] for line in texts.get(os.path.realpath(name), text).splitlines())
        if any("include" in line and f"{INCLUDES_FOLDER}/" in line for line in lines):
            names.append(name)
    return names
