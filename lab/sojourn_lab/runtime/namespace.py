"""Run in a separate network namespace, with its own loopback, counters and sysctls.

The thread that enters is moved there; what it starts meanwhile, threads and processes, is there too. Needs the
capability CAP_SYS_ADMIN (man 7 network_namespaces, man 2 unshare, man 2 setns).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from sojourn_lab.errors import LabError

SYSCTLS = {
    "somaxconn": "net.core.somaxconn",
    "tcp_abort_on_overflow": "net.ipv4.tcp_abort_on_overflow",
    "tcp_max_syn_backlog": "net.ipv4.tcp_max_syn_backlog",
    "tcp_syn_linear_timeouts": "net.ipv4.tcp_syn_linear_timeouts",
    "tcp_syn_retries": "net.ipv4.tcp_syn_retries",
    "tcp_synack_retries": "net.ipv4.tcp_synack_retries",
    "tcp_syncookies": "net.ipv4.tcp_syncookies",
}
"""Settings of a scenario's namespace, and the full name of each sysctl."""

WITHOUT = {"tcp_syn_linear_timeouts": 0}
"""Sysctls that older kernels lack, and the value that equals their behaviour (linear timeouts: since Linux 6.5)."""

UNANSWERED = "192.0.2.0/24"
"""Documentation addresses (RFC 5737) that the namespace routes although no host has them."""

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_OWN = Path("/proc/thread-self/ns/net")
_PROC_SYS = Path("/proc/sys")
_WAY_OUT = (
    "run it as root, or in your own namespace: unshare --map-current-user --net --keep-caps sojourn lab run … "
    "(if the system permits it)"
)


def own_namespace() -> int:
    """Return the number (inode) of this thread's network namespace."""
    return os.stat(_OWN).st_ino


def why_sysctls_missing(required: Mapping[str, int]) -> str | None:
    """Return which required sysctls this kernel does not have; None if it has all."""
    missing = [
        SYSCTLS[name] for name, value in required.items() if not _path(name).exists() and WITHOUT.get(name) != value
    ]
    return f"this kernel has no {', '.join(missing)}" if missing else None


def why_namespace_refused() -> str | None:
    """Return why a network namespace cannot be created, and a remedy; None if it can."""
    try:
        with open(_OWN, "rb") as own:
            # Entering the current namespace changes nothing, and needs the same rights as the return.
            _called("setns", own.fileno(), _CLONE_NEWNET)
    except OSError as error:
        return f"a network namespace of its own cannot be made here ({error.strerror}): {_WAY_OUT}"
    return None


@contextlib.contextmanager
def network_namespace(sysctls: Mapping[str, int]) -> Iterator[None]:
    """Move this thread into a new network namespace with its loopback up and `sysctls` set, and back at the end.

    Raises LabError without the right to make one, and where a sysctl is missing or does not take its value.
    """
    if (reason := why_namespace_refused() or why_sysctls_missing(sysctls)) is not None:
        raise LabError(reason)
    thread = threading.get_ident()
    with open(_OWN, "rb") as before:
        try:
            _called("unshare", _CLONE_NEWNET)
        except OSError as error:
            raise LabError(f"a network namespace could not be made: {error.strerror}: {_WAY_OUT}") from None
        try:
            _bring_loopback_up()
            for name, value in sysctls.items():
                _set(name, value)
            yield
        finally:
            if threading.get_ident() != thread:
                raise LabError("a network namespace is left by the thread that entered it")
            _called("setns", before.fileno(), _CLONE_NEWNET)


def _called(function: str, *arguments: int) -> None:
    """Call a function of the C library; OSError with the reason."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _path(name: str) -> Path:
    return _PROC_SYS.joinpath(*SYSCTLS[name].split("."))


def _set(name: str, value: int) -> None:
    path = _path(name)
    if not path.exists():
        return  # `why_sysctls_missing` has checked that this kernel behaves like it
    try:
        path.write_text(f"{value}\n")
        actual = int(path.read_text())
    except (OSError, ValueError) as error:
        raise LabError(f"{SYSCTLS[name]} could not be set to {value}: {error}") from None
    if actual != value:
        raise LabError(f"{SYSCTLS[name]} was set to {value} and is {actual}")
