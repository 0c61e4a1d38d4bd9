"""The folder of the nginx include files: in an installed wheel, or in a checkout."""

from __future__ import annotations

from pathlib import Path

from sojourn.model.errors import SojournError

_PACKAGED = Path(__file__).with_name("includes")
_CHECKOUT = Path(__file__).resolve().parents[3] / "nginx"
USER_FILE = "trusted.conf"
"""The one file that users edit."""


def includes_folder() -> Path:
    """Return the folder of ``sojourn.conf`` and the other include files.

    Raises:
        SojournError: the installation lacks it.
    """
    for folder in (_PACKAGED, _CHECKOUT):
        if (folder / "sojourn.conf").is_file():
            return folder
    raise SojournError(f"the nginx include files are missing: neither {_PACKAGED} nor {_CHECKOUT} has them")


def include_files() -> dict[str, bytes]:
    """Return name -> content of the files that belong into the ``sojourn`` folder of an nginx.

    Raises:
        SojournError: the installation lacks them.
    """
    folder = includes_folder()
    files = sorted(path for path in folder.iterdir() if path.suffix in (".conf", ".js"))
    return {path.name: path.read_bytes() for path in files}
