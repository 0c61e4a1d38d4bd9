"""The requirements of a recording: the program, the capability, the interface, the folder.

Linux gives packets to processes with CAP_NET_RAW (capabilities(7), packet(7)): root, or a program whose file has it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from sojourn.model.errors import CaptureError

# linux/capability.h
KILL, SETGID, SETUID, NET_RAW = 5, 6, 7, 13
_CARRIES_EFFECTIVE = 1
_NOTHING_GAINED = (
    "{} carries CAP_NET_RAW, but this process may not gain privileges (no_new_privs, as in a container with "
    "no-new-privileges): give it the capability itself"
)


def missing_for_capture(
    folder: Path, interface: str = "any", *, sniffer: str = "tcpdump", command: Sequence[str] = ("sojourn", "capture")
) -> list[str]:
    """Return what keeps this process from recording, each with its remedy; empty if nothing does.

    Args:
        folder: where the file is to be written.
        interface: the network interface to record.
        sniffer: ``tcpdump``, whose file may carry the capability, or ``scapy``, which has those of this process.
        command: what the user typed, for the advice to type it behind sudo.
    """
    if sys.platform != "linux":
        return [f"this is {sys.platform}: packets are recorded on Linux only; run it where nginx runs"]
    reasons = [_without_capability(sniffer, command), _without_interface(interface), _without_folder(folder)]
    return [each for each in reasons if each]


def tcpdump_path() -> str | None:
    """Return the path of tcpdump, also from system folders outside a user's PATH."""
    return shutil.which("tcpdump") or shutil.which("tcpdump", path="/usr/sbin:/sbin:/usr/bin:/usr/local/sbin")


def interfaces() -> list[str]:
    """Return the network interfaces of this namespace, ``any`` first."""
    return ["any", *sorted(name for _, name in socket.if_nameindex())]


def has_capability(number: int) -> bool:
    """Return whether this process has the capability in effect; never except on Linux."""
    if sys.platform != "linux":
        return False
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def file_carries_net_raw(program: str) -> bool:
    """Return whether the program's file carries CAP_NET_RAW (``setcap cap_net_raw+ep``)."""
    try:
        value = os.getxattr(program, "security.capability")
    except OSError:
        return False
    # struct vfs_cap_data: revision and flags, then permitted and inheritable, the lower 32 first.
    flags, permitted = struct.unpack_from("<II", value)
    return bool(flags & _CARRIES_EFFECTIVE and permitted >> NET_RAW & 1)


def user_for(folder: Path) -> str | None:
    """Return the user that tcpdump switches to once its socket is open; None where it cannot switch.

    The first user with write access to the folder: the caller of sudo, the folder's owner, the user tcpdump; otherwise
    root.
    """
    # KILL: to end a process that belongs to another user by then.
    if os.geteuid() != 0 or not all(has_capability(each) for each in (KILL, SETGID, SETUID)):
        return None
    candidates = []
    if os.environ.get("SUDO_UID", "").isdigit():
        candidates.append(int(os.environ["SUDO_UID"]))
    try:
        candidates.append(folder.stat().st_uid)
    except OSError:
        return "root"
    names = [_name(uid) for uid in candidates]
    for name in (*names, "tcpdump"):
        if name is not None and name != "root" and _may_write(name, folder):
            return name
    return "root"


def _name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None  # a user of a container's that has no name: tcpdump takes names only


def _may_write(name: str, folder: Path) -> bool:
    """Return whether the user may create files in the folder, by its modes and those of the folders above it."""
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return False
    groups = set(os.getgrouplist(name, user.pw_gid))
    absolute = folder.resolve()
    try:
        return all(_allowed(above.stat(), user.pw_uid, groups, 1) for above in absolute.parents) and _allowed(
            absolute.stat(), user.pw_uid, groups, 3
        )
    except OSError:
        return False


def _allowed(status: os.stat_result, uid: int, groups: set[int], access: int) -> bool:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == uid:
        mode >>= 6
    elif status.st_gid in groups:
        mode >>= 3
    return mode & access == access


def _without_capability(sniffer: str, command: Sequence[str]) -> str | None:
    if has_capability(NET_RAW):
        return None
    missing, sudo = "CAP_NET_RAW is missing, without which no packets are seen", f"sudo {' '.join(command)}"
    program = tcpdump_path() if sniffer == "tcpdump" else None
    if program is None:
        return f"{missing}: {sudo}"
    if not os.access(program, os.X_OK):
        return f"{program} may not be run by this user: {sudo}"
    if not file_carries_net_raw(program):
        return f"{missing}: sudo setcap cap_net_raw+ep {program}, or {sudo}"
    no_new_privileges = "NoNewPrivs:\t1" in Path("/proc/self/status").read_text()
    return _NOTHING_GAINED.format(program) if no_new_privileges else None


def _without_interface(interface: str) -> str | None:
    there = interfaces()
    return None if interface in there else f"no interface {interface!r}: there are {', '.join(there)}"


def _without_folder(folder: Path) -> str | None:
    # os.path.isdir: Path's own raises where a folder above may not be entered.
    if not os.path.isdir(folder):
        return f"{folder}: no such folder that this user may enter: mkdir -p {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder}: may not be written to by this user: choose another place for --out"
    return None


def check(missing: Sequence[str]) -> None:
    """Raise CaptureError with all that is missing, if anything is."""
    if missing:
        raise CaptureError(f"packets cannot be recorded: {'; and '.join(missing)}")
