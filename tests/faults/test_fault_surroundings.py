"""Streams that are closed, no home, no temporary folder, no working directory, few descriptors."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sojourn.cli import main

SHOP = Path(__file__).parents[2] / "docs/examples/six-requests.jsonl.gz"


def ended(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["sojourn", "--no-config", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_with_next_to_nothing_a_log_is_split_all_the_same(tmp_path: Path) -> None:
    """No home, no temporary folder, no working directory, 24 descriptors, and nothing to read from."""
    gone = tmp_path / "gone"
    gone.mkdir()

    def poorly() -> None:
        os.chdir(gone)
        gone.rmdir()
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        os.close(0)

    environment = {key: value for key, value in os.environ.items() if key != "HOME"} | {"TMPDIR": "/nowhere/at/all"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sojourn", "--no-config", "split", str(SHOP), "--json"],
        capture_output=True, text=True, check=False, timeout=60, env=environment, preexec_fn=poorly,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["records"]["accepted"] == 42


@pytest.mark.parametrize("verb", [["split", "-"], ["watch", "-", "--once"]])
def test_a_closed_standard_input_is_said(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert ended(verb, monkeypatch) == 1
    assert capfd.readouterr().err == "sojourn: -: standard input is closed\n"


CLOSED = """
import os, socket
from sojourn.cli.streams import made_usable
made_usable()
with socket.socket() as first:
    assert first.fileno() > 2, first.fileno()
print("unread")
"""


def test_nothing_else_becomes_a_stream_that_was_closed() -> None:
    """A listening socket with the number 0 would be what a server that inherits it reads as its input."""

    def closed() -> None:
        for descriptor in (0, 1):
            os.close(descriptor)

    done = subprocess.run(
        [sys.executable, "-c", CLOSED],
        stderr=subprocess.PIPE, text=True, check=False, timeout=60, preexec_fn=closed,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_an_engine_that_panics_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What Rust raises is no Exception: such as where there are no descriptors left."""

    class PanicException(BaseException):
        pass

    def panics(*_: Any, **__: Any) -> None:
        raise PanicException("Too many open files")

    monkeypatch.setattr("sojourn.analyses.split.run.split", panics)
    assert ended(["split", str(SHOP)], monkeypatch) == 1
    output = capfd.readouterr().err
    assert output.startswith("sojourn: this is a fault of sojourn's own: PanicException: Too many open files.")
