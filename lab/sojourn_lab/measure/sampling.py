"""A thread that samples during a block."""

from __future__ import annotations

import threading
from typing import Self


class SamplerThread:
    """A context: the thread runs `_run` from its beginning; `_end` is set at its end."""

    def __init__(self, name: str) -> None:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        """Sample until `_end` is set."""
        raise NotImplementedError
