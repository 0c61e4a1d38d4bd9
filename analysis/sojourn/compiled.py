"""Functions compiled to machine code, kept between runs where there is a place to keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` compiled by numba when it is first called, and kept beside its file or in the user's cache folder.

    Where neither can be written (a read-only image without a home), it is compiled anew by every process.
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found nowhere to keep it
        return numba.njit(nogil=True)(function)


def compiled_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """As ``compiled``, for what compiled functions alone call: without the way in from Python it compiles faster."""
    bare = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    try:
        return numba.njit(cache=True, **bare)(function)
    except RuntimeError:
        return numba.njit(**bare)(function)
