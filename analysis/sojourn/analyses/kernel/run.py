"""Explain samples of the kernel, recorded or taken on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sojourn.analyses.kernel.analysis import kernel as kernel_of_samples
from sojourn.analyses.kernel.result import KernelResult
from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.recording import recorded, sampled
from sojourn.host.sample import Backlogs
from sojourn.host.sampler import KernelSampler
from sojourn.host.samples import read_samples, samples_of
from sojourn.readers.inputs import Source, listed


def kernel_queues(
    recordings: Sequence[Source] | Source = (),
    *,
    ports: Mapping[str, int] | None = None,
    unix: Mapping[str, str] | None = None,
    backlog: Backlogs | None = None,
    raindrops: Sequence[str] = (),
    servers: Sequence[str] = (),
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
        ports: name -> port of the TCP sockets wanted; None: none if ``unix`` is given, otherwise all that listen.
        unix: name -> path, or ``@name``, of the Unix sockets wanted; None: none if ``ports`` is given, otherwise all.
        backlog: port, or path of a Unix socket -> backlog that the server requests.
        raindrops: of this machine, addresses of raindrops endpoints, the same as ``unicorn=ADDRESS`` in ``servers``.
        servers: of this machine or others, ``KIND=ADDRESS`` of application servers whose queues are sampled, too.
        period: of this machine, time between samples, s.
        seconds: of this machine, how long to look, s; 0: once; None: 1 s, or with ``out`` until ``stop`` is set.
        out: record the samples of this machine to this file.
        stop: ends looking and recording when it is set.
        on_step: called with the name of each step before it begins.

    Raises:
        SojournError: a recording cannot be read or written, or this kernel is unreadable.
    """
    files = listed(recordings)
    if not files:
        ended, backlogs, say = stop or threading.Event(), backlog or {}, on_step or (lambda _: None)
        if out is None:
            say("looking")
            probe = KernelProbe(ports, unix=unix, backlogs=backlogs, raindrops=raindrops, servers=servers)
            current = sampled(probe, seconds=1.0 if seconds is None else seconds, period=period, stop=ended)
            return kernel_of_samples(samples_of(current), backlogs=backlog)
        say(f"recording to {out}" + ("" if seconds is not None else "; Ctrl-C ends it"))
        sampler = KernelSampler(out, ports, period, unix=unix, backlogs=backlogs, raindrops=raindrops, servers=servers)
        recorded(sampler, out, seconds=seconds, stop=ended)
        files = [out]
    samples = read_samples(
        files,
        ports=None if ports is None else set(ports.values()),
        unix=None if unix is None else set(unix.values()),
    )
    return kernel_of_samples(samples, backlogs=backlog)
