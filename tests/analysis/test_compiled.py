"""Compiled functions work where nothing can be kept, too."""

from __future__ import annotations

from typing import Any

import numba
import pytest
from sojourn.compiled import compiled


def doubled(x: float) -> float:
    return 2 * x


def test_nowhere_to_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def without_a_place(*functions: Any, cache: bool = False, **more: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*functions, **more)

    monkeypatch.setattr(numba, "njit", without_a_place)
    assert compiled(doubled)(1.5) == 3.0


def test_it_is_kept_where_it_can_be() -> None:
    assert compiled(doubled)(1.5) == 3.0
