"""Sample the kernel for a while: in memory, or into a file until a signal arrives."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.sample import Sample
from sojourn.host.sampler import KernelSampler
from sojourn.model.errors import SojournError

_POLL = 0.2  # s: how soon it is seen that the file cannot be written any more


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C, SIGTERM and SIGHUP set instead of ending the process.

    An ignored signal remains ignored: so nohup keeps a recording alive after a logout. Only the main thread can handle
    signals; elsewhere nothing sets the event.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def arrived(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {
        number: signal.signal(number, arrived) for number in numbers if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def sampled(probe: KernelProbe, *, seconds: float, period: float, stop: threading.Event) -> list[Sample]:
    """Sample every ``period`` s, at once and at the end of ``seconds``; 0: once.

    Raises:
        SojournError: this kernel exposes neither its sockets nor its counters.
    """
    begun = time.monotonic()
    samples = [probe.sample()]
    _refuse_silence(samples[0])
    until = begun + seconds
    due = begun + period
    while not stop.is_set() and time.monotonic() < until:
        stop.wait(max(min(due, until) - time.monotonic(), 0.0))
        samples.append(probe.sample())
        due = max(due + period, time.monotonic())
    return samples


def recorded(sampler: KernelSampler, path: Path, *, seconds: float | None, stop: threading.Event) -> None:
    """Write samples to a file until ``seconds`` have passed (None: for good) or ``stop`` is set; then it is complete.

    Raises:
        SojournError: the file cannot be written, or this kernel exposes neither its sockets nor its counters.
    """
    with sampler:
        until = None if seconds is None else time.monotonic() + seconds
        while sampler.failed is None and not stop.is_set() and (until is None or time.monotonic() < until):
            if sampler.last is not None:
                _refuse_silence(sampler.last)
            stop.wait(_POLL if until is None else max(min(_POLL, until - time.monotonic()), 0.0))
    if sampler.failed is not None:
        raise SojournError(f"the recording ended before its time: {sampler.failed or path}")


def _refuse_silence(sample: Sample) -> None:
    reason = sample.unavailable.get("sockets") or sample.unavailable.get("unix_sockets")
    if reason and "counters" in sample.unavailable and not (sample.sockets or sample.servers or sample.raindrops):
        raise SojournError(f"this machine's kernel is unreadable: {reason}")
