"""Find the nginx of this machine."""

from __future__ import annotations

import os
import shutil

_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin")


def nginx_path(*names: str) -> str | None:
    """Return the path of the first program of these names; ``sbin``, too, which an ordinary user's PATH lacks."""
    folders = os.pathsep.join((os.environ.get("PATH", ""), *_FOLDERS))
    return next((path for name in names if (path := shutil.which(name, path=folders))), None)
