"""Functions compiled to machine code, cached between runs where a cache folder exists."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` with numba on its first call, and cache it next to its file or in the user's cache folder.

    Where neither can be written (a read-only image without a home), every process compiles it again.
    """
    return _kept(function)


def compiled_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile like ``compiled``, a function that only compiled functions call and that creates no array or view.

    Without the way in from Python it compiles faster. Without counted references (numba's ``_nrt``) a call costs what
    it should: it would count those of every array of every tuple that is handed over, atomically.
    """
    return _kept(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)


def is_kept(function: Any) -> bool:
    """Return whether the machine code of a function of ``compiled`` exists, from this process or an earlier one."""
    if function.signatures:
        return True
    path = function.stats.cache_path
    return path is not None and any(_indexes(function.py_func, Path(path)))


def _kept(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return the compiled function, cached if possible."""
    try:
        compiled = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba has no writable cache folder
        return numba.njit(nogil=True, **options)(function)
    _forget_outdated(function, Path(compiled.stats.cache_path))
    return compiled


def _forget_outdated(function: Callable[..., Any], kept: Path) -> None:
    """Remove a function's cached machine code from before the last change to a file of its folder.

    numba looks at the function's own file alone, while the machine code holds the functions called from it, too.
    """
    with contextlib.suppress(OSError):
        # An installed package may keep the dates of its build; the change time is that of the installation.
        statuses = [file.stat() for file in Path(function.__code__.co_filename).parent.glob("*.py")]
        changed = max(max(file.st_mtime, file.st_ctime) for file in statuses)
        for index in _indexes(function, kept):
            if index.stat().st_mtime < changed:
                index.unlink()


def _indexes(function: Callable[..., Any], kept: Path) -> Iterator[Path]:
    """Return the index files of numba for the cached machine code of a function."""
    return kept.glob(f"*.{function.__qualname__}-{function.__code__.co_firstlineno}.*.nbi")
