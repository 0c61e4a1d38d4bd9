"""The sysctls in force that decide what becomes of a connection before accept()."""

from __future__ import annotations

from pathlib import Path

from sojourn.host.sample import SETTINGS
from sojourn.model.errors import KernelUnavailableError

SYSCTLS = Path("/proc/sys")


def settings(root: Path = SYSCTLS) -> dict[str, int]:
    """Return ``SETTINGS`` of the calling thread's network namespace, by their last name (``somaxconn``).

    Those a kernel does not have are left out.

    Raises:
        KernelUnavailableError: not one of them is there.
    """
    found = {}
    for name in SETTINGS:
        try:
            found[name.rpartition(".")[2]] = int((root / name.replace(".", "/")).read_text())
        except (OSError, ValueError):
            continue
    if not found:
        raise KernelUnavailableError(f"{root}: there is none of the network's settings in it")
    return found
