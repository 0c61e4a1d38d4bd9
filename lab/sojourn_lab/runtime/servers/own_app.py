"""The user's own app: start it by its command, and request whether it is ready."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.errors import LabError
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.probe import accepts, answered_status
from sojourn_lab.runtime.servers.start import Start
from sojourn_lab.scenario.app_command import filled
from sojourn_lab.scenario.topology import Topology

BELOW = 400
"""A status below this says that the app is ready."""


def own_app(start: Start) -> Process:
    """Return the process of the topology's command, not started yet."""
    topology, values = start.topology, _values(start)
    words = [filled(word, values) for word in shlex.split(topology.command or "")]
    return Process(words, name=start.name, folder=start.folder, env=_environment(start, values), cwd=_folder(topology))


def why_command_unavailable(topology: Topology) -> str | None:
    """Return why the command of a topology cannot be started here: its folder or its program is missing."""
    folder = _folder(topology)
    if not folder.is_dir():
        return f"`cwd`: there is no folder {folder}"
    program = shlex.split(topology.command or "")[0]
    if "/" in program:
        path = folder / program
        if path.is_file() and os.access(path, os.X_OK):
            return None
        return f"`command`: {path} {'is not executable' if path.exists() else 'does not exist'}"
    search = topology.env.get("PATH", os.environ.get("PATH", os.defpath))
    if shutil.which(program, path=search) is not None:
        return None
    return f"`command`: {program} is not installed: no folder of PATH has it; install it, or write its whole path"


@dataclass(frozen=True)
class Readiness:
    """When the user's own app is ready.

    Attributes:
        address: host and port, or the path of a Unix socket.
        path: is answered below 400; None: its socket accepts a connection.
        within: seconds.
    """

    address: tuple[str, int] | Path
    path: str | None
    within: float

    def await_start(self, process: Process) -> None:
        """Wait until the started app is ready; LabError with its last output if it ends first, or is late."""
        what = "it to accept a connection" if self.path is None else f"GET {self.path} to be answered below {BELOW}"
        try:
            process.wait_until(self._is_ready, self.within, what)
        except LabError as error:
            raise LabError(f"{self._hint(process)}: {error}") from None

    def await_idle(self, process: Process, deadline: float) -> None:
        """Wait until a request is answered: an app of one worker then has no other. LabError after `deadline` s."""
        path = self.path or "/"
        process.wait_until(
            lambda: answered_status(self.address, path, timeout=1.0) is not None,
            deadline,
            f"GET {path} to be answered after the load",
        )

    def _is_ready(self) -> bool:
        if self.path is None:
            return accepts(self.address)
        status = answered_status(self.address, self.path, timeout=1.0)
        return status is not None and status < BELOW

    def _hint(self, process: Process) -> str:
        """Return what is wrong with an app that is not ready."""
        where = str(self.address) if isinstance(self.address, Path) else f"{self.address[0]}:{self.address[1]}"
        if (code := process.exit_code()) is not None:
            return "the command must not go to the background" if code == 0 else "the command of the app failed"
        if not accepts(self.address):
            return f"the app does not listen on {where}: use the placeholders of the address in `command` or `env`"
        status = answered_status(self.address, self.path or "/", timeout=1.0)
        answer = (
            f"answers {self.path} with {status}" if status is not None else f"does not answer {self.path} in a second"
        )
        return f"the app listens on {where} and {answer}"


def _values(start: Start) -> Mapping[str, str]:
    topology, bound = start.topology, start.bound
    host, _, port = bound.rpartition(":")
    address = {"socket": bound} if topology.unix else {"address": bound, "host": host, "port": port}
    numbers = {name: str(getattr(topology, name)) for name in ("workers", "threads", "backlog")}
    return {"name": start.name, **numbers, **address}


def _environment(start: Start, values: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command: the lab's own, `SOJOURN_SPANS` and the variables of the topology."""
    spans = {"SOJOURN_SPANS": str(start.spans)} if start.spans is not None else {}
    own = {name: filled(value, values) for name, value in start.topology.env.items()}
    return {**os.environ, **spans, **own}


def _folder(topology: Topology) -> Path:
    return Path(topology.cwd or ".").absolute()
