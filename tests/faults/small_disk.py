"""A private disk of a few kilobytes: a tmpfs in a mount namespace of one program."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

MOUNTED = 'mount -t tmpfs -o size="$1"k tmpfs "$2" && shift 2 && exec "$@"'

PREAMBLE = """
import contextlib, io, json, os, subprocess, sys
from pathlib import Path
disk, folder = Path(sys.argv[1]), Path(sys.argv[2])

def ended(*arguments):
    from sojourn.cli import main
    sys.argv = ["sojourn", "--no-config", *map(str, arguments)]
    err, code = io.StringIO(), 0
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return {"code": code, "said": err.getvalue(), "left": sorted(os.listdir(disk))}

def sized(kib):
    subprocess.run(["mount", "-o", f"remount,size={kib}k", str(disk)], check=True)
"""


@functools.cache
def why_no_disk() -> str | None:
    """Why no small disk can be made here; None where it can."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "needs unshare of Linux"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True, text=True, check=False
    )
    return None if done.returncode == 0 else f"no disk can be mounted: {done.stderr.strip()[-100:]}"


def run_on_small_disk(script: str, folder: Path, kib: int) -> Any:
    """What a Python program prints, as JSON, whose ``disk`` has room for so much; ``folder`` is on an ordinary one.

    The program finds ``disk``, ``folder``, ``ended`` (a command of sojourn: its exit code, what it said, which files
    are left on the disk) and ``sized``, which gives the disk more room or less.
    """
    disk = folder / "disk"
    disk.mkdir()
    program = [sys.executable, "-c", PREAMBLE + script, str(disk), str(folder)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", str(kib), str(disk), *program],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
