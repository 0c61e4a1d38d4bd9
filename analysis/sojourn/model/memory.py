"""The memory of this machine, and what does not fit into it."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted

LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
VISIT_BYTES = 750  # what a request takes in the memory of an analysis that places all requests in time
REPLAY_BYTES = 1_300  # what it takes where changes are replayed, two at a time
MOST_PLACED = 1_500_000  # requests that a report places in time: its analyses take less than 4 GB
USABLE = 0.8  # share of the memory that an analysis may take


@functools.cache
def memory() -> int:
    """Return the bytes of memory of the machine, or what the control group of the process allows of it."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # none, or "max"
            size = min(size, int(path.read_text()))
    return size


def refuse_beyond_memory(requests: int, each: int = VISIT_BYTES) -> None:
    """Refuse requests that do not fit into memory at once, before they are loaded; ``each``: bytes of one.

    Raises:
        SojournError: they need more than the memory that may be used; the text says how many fit.
    """
    fitting = int(USABLE * memory()) // each
    if requests > fitting:
        raise SojournError(
            f"{counted(requests, 'request')} placed in time: about {requests * each / 1e9:.1f} GB are needed, "
            f"and {memory() / 1e9:.1f} GB of memory hold {fitting:,} of them; narrow them with --since and --until"
        )
