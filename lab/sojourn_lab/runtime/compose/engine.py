"""Run the docker command, and find the lab's leftovers in the engine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.measure.proc import GONE, stat_of
from sojourn_lab.runtime.compose.keeper import PROJECT_LABEL, removed

OWNER_LABEL = "sojourn.lab.owner"
PATIENCE = 60.0
"""Timeout of one docker command, s; the engine answers in less than 1 s."""


@dataclass(frozen=True)
class Engine:
    """A running engine.

    Attributes:
        version: of the engine.
        compose: version of the plugin.
        processors: the maximum for a container.
        rootless: its root is the user who started it; it has no other user of the host.
    """

    version: str
    compose: str
    processors: int
    rootless: bool


def image_of(part: str) -> str:
    """Return the image of `app`, `nginx` or `tools`: that of docker-compose.yml, or that of the environment.

    The variables are SOJOURN_APP_IMAGE, SOJOURN_NGINX_IMAGE and SOJOURN_TOOLS_IMAGE.
    """
    return os.environ.get(f"SOJOURN_{part.upper()}_IMAGE") or f"sojourn-{part}:{importlib.metadata.version('sojourn')}"


def docker(*arguments: str, patience: float = PATIENCE) -> str:
    """Return the output of a docker command; LabError with its message if it fails."""
    words = f"docker {arguments[0]}"
    try:
        done = subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            check=False,
            env=environment(),
            # Ctrl-C signals the lab, which then stops everything.
            start_new_session=True,
        )
    except OSError as error:
        raise LabError(f"docker cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{words}: no answer within {patience:g} s") from None
    if done.returncode:
        raise LabError(f"{words}: {last_line(done.stderr) or f'exit code {done.returncode}'}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return the environment without variables that select another project or file for compose."""
    return {key: value for key, value in os.environ.items() if not key.startswith("COMPOSE_")}


def last_line(text: str) -> str:
    """Return the last line that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def engine_here() -> Engine:
    """Return the engine; LabError with the missing part if there is none."""
    if shutil.which("docker") is None:
        raise LabError("docker is not installed: --runtime compose needs a Docker engine and its compose plugin")
    try:
        compose = docker("compose", "version", "--short").strip()
    except LabError as error:
        raise LabError(f"docker has no compose plugin ({error})") from None
    try:
        info = json.loads(docker("info", "--format", "{{json .}}"))
    except (LabError, ValueError) as error:
        raise LabError(f"no Docker engine is running ({error})") from None
    if not info.get("ServerVersion"):
        raise LabError(f"no Docker engine is running ({'; '.join(info.get('ServerErrors') or ['no message'])})")
    rootless = any("rootless" in option for option in info.get("SecurityOptions") or [])
    return Engine(info["ServerVersion"], compose, max(1, int(info.get("NCPU") or 1)), rootless)


def image_id(image: str) -> str | None:
    """Return the id of an image of the engine; None if it does not have it."""
    try:
        return docker("image", "inspect", "--format", "{{.Id}}", image).strip()
    except LabError as error:
        if "No such image" in str(error):
            return None
        raise


def image_ids(images: Sequence[str]) -> dict[str, str]:
    """Return the ids of images; LabError with the first missing image and the command that builds it."""
    identities = {image: image_id(image) for image in images}
    for image, identity in identities.items():
        if identity is None:
            raise LabError(f"the Docker engine has no image {image}: `docker compose build` in a checkout makes it")
    return {image: identity for image, identity in identities.items() if identity is not None}


def owner_here() -> str:
    """Return the label of this process: host, boot, process id and start (clock ticks)."""
    return f"{os.uname().nodename}|{_boot()}|{os.getpid()}|{_start_of(os.getpid())}"


def owner_gone(owner: str) -> bool:
    """Return whether the process of a label ran on this host and has ended."""
    host, _, rest = owner.partition("|")
    label = re.fullmatch(r"([^|]*)\|(\d+)\|(\d*)", rest)
    if host != os.uname().nodename or label is None:
        return False  # a process of another machine that uses the same engine
    return label[1] != _boot() or label[3] != _start_of(int(label[2]))


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    try:
        return str(stat_of(pid).start)
    except GONE:
        return ""


def remove_leftovers() -> list[str]:
    """Remove the remains of runs whose lab was killed, and return the names of their projects."""
    gone = set()
    for kind in (["ps", "--all"], ["network", "ls"]):
        rows = docker(
            *kind,
            *("--filter", f"label={OWNER_LABEL}"),
            *("--format", f'{{{{.Label "{PROJECT_LABEL}"}}}}\t{{{{.Label "{OWNER_LABEL}"}}}}'),
        )
        for line in rows.splitlines():
            project, _, owner = line.partition("\t")
            if project and owner_gone(owner):
                gone.add(project)
    for project in gone:
        removed(project)
    return sorted(gone)
