"""Counters and settings (sysctls) of the network namespace that affect connections before accept()."""

from __future__ import annotations

import re
from pathlib import Path

from sojourn.host.sample import COUNTERS, SETTINGS
from sojourn.model.errors import KernelUnavailableError

NETSTAT = Path("/proc/thread-self/net/netstat")
"""Of the calling thread's namespace; /proc/net is that of the process's first thread."""
SYSCTLS = Path("/proc/sys")
_NUMBER = re.compile(r"-?[0-9]{1,20}")


def counters(path: Path = NETSTAT) -> dict[str, int]:
    """Return ``COUNTERS`` since the namespace began; those a kernel does not have are left out.

    Raises:
        KernelUnavailableError: the file cannot be read or holds no TcpExt.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise KernelUnavailableError(f"{path}: {error.strerror}") from None
    values = tcp_ext(text)
    if not values:
        raise KernelUnavailableError(f"{path}: no TcpExt counters")
    return {name: values[name] for name in COUNTERS if name in values}


def tcp_ext(text: str) -> dict[str, int]:
    """Return the TcpExt counters of the text of /proc/net/netstat: a line of names, then a line of values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("TcpExt:")]
    if len(lines) < 2:
        return {}
    return {name: int(value) for name, value in zip(*lines[:2], strict=False) if _NUMBER.fullmatch(value)}


def settings(root: Path = SYSCTLS) -> dict[str, int]:
    """Return ``SETTINGS`` of the calling thread's network namespace, by their last name (``somaxconn``).

    Those a kernel does not have are left out.

    Raises:
        KernelUnavailableError: not one of them is there.
    """
    values = {}
    for name in SETTINGS:
        try:
            values[name.rpartition(".")[2]] = int((root / name.replace(".", "/")).read_text())
        except (OSError, ValueError):
            continue
    if not values:
        raise KernelUnavailableError(f"{root}: no network settings")
    return values
