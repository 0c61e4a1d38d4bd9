"""A thread that samples the kernel about once a second and writes kernel.jsonl."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.lines_file import LinesFile
from sojourn.host.sample import Backlogs, Sample
from sojourn.host.servers.asker import BUDGET
from sojourn.model.errors import SojournError

PERIOD = 1.0
"""Seconds between samples. Each costs the kernel a walk through its tables: never once per request."""


class KernelSampler:
    """A thread that writes a ``Sample`` a line to a file of JSON lines, every ``period`` seconds.

    The first is taken before the block begins and the last when it is left, so that the file spans all of it. A sample
    that takes longer than the period delays the next: those due meanwhile are not taken, and the next sample counts
    them in ``unavailable["samples"]``. What the kernel refuses is recorded in the sample, and the sampling goes on.

    Args:
        path: the file; truncated unless ``keep``.
        ports, unix, backlogs, raindrops, servers: as of ``sojourn.host.kernel_queues.KernelProbe``.
        period: seconds between samples.
        keep: append to the file.
        max_bytes: beyond, the file becomes ``<name>.1``, in place of an older one, and a new one begins.

    Raises:
        SojournError: the file cannot be written (when the block is entered), or the address of a server is invalid.
    """

    def __init__(
        self,
        path: Path,
        ports: Mapping[str, int] | None,
        period: float = PERIOD,
        *,
        unix: Mapping[str, str] | None = None,
        backlogs: Backlogs | None = None,
        raindrops: Sequence[str] = (),
        servers: Sequence[str] = (),
        keep: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        self._path = path
        self._period = period
        self._probe = KernelProbe(
            ports, unix=unix, backlogs=backlogs, raindrops=raindrops, servers=servers, budget=min(BUDGET, period / 2)
        )
        self._keep = keep
        self._max_bytes = max_bytes
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kernel-sampler", daemon=True)
        self.last: Sample | None = None
        """The latest sample."""
        self.failed: str | None = None
        """Why sampling ended before its time: the file could not be written any more."""
        self.missed = 0
        """Samples that were due and not taken."""
        self.last_seen = time.monotonic()
        """The last time one of the sockets existed, in monotonic seconds; the start, before that."""

    def __enter__(self) -> Self:
        try:
            self._out = LinesFile(self._path, keep=self._keep, max_bytes=self._max_bytes)
            self._write(self._sampled(0))
        except OSError as error:
            raise SojournError(f"{self._path}: {error.strerror}") from None
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            due = time.monotonic() + self._period
            last = self._end.wait(self._period)
            while True:
                late = 0 if last else max(int((time.monotonic() - due) / self._period), 0)
                self.missed += late
                due += (late + 1) * self._period
                self._write(self._sampled(late))
                if last:
                    return
                last = self._end.wait(max(due - time.monotonic(), 0.0))
        except OSError as error:
            self.failed = f"{self._path}: {error.strerror}"
        except Exception as error:  # a thread that died in silence would be a recording that just ends
            self.failed = f"{type(error).__name__}: {error}"
            raise
        finally:
            with suppress(OSError):  # the failed write is reported already
                self._out.close()

    def _sampled(self, late: int) -> Sample:
        sample = self._probe.sample()
        if sample.sockets:
            self.last_seen = time.monotonic()
        if late:
            reason = f"{late} were due and not taken: the look before took too long, or this process had no processor"
            sample = msgspec.structs.replace(sample, unavailable={**sample.unavailable, "samples": reason})
        self.last = sample
        return sample

    def _write(self, sample: Sample) -> None:
        self._out.write(sample)
        if self._out.rotated():
            self._probe.forget_settings()
