"""The versions of a run's software, without which figures cannot be compared later."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Collection

from sojourn_lab.runtime.nginx import nginx_program, nginx_version
from sojourn_lab.runtime.servers.java import tomcat_jars
from sojourn_lab.runtime.servers.others import fpm_program

DISTRIBUTIONS = ("sojourn", "sojourn-middleware", "gunicorn", "aiohttp", "opentelemetry-sdk", "numpy")
UNKNOWN = "unknown"


def _commands() -> dict[str, dict[str, list[str]]]:
    """Return program names and the commands that print their versions, by the kind of app server."""
    return {
        "unicorn": {"unicorn": ["unicorn", "--version"], "ruby": ["ruby", "--version"]},
        "puma": {"puma": ["puma", "--version"], "ruby": ["ruby", "--version"]},
        "php-fpm": {"php": [fpm_program() or "php-fpm", "-n", "-v"]},
        "uwsgi": {"uwsgi": ["uwsgi", "--version"]},
        "node": {"node": ["node", "--version"]},
        "go": {"go": ["go", "version"]},
        "java": {"java": ["java", "--version"]},
        "tomcat": {
            "java": ["java", "--version"],
            "tomcat": ["java", "-cp", ":".join(tomcat_jars()), "org.apache.catalina.util.ServerInfo"],
        },
    }


def processors() -> int | None:
    """Return how many processors programs may use here; None if the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def versions_here(servers: Collection[str]) -> dict[str, str]:
    """Return the versions of all software used, or `unknown`; `servers` are kinds of app server."""
    program = nginx_program()
    versions = {
        "nginx": (nginx_version(program) if program else "") or UNKNOWN,
        # The module reports its version only inside a configuration; its command comes from the same source.
        "njs": _first_version(["njs", "-v"]),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "system": _system(),
        "machine": platform.machine(),
        "processors": str(processors() or UNKNOWN),
    }
    for name in DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    for server, commands in _commands().items():
        if server in servers:
            versions |= {name: _first_version(command) for name, command in commands.items()}
    return versions


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", UNKNOWN)
    except OSError:
        return platform.system() or UNKNOWN


def _first_version(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return "not installed"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    number = re.search(r"\d+(?:\.\d+)+\S*", done.stdout + done.stderr)
    return number[0] if number else UNKNOWN
