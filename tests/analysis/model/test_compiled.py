"""Compiled code is kept between runs where it can be, and made again when its files change."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import pytest
from sojourn.model.compilation import compiled

USES_TWICE = """
import sys
sys.path.insert(0, sys.argv[1])
from small import add
from sojourn.model.compilation import is_cached
print(is_cached(add), add(1, 2), is_cached(add))
"""
FIRST_STEP = """
import sys
from sojourn.analyses.pcap.run import pcap as wire


def end(step):
    print(step)
    sys.exit()


wire(sys.argv[1], on_step=end)
"""
SMALL = """
from sojourn.model.compilation import compiled


@compiled
def add(a, b):
    return a + b
"""
WITHOUT_NUMBA = """
import sys
sys.path.insert(0, sys.argv[1])


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hidden())
from sojourn.model.compilation import is_compilation_installed
from sojourn.model.errors import SojournError
from small import add
print(is_compilation_installed(), "numba" in sys.modules)
try:
    add(1, 2)
except SojournError as error:
    print(error)
"""
LOADS_LATE = """
import sys
sys.path.insert(0, sys.argv[1])
from sojourn.model.compilation import is_compilation_installed
from small import add
print(is_compilation_installed(), "numba" in sys.modules, add(1, 2), "numba" in sys.modules)
"""
SHARES = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from small import add
from sojourn.model.compilation import share_compiled
add(1, 2)
share_compiled(Path(sys.argv[1]))
"""
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "wire.pcap.gz"


def doubled(x: float) -> float:
    return 2 * x


def printed(cache: Path, *arguments: str | Path) -> str:
    """Return what a Python of its own prints, with this cache of compiled code."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def test_compiles_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def without_a_place(*functions: Any, cache: bool = False, **more: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*functions, **more)

    monkeypatch.setattr(numba, "njit", without_a_place)
    assert compiled(doubled)(1.5) == 3.0


def test_machine_code_is_kept_for_the_next_process(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL)
    lines = [printed(tmp_path / "cache", "-c", USES_TWICE, tmp_path) for _ in range(2)]
    assert lines == ["False 3 True", "True 3 True"]


def test_machine_code_is_recompiled_after_a_change_of_a_called_function(tmp_path: Path) -> None:
    """numba itself looks at the file of the function called alone, not at those of what it calls."""
    header = "from sojourn.model.compilation import compiled, compiled_part\n"
    (tmp_path / "inner.py").write_text(f"{header}@compiled_part\ndef step(x):\n    return x + 1\n")
    outer = f"{header}from inner import step\n@compiled\ndef walk(x):\n    return step(x)\n"
    (tmp_path / "outer.py").write_text(f"{outer}print(walk(1), *walk.dispatcher.stats.cache_hits)\n")

    def words() -> list[str]:
        return printed(tmp_path / "cache", tmp_path / "outer.py").split()

    assert words()[0] == "2"
    assert words() != ["2"], "it was kept"
    (tmp_path / "inner.py").write_text(f"{header}@compiled_part\ndef step(x):\n    return x + 2\n")
    later = time.time() + 5
    os.utime(tmp_path / "inner.py", (later, later))
    assert words() == ["3"]


def test_the_first_use_of_the_packet_reader_says_that_it_compiles(tmp_path: Path) -> None:
    assert printed(tmp_path, "-c", FIRST_STEP, EXAMPLE) == "compiling the packet reader (once, about 15 s)"


def test_a_module_of_compiled_functions_loads_without_numba_and_a_call_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL)
    assert printed(tmp_path / "cache", "-c", WITHOUT_NUMBA, tmp_path) == (
        "False False\n"
        "this analysis needs the Python package numba, which is not installed: "
        "pip install '.[compiled]' (in a checkout of Sojourn)"
    )


def test_numba_is_loaded_by_the_first_call(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL)
    assert printed(tmp_path / "cache", "-c", LOADS_LATE, tmp_path) == "True False 3 True"


def test_who_cannot_write_beside_the_modules_takes_the_shared_machine_code(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "small.py").write_text(SMALL)
    beside = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    subprocess.run([sys.executable, "-c", SHARES, str(package)], check=True, env=beside)
    assert list((package / "__pycache__").glob("small.add-*.nbc"))
    assert printed(tmp_path / "cache", "-c", USES_TWICE, package) == "True 3 True"
    # Machine code of other sources is not taken.
    (package / "other.py").write_text("")
    assert printed(tmp_path / "other-cache", "-c", USES_TWICE, package) == "False 3 True"
