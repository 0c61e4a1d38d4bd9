"""Compiled functions work where nothing can be kept, too."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
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


def test_what_is_kept_goes_with_the_files_it_was_made_of(tmp_path: Path) -> None:
    """numba itself looks at the file of the function called alone, not at those of what it calls."""
    header = "from sojourn.compiled import compiled, compiled_part\n"
    (tmp_path / "inner.py").write_text(f"{header}@compiled_part\ndef step(x):\n    return x + 1\n")
    outer = f"{header}from inner import step\n@compiled\ndef walk(x):\n    return step(x)\n"
    (tmp_path / "outer.py").write_text(f"{outer}print(walk(1), *walk.stats.cache_hits)\n")

    def printed() -> list[str]:
        command = [sys.executable, str(tmp_path / "outer.py")]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return done.stdout.split()

    assert printed()[0] == "2"
    assert printed() != ["2"], "it was kept"
    (tmp_path / "inner.py").write_text(f"{header}@compiled_part\ndef step(x):\n    return x + 2\n")
    later = time.time() + 5
    os.utime(tmp_path / "inner.py", (later, later))
    assert printed() == ["3"]
