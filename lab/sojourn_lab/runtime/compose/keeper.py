"""Remove the containers of a project whose lab was killed.

Run as a program (`python keeper.py PROJECT`) with a pipe on its standard input. The lab writes `down` when it has taken
the project down itself. The pipe closes when the lab dies, however it dies; what the engine then still has of the
project is removed. An engine's containers are not children of the lab: no signal to a process group would reach them.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time

PROJECT_LABEL = "com.docker.compose.project"
DEADLINE_S = 120.0
PAUSE_S = 1.5
ALL_CLEAR = "down"


def removed(project: str) -> int:
    """Remove a project's containers and networks; return how many of both there were."""
    label = f"label={PROJECT_LABEL}={project}"
    containers = _ids("ps", "--all", "--quiet", "--filter", label)
    if containers:
        _output_of("rm", "--force", "--volumes", *containers)
    networks = _ids("network", "ls", "--quiet", "--filter", label)
    if networks:
        _output_of("network", "rm", *networks)
    return len(containers) + len(networks)


def _ids(*arguments: str) -> list[str]:
    return _output_of(*arguments).split()


def _output_of(*arguments: str) -> str:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=60.0, check=False, start_new_session=True
        ).stdout
    return ""


def main() -> None:
    """Wait for the pipe to close, then remove the rest."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # These signals are for the lab, which stops everything and then reports it.
        signal.signal(each, signal.SIG_IGN)
    if sys.stdin.read().strip() == ALL_CLEAR:
        return
    deadline = time.monotonic() + DEADLINE_S
    quiet = 0
    # Until nothing is left twice: the engine may still be creating a container for a killed `up`.
    while quiet < 2 and time.monotonic() < deadline:
        quiet = 0 if removed(sys.argv[1]) else quiet + 1
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
