"""Paths of the project's own files: inside an installed wheel, or in the folders of a checkout."""

from __future__ import annotations

from pathlib import Path

from sojourn.nginx.includes import includes_folder

from sojourn_lab.errors import LabError

_PACKAGE = Path(__file__).resolve().parent

# A wheel has copies inside the package (see build_hook.py), and nginx's files inside `sojourn`; a checkout has each
# folder in its own place.
_IN_CHECKOUT = {
    "nginx": includes_folder(),
    "scenarios": _PACKAGE.parent / "scenarios",
    "backend": _PACKAGE.parent / "backend",
    "playbooks": _PACKAGE.parent / "playbooks",
    "k6": _PACKAGE.parent / "k6",
    "middleware": _PACKAGE.parents[1] / "collector" / "middleware",
    "vector": _PACKAGE.parents[1] / "collector" / "vector",
}


def resource_file(folder: str, *parts: str) -> Path:
    """Return the path of a file or folder of the project: `resource_file("nginx", "sojourn.conf")`.

    `folder` is `nginx`, `scenarios`, `playbooks`, `backend`, `k6`, `vector` (of which a wheel has `config`) or
    `middleware` (of which a wheel has the sources that the lab's servers run).

    Raises:
        LabError: neither place has it; the message names both.
    """
    packaged = _PACKAGE.joinpath(folder, *parts)
    if packaged.exists():
        return packaged
    if folder not in _IN_CHECKOUT:
        raise LabError(f"there is no resource folder {folder!r}")
    in_checkout = _IN_CHECKOUT[folder].joinpath(*parts)
    if in_checkout.exists():
        return in_checkout
    raise LabError(f"{'/'.join((folder, *parts))} is missing: neither {packaged} nor {in_checkout} exists")
