"""Explain samples of the kernel, recorded or taken on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sojourn.analyses.kernel.analysis import kernel as kernel_of_samples
from sojourn.analyses.kernel.result import KernelResult
from sojourn.readers.inputs import Source, listed


def kernel_queues(
    recordings: Sequence[Source] | Source = (),
    *,
    ports: Mapping[str, int] | None = None,
    backlog: Mapping[int, int] | None = None,
    raindrops: Sequence[str] = (),
    period: float = 1.0,
    seconds: float | None = None,
    out: Path | None = None,
    stop: threading.Event | None = None,
    on_step: Callable[[str], None] | None = None,
) -> KernelResult:
    """Return the queues before accept(), of this machine or of a recording: ``sojourn kernel``.

    >>> result = sojourn.kernel_queues("docs/examples/kernel.jsonl.gz")
    >>> result.samples
    62

    Args:
        recordings: files, globs, folders that hold a ``kernel.jsonl``. None: sample this machine (Linux).
        ports: name -> port of the sockets wanted; None: all that listen.
        backlog: port -> backlog that the server asks for.
        raindrops: of this machine, addresses of raindrops endpoints.
        period: of this machine, time between samples, s.
        seconds: of this machine, how long to look, s; 0: once; None: 1 s, or with ``out`` until ``stop`` is set.
        out: record the samples of this machine to this file.
        stop: ends looking and recording when it is set.
        on_step: called with the name of each step before it begins.

    Raises:
        SojournError: a recording cannot be read or written, or this kernel is unreadable.
    """
    from sojourn.host.samples import read_samples, samples_of  # noqa: PLC0415 - for a look only

    files = listed(recordings)
    if not files:
        from sojourn.host.kernel_queues import KernelProbe  # noqa: PLC0415
        from sojourn.host.recording import recorded, sampled  # noqa: PLC0415
        from sojourn.host.sampler import KernelSampler  # noqa: PLC0415

        ended, backlogs, say = stop or threading.Event(), backlog or {}, on_step or (lambda _: None)
        if out is None:
            say("looking")
            probe = KernelProbe(ports, backlogs=backlogs, raindrops=raindrops)
            current = sampled(probe, seconds=1.0 if seconds is None else seconds, period=period, stop=ended)
            return kernel_of_samples(samples_of(current), backlogs=backlog)
        say(f"recording to {out}" + ("" if seconds is not None else "; Ctrl-C ends it"))
        recorded(
            KernelSampler(out, ports, period, backlogs=backlogs, raindrops=raindrops), out, seconds=seconds, stop=ended
        )
        files = [out]
    samples = read_samples(files, ports=None if ports is None else set(ports.values()))
    return kernel_of_samples(samples, backlogs=backlog)
