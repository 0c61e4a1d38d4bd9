"""Samples of the kernel in, recorded or taken here; what they say out."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from sojourn.analyses.kernel.analysis import kernel as kernel_of_samples
from sojourn.analyses.kernel.result import KernelResult
from sojourn.readers.inputs import Source, listed


def look(
    recordings: Sequence[Source] | Source = (),
    *,
    ports: Mapping[str, int] | None = None,
    backlog: Mapping[int, int] | None = None,
    raindrops: Sequence[str] = (),
    period: float = 1.0,
    seconds: float = 1.0,
) -> KernelResult:
    """The queues before accept(), of this machine or of a recording: ``sojourn kernel``.

    >>> found = sojourn.look("docs/examples/kernel.jsonl.gz")
    >>> found.samples
    62

    Args:
        recordings: files, globs, folders that hold a ``kernel.jsonl``. None: look at this machine (Linux).
        ports: name -> port of the sockets wanted; None: all that listen.
        backlog: port -> backlog that the server asks for.
        raindrops: of this machine, addresses of raindrops endpoints.
        period, seconds: of this machine, how often to look and for how long, s; 0 seconds: once.

    Raises:
        SojournError: a recording cannot be read, or this kernel does not tell.
    """
    from sojourn.host.samples import read_samples, samples_of  # noqa: PLC0415 - for a look only

    files = listed(recordings)
    if files:
        samples = read_samples(files, ports=None if ports is None else set(ports.values()))
    else:
        from sojourn.host.kernel_queues import Looker  # noqa: PLC0415
        from sojourn.host.recording import looked  # noqa: PLC0415

        looker = Looker(ports, asked=backlog or {}, raindrops=raindrops)
        samples = samples_of(looked(looker, seconds=seconds, period=period, stop=threading.Event()))
    return kernel_of_samples(samples, asked=backlog)
