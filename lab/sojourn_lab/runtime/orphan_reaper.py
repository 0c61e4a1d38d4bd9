"""End the lab's process groups if the lab itself was killed.

Run as a program (`python orphan_reaper.py`) with a pipe on its standard input. The lab writes `+PGID` when a process
group starts and `-PGID` when it has ended. The pipe closes when the lab ends for any reason; the groups still
on the list then get SIGTERM and, GRACE_S later, SIGKILL.

PR_SET_PDEATHSIG is not enough: it fires when the *thread* that forked ends, and it does not reach grandchildren
(the workers of nginx survive a killed master).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable

GRACE_S = 2.0


def groups_left(lines: Iterable[str]) -> set[int]:
    """Return the process groups that were announced (`+PGID`) and not removed (`-PGID`)."""
    left: set[int] = set()
    for line in lines:
        sign, number = line[:1], int(line[1:])
        if sign == "+":
            left.add(number)
        else:
            left.discard(number)
    return left


def signal_groups(groups: Iterable[int], which: signal.Signals) -> None:
    """Send `which` to every group that still exists."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, which)


def main() -> None:
    """Wait for the pipe to close, then end the remaining groups."""
    # Ctrl-C is handled by the lab, which removes its groups itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    left = groups_left(sys.stdin)
    signal_groups(left, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = {group for group in left if has_member(group)}
    signal_groups(left, signal.SIGKILL)


def has_member(group: int) -> bool:
    """Return whether the process group has a member (a zombie counts)."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    main()
