"""The containers of one compose project: started, watched, and removed with everything that belongs to them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.runtime.compose import keeper
from sojourn_lab.runtime.compose.engine import docker, environment, last_line
from sojourn_lab.runtime.compose.project import STOP_S
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.process import Process, session_of_its_own

UP_PATIENCE = 180.0
DOWN_PATIENCE = 60.0
_POLL_S = 0.02
_LOOK_S = 1.0


class Containers:
    """A context in which the project of `file` may be started, and after which nothing of it exists.

    `members`: the services the run needs; an error names the first that ended.
    Their output is written to `logs`.
    """

    def __init__(self, project: str, file: Path, members: Sequence[str], logs: Path, interrupts: Interrupts) -> None:
        self._project = project
        self._file = file
        self._members = list(members)
        self._logs = logs
        self._interrupts = interrupts
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Containers:
        with self._interrupts.shielded():
            self._stack.enter_context(removal_guaranteed(self._project))
            self._stack.callback(self._take_down)
        return self

    def __exit__(self, *_: object) -> None:
        with self._interrupts.shielded():
            self._stack.close()

    def _compose(self, *arguments: str) -> list[str]:
        project = ["--file", str(self._file), "--project-name", self._project]
        return ["compose", "--progress", "quiet", *project, *arguments]

    def bring_up(self) -> None:
        """Return when every container runs; LabError with the message of the engine or of the first that ended."""
        command = ["docker", *self._compose("up", "--detach", "--wait", "--no-build")]
        with self._interrupts.shielded():
            up = Process(command, name="compose-up", folder=self._logs, env=environment())
            up.start()
            # `up` ends before the containers are removed; otherwise it would create more.
            self._stack.callback(up.stop)
        if up.wait(UP_PATIENCE):
            raise LabError(self.fallen() or f"the containers could not be started: {last_line(up.last_lines())}")

    def _take_down(self) -> None:
        with contextlib.suppress(LabError):
            words = docker(*self._compose("logs", "--no-color", "--timestamps"))
            (self._logs / "containers.log").write_text(words)
        with contextlib.suppress(LabError):
            down = self._compose("down", "--volumes", "--remove-orphans", "--timeout", str(STOP_S))
            docker(*down, patience=DOWN_PATIENCE)
        # What compose did not remove in time.
        keeper.removed(self._project)

    def name_of(self, service: str) -> str:
        """Return the name of a service's container."""
        return f"{self._project}-{service}"

    def published(self, service: str, port: int) -> int:
        """Return the port on this machine's loopback that is mapped to a service's port."""
        output = docker("port", self.name_of(service), f"{port}/tcp")
        return int(output.splitlines()[0].rpartition(":")[2])

    def fallen(self) -> str | None:
        """Return which container ended, how, and its last output; None if none did."""
        for service in self._members:
            try:
                output = docker("inspect", "--format", "{{json .State}}", self.name_of(service))
            except LabError:
                continue  # it was never created, because another one failed
            state = json.loads(output)
            if state["Status"] in {"exited", "dead"}:
                how = "beyond its memory limit" if state["OOMKilled"] else f"with exit code {state['ExitCode']}"
                return f"the container of {service} ended {how}: {self._said_by(service) or 'no output'}"
        return None

    def _said_by(self, service: str) -> str:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                ["docker", "logs", "--tail", "15", self.name_of(service)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
                timeout=30.0,
            )
            return last_line(done.stdout)
        return ""

    def wait_until(self, holds: Callable[[], bool], patience: float, what: str) -> None:
        """Return once `holds()`; LabError if a container ends before, or after `patience` seconds."""
        deadline = time.monotonic() + patience
        look = time.monotonic() + _LOOK_S
        while not holds():
            if time.monotonic() > look:
                look = time.monotonic() + _LOOK_S
                if (fallen := self.fallen()) is not None:
                    raise LabError(fallen)
            if time.monotonic() > deadline:
                raise LabError(f"waited {patience:g} s for {what}")
            time.sleep(_POLL_S)

    def hang_up(self, service: str) -> None:
        """Send a service's first process SIGHUP."""
        docker("kill", "--signal", "HUP", self.name_of(service))

    def processes(self, service: str) -> dict[int, str]:
        """Return the processes of a service by their ids on the engine's machine, with their command lines."""
        rows = [line.split(maxsplit=1) for line in docker("top", self.name_of(service), "-eo", "pid,args").splitlines()]
        return {int(pid): words for pid, words in rows[1:]}

    def output_of(self, service: str, *command: str) -> str:
        """Return what a command printed inside a service's container."""
        return docker("exec", self.name_of(service), *command)


@contextlib.contextmanager
def removal_guaranteed(project: str) -> Iterator[None]:
    """Start a program that removes the rest of the project if this one dies before the block ends."""
    guardian = session_of_its_own(keeper.__file__, project)
    try:
        yield
    finally:
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            guardian.communicate(keeper.ALL_CLEAR.encode(), timeout=5.0)
