"""Everything is compiled once, at setup; a command that has to compile says so."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from sojourn.cli.compilation import CONNECTIONS, commands, connections_capture, pcapng_of, simulate

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SAID = "sojourn: compiling code for this machine (once, some seconds)"

# Prints the functions that Python calls and that have no machine code yet.
NOT_KEPT = """
import importlib, pkgutil, sojourn
from sojourn.model.compilation import CompiledFunction, is_cached

functions = {}
for module in pkgutil.walk_packages(sojourn.__path__, "sojourn."):
    if not module.name.endswith("__main__"):
        functions |= {
            f"{each.__module__}.{each.__qualname__}": each
            for each in vars(importlib.import_module(module.name)).values() if isinstance(each, CompiledFunction)
        }
called = {name: each for name, each in functions.items() if "no_cpython_wrapper" not in each.options}
print(len(called) > 40, sorted(name for name, each in called.items() if not is_cached(each)))
"""


def on_a_terminal(cache: Path, *arguments: str) -> str:
    """Run a command whose stderr is a terminal; return what it writes there."""
    terminal, its_side = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sojourn", *arguments], stderr=its_side, stdout=subprocess.DEVNULL, check=False,
            timeout=200, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        )  # fmt: skip
        assert done.returncode == 0
        os.write(its_side, b"END")
        text = b""
        while not text.endswith(b"END"):
            text += os.read(terminal, 4096)
        return text.decode().removesuffix("END")
    finally:
        os.close(terminal)
        os.close(its_side)


def test_a_command_that_compiles_says_so_once_on_a_terminal(tmp_path: Path) -> None:
    command = simulate("--discipline", "fifo")
    assert on_a_terminal(tmp_path, *command).splitlines() == [SAID]
    assert on_a_terminal(tmp_path, *command) == ""


def test_the_examples_in_other_forms_are_read_as_they_are(tmp_path: Path) -> None:
    """The data that compiled functions are called with: pcapng, and many connections."""
    pcap = gzip.decompress((EXAMPLES / "wire.pcap.gz").read_bytes())
    for name, data in (("a.pcap", pcap), ("a.pcapng", pcapng_of(pcap)), ("many.pcap", connections_capture())):
        (tmp_path / name).write_bytes(data)
    one, other, many = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "sojourn", "pcap", str(tmp_path / name), "--json"],
                check=True, capture_output=True, timeout=200,
            ).stdout
        )
        for name in ("a.pcap", "a.pcapng", "many.pcap")
    )  # fmt: skip
    assert one["connections"] == other["connections"]
    assert one["exchanges"] == other["exchanges"]
    assert many["connections"] == CONNECTIONS


def test_examples_for_compilation_are_there(tmp_path: Path) -> None:
    for arguments, file in (each for some in commands(tmp_path) for each in some):
        for path in (*(Path(each) for each in arguments if "/" in each), *([file] if file else [])):
            assert path.is_file(), path


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_every_function_that_a_command_may_call_is_compiled_at_setup(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "sojourn.cli.compilation"], check=True, env=environment, timeout=500)
    listed = subprocess.run(
        [sys.executable, "-c", NOT_KEPT], check=True, env=environment, capture_output=True, text=True
    )
    assert listed.stdout.strip() == "True []"
