"""Run a command of Sojourn for a call: a process of its own, with limits, that no call leaves behind."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process

from sojourn.model.dsn import PASSWORD
from sojourn.model.errors import SojournError

MOST_BYTES = 64 << 20  # of standard output
MOST_MESSAGES = 64 << 10  # bytes of standard error
GRACE = 1.0  # s from SIGTERM to SIGKILL
# What a command needs of the environment. No credentials; the password of a store only where a call names one.
_VARIABLES = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "PATH", "POLARS_MAX_THREADS", "PYTHONPATH", "TZ", "XDG_CACHE_HOME",
)  # fmt: skip
_OF_STORES = (PASSWORD, f"{PASSWORD}_FILE", "SSL_CERT_FILE")


@dataclass(frozen=True)
class Finished:
    """A command that has ended.

    Attributes:
        code: its exit code; negative: the signal that ended it.
        output: what it wrote to standard output.
        messages: the begin of what it wrote to standard error.
    """

    code: int
    output: bytes
    messages: str


class Processes:
    """The processes of the calls.

    Attributes:
        seconds: a process that runs longer is ended.
    """

    def __init__(self, seconds: float, at_once: int = 2) -> None:
        """Allow ``at_once`` processes; further calls wait."""
        self.seconds = seconds
        self._scopes: set[anyio.CancelScope] = set()
        self._free = anyio.Semaphore(at_once)

    async def run(self, arguments: Sequence[str], *, store: bool = False) -> Finished:
        """Run ``sojourn`` with arguments and return its outputs; a cancelled call ends the process.

        Args:
            arguments: the name of a command, its options and its sources.
            store: whether a source is a store: the process gets the variables with its password.

        Raises:
            SojournError: the process ran too long, or its output is too large.
        """
        names = _VARIABLES + (_OF_STORES if store else ())
        environment = {name: os.environ[name] for name in names if name in os.environ}
        # -P: nothing is imported from the folder in which the server was started.
        command = [sys.executable, "-P", "-m", "sojourn", "--no-config", *arguments]
        async with self._free:
            with tempfile.TemporaryDirectory(prefix="sojourn-mcp-", ignore_cleanup_errors=True) as folder:
                environment["TMPDIR"] = folder  # also that of a process that is killed is removed
                with anyio.move_on_after(self.seconds) as scope, self._ends_with(scope):
                    async with _process(command, environment) as process:
                        return await _outputs(process)
        raise self.too_slow()

    def too_slow(self) -> SojournError:
        """Return the error of a call that reached the time limit."""
        return SojournError(
            f"no answer within {self.seconds:g} s, the limit of this server (--timeout): narrow the requests, or name "
            "fewer files"
        )

    @contextlib.contextmanager
    def _ends_with(self, scope: anyio.CancelScope) -> Iterator[None]:
        self._scopes.add(scope)
        try:
            yield
        finally:
            self._scopes.discard(scope)

    async def end(self) -> None:
        """End every process."""
        for scope in self._scopes:
            scope.cancel()
        while self._scopes:
            await anyio.sleep(0.01)
        await anyio.lowlevel.checkpoint()


@contextlib.asynccontextmanager
async def _process(command: Sequence[str], environment: dict[str, str]) -> AsyncIterator[Process]:
    process = await anyio.open_process(command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, cwd="/")
    # Where memory runs out, the kernel ends this process before nginx.
    with contextlib.suppress(OSError), open(f"/proc/{process.pid}/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _outputs(process: Process) -> Finished:
    output, messages = bytearray(), bytearray()
    assert process.stdout is not None  # noqa: S101 - a pipe
    assert process.stderr is not None  # noqa: S101
    async with anyio.create_task_group() as group:
        group.start_soon(_read_messages, process.stderr, messages)
        async for part in process.stdout:
            output += part
            if len(output) > MOST_BYTES:
                group.cancel_scope.cancel()
                break
    if len(output) > MOST_BYTES:
        raise SojournError(f"the answer is larger than {MOST_BYTES >> 20} MB: narrow the requests, or name fewer files")
    return Finished(await process.wait(), bytes(output), messages.decode("utf-8", "replace"))


async def _read_messages(stream: ByteReceiveStream, messages: bytearray) -> None:
    """Read a stream to its end: a process whose pipe is full would wait."""
    async for part in stream:
        messages += part[: MOST_MESSAGES - len(messages)]


async def _end(process: Process) -> None:
    """End a process and wait for it: SIGTERM first, with which it removes its files."""
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        if process.returncode is None:
            process.terminate()
            with anyio.move_on_after(GRACE, shield=True):
                await process.wait()
        if process.returncode is None:
            process.kill()
    await process.aclose()
