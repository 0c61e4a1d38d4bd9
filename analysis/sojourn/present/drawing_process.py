"""A process that draws while this one computes: vl-convert holds Python's lock for as long as it draws."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from sojourn.model.errors import SojournError
from sojourn.present import drawing_program
from sojourn.present.chart_libraries import vl_convert


class DrawingProcess:
    """Draws specifications in the order of the calls; use it in a ``with`` statement, which ends the process.

    The process starts Vega at once, so that the first drawing does not wait for it.
    """

    def __init__(self) -> None:
        """Start the process.

        Raises:
            SojournError: vl-convert is not installed, or no process can be started.
        """
        libraries = Path(vl_convert.__file__).parent.parent
        # Nothing of the current folder or of the environment is imported.
        command = [sys.executable, "-I", "-S", drawing_program.__file__, os.fspath(libraries)]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise SojournError(f"{sys.executable}: the drawing process cannot be started ({error.strerror})") from error
        # One line at a time: the process never waits for a reader while this one waits for it to read.
        self._lines = ThreadPoolExecutor(1, "drawing")

    def __enter__(self) -> DrawingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.shutdown(wait=False, cancel_futures=True)
        self._process.kill()
        self._lines.shutdown()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        self._process.wait()

    def svg(self, spec: dict[str, Any], version: str) -> Future[str]:
        """Begin to draw a specification of this version of Vega-Lite as a compact SVG.

        The result raises ``SojournError`` if it cannot be drawn.
        """
        return self._queued({"version": version, "spec": spec})

    def libraries(self, version: str) -> Future[str]:
        """Begin to build the script with Vega, Vega-Lite and Vega-Embed for this version of Vega-Lite."""
        return self._queued({"version": version, "libraries": True})

    def _queued(self, request: dict[str, Any]) -> Future[str]:
        return self._lines.submit(self._answer, json.dumps(request).encode() + b"\n")

    def _answer(self, line: bytes) -> str:
        process = self._process
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:  # it has ended
            answer = b""
        if not answer:
            raise SojournError(f"the drawing process ended unexpectedly (exit code {process.wait()})")
        text = json.loads(answer)
        if "error" in text:
            raise SojournError(f"a chart cannot be drawn: {text['error']}")
        return str(text["text"])
