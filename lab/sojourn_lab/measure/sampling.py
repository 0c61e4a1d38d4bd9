"""A thread that samples something beside a load, from the beginning of a block to its end."""

from __future__ import annotations

import threading
from typing import Self


class SamplerThread:
    """A context: the thread runs `_run` from when it is entered; `_end` is set when it is left."""

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
