"""The folders that containers share with the run: the files they read, and the files they write."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.compose.nginx_conf import TRUSTED
from sojourn_lab.runtime.compose.parts import APP_PORT, MAIN, AppService, Front, Parts
from sojourn_lab.runtime.compose.project import sampler_name, settings_file
from sojourn_lab.runtime.servers.python import gunicorn_settings

NO_SAMPLERS = (
    "unavailable: the sampler of accept queues in containers needs the image {}, which the engine does not have"
)


def lay_out(folder: Path, parts: Parts) -> None:
    """Make the folders below `folder`: the include files for each nginx, the lab's app and the apps' settings."""
    for name in ("app", "log", "spans", *(front.name for front in parts.fronts)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for front in parts.fronts:
        copy_includes(folder / front.name / "sojourn", front)
    for source in resource_file("backend").glob("*.py"):
        shutil.copyfile(source, folder / "app" / source.name)
    for app in parts.apps:
        if app.topology.server == "gunicorn":
            text = gunicorn_settings(f"0.0.0.0:{APP_PORT}", app.topology)
            (folder / "app" / settings_file(app)).write_text(text)


def copy_includes(folder: Path, front: Front) -> None:
    """Copy the include files for one nginx; those of a later tier trust their clients."""
    folder.mkdir(exist_ok=True)
    for source in resource_file("nginx").iterdir():
        if source.suffix in {".conf", ".js"}:
            shutil.copyfile(source, folder / source.name)
    if front.name != MAIN:
        (folder / "trusted.conf").write_text(TRUSTED)


def write_nginx(folder: Path, front: Front, text: str) -> None:
    """Replace an nginx.conf atomically: nginx never reads half of it."""
    beside = folder / front.name / "nginx.conf.new"
    beside.write_text(text)
    beside.chmod(0o644)
    beside.replace(folder / front.name / "nginx.conf")


def give(folder: Path, user: int, group: int) -> None:
    """Change the owner of a folder and its contents; root only."""
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            os.chown(path, user, group, follow_symlinks=False)


def nginx_version(folder: Path) -> str:
    """Return the version that nginx logs when it starts; `unknown` without one."""
    version = re.search(r"nginx/(\d\S*)", error_log_text(folder))
    return version[1] if version else "unknown"


def error_log_text(folder: Path) -> str:
    """Return nginx's error log so far; empty without one."""
    try:
        return (folder / "log" / f"{MAIN}.error.log").read_text(errors="replace")
    except OSError:
        return ""


def spans_of(folder: Path, app: AppService) -> Path:
    """Return the file of an app's spans."""
    return folder / "spans" / f"{app.name}.spans.jsonl"


def append(source: Path, target: Path) -> None:
    """Append a file's lines to another file; nothing if it does not exist."""
    with contextlib.suppress(FileNotFoundError), source.open("rb") as lines, target.open("ab") as out:
        shutil.copyfileobj(lines, out)


def append_samples(folder: Path, services: Iterable[str], target: Path) -> None:
    """Append the samples of all accept queues to a file, ordered by time."""
    lines = []
    for service in services:
        with contextlib.suppress(FileNotFoundError):
            lines += sampler_file(folder, service).read_bytes().splitlines()
    lines.sort(key=lambda line: msgspec.json.decode(line).get("time", 0.0))
    with target.open("ab") as out:
        out.writelines(line + b"\n" for line in lines)


def sampler_file(folder: Path, service: str) -> Path:
    """Return the file with the samples of a service's accept queue."""
    return folder / "log" / f"{sampler_name(service)}.jsonl"
