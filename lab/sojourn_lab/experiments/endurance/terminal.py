"""`python -m sojourn_lab.experiments.endurance.terminal COMMAND…`: run it on a pseudo-terminal.

Its output is read, so that it never blocks, and discarded. SIGTERM goes on to it; the exit code is its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from types import FrameType

LINES, COLUMNS = 40, 120


def main(command: list[str]) -> int:
    """Return the exit code of the command; minus the number of the signal that ended it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)  # noqa: S606 - the caller names the command
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def passed_on(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    signal.signal(signal.SIGTERM, passed_on)
    with contextlib.suppress(OSError):  # the other end is closed: it has ended
        while os.read(terminal, 65_536):
            pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
