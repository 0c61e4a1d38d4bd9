"""A client of `sojourn mcp`, over the standard streams of the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
COMMAND = [sys.executable, "-m", "sojourn", "--no-config"]
DEADLINE = 60.0


class Session:
    """One server, its process and its client; methods wait for the answer."""

    def __init__(self, portal: BlockingPortal, client: Client, pid: int) -> None:
        self.portal, self.client, self.pid = portal, client, pid

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.portal.call(self.client.call_tool, tool, arguments)

    def start(self, tool: str, **arguments: Any) -> Any:
        """Call without waiting; returns the future of the answer."""
        return self.portal.start_task_soon(self.client.call_tool, tool, arguments)

    def values(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The JSON of an answer that is no error; its text and its structure are the same."""
        answer = self.call(tool, **arguments)
        assert not answer.is_error, answer.content
        assert answer.content[0].text.isascii()
        assert json.loads(answer.content[0].text) == answer.structured_content
        return dict(answer.structured_content)

    def error(self, tool: str, **arguments: Any) -> str:
        """The sentence of an answer that is an error."""
        answer = self.call(tool, **arguments)
        assert answer.is_error
        assert answer.structured_content is None
        (content,) = answer.content
        return str(content.text)


@contextmanager
def session(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Iterator[Session]:
    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "mcp", *arguments], env=env, cwd=cwd)
    before = children(os.getpid())
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        (pid,) = set(children(os.getpid())) - set(before)
        yield Session(portal, client, pid)


def printed(*arguments: str) -> dict[str, Any]:
    """What a command prints with --json."""
    command = [*COMMAND, *arguments, "--json"]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=False, timeout=120).stdout))


def until(condition: Callable[[], Any], what: str) -> Any:
    """The value of a condition as soon as it is true."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return value


def children(pid: int) -> list[int]:
    """The processes that a process has started; those that have ended and were not waited for are none of them."""
    started = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == pid and state != "Z":
            started.append(int(status.parent.name))
    return sorted(started)


def command_line(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
