"""Compiled code is kept between runs, and a command says so when there is none yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SMALL = """
import sys
sys.path.insert(0, sys.argv[1])
from small import add, is_kept
print(is_kept(add), add(1, 2), is_kept(add))
"""
FIRST_STEP = """
import sys
from sojourn.explain.wire.wire import wire


def end(words):
    print(words)
    sys.exit()


wire(sys.argv[1], on_step=end)
"""
MODULE = """
from sojourn.compiled import compiled, is_kept


@compiled
def add(a, b):
    return a + b
"""


def test_machine_code_is_known_to_be_kept_by_the_next_process(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(MODULE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, "-c", SMALL, str(tmp_path)], check=True, capture_output=True, text=True, env=environment
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["False 3 True", "True 3 True"]


def test_the_first_use_of_the_packet_reader_says_that_it_compiles(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEP, str(Path(__file__).parents[2] / "docs/examples/wire.pcap.gz")],
        check=True, capture_output=True, text=True, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.strip() == "compiling the packet reader (once, about 15 s)"
