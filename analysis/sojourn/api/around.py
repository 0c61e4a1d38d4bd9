"""What is around the queue of one app: clocks, packets, the kernel's queues, and the services behind."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from sojourn.analyses.clock.analysis import ClockResult
from sojourn.analyses.clock.analysis import clock as clock_of_rows
from sojourn.analyses.kernel.queues import kernel as kernel_of_samples
from sojourn.analyses.kernel.result import KernelResult
from sojourn.analyses.tiers.analysis import Tiers
from sojourn.analyses.tiers.analysis import tiers as tiers_of_traces
from sojourn.analyses.wire.log_join import READ as WIRE_COLUMNS
from sojourn.analyses.wire.result import WireResult
from sojourn.api.given import Instant, RequestsLike, Where, given, split_given
from sojourn.model.frame import Selection
from sojourn.readers.inputs import Source, listed
from sojourn.sources.traces import Traces, read_traces


def clock(
    requests: RequestsLike,
    *,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> ClockResult:
    """Offset and drift of each app's clock from nginx's over time, with their uncertainty.

    >>> found = sojourn.clock("docs/examples/clocks.jsonl.gz")
    >>> [row["offset"] is not None for row in found.pairs]
    [True, True, True]

    Arguments and errors as of ``sojourn.depth``.
    """
    return clock_of_rows(given(requests, spans=spans, since=since, until=until, where=where).rows)


def wire(
    captures: Sequence[Source] | Source,
    *,
    log: RequestsLike | None = None,
    spans: Sequence[Source] | Source = (),
    backends: Collection[str] = (),
    since: Instant = None,
    until: Instant = None,
    tolerance: float = 0.005,
) -> WireResult:
    """What packets show of the queues before accept(), and whether the log agrees: ``sojourn pcap``.

    >>> found = sojourn.wire("docs/examples/wire.pcap.gz", log="docs/examples/wire.jsonl.gz")
    >>> found.joined.requests
    139

    Args:
        captures: pcap or pcapng files (plain, gzip, zstd), globs, folders of ring files, run folders, ``-``.
        log: the same requests, as nginx logged them.
        spans: the app's spans of them.
        backends: ``address:port`` (or ``:port``) of backends, besides those that the log names.
        since, until: only connections that began in [since, until).
        tolerance: s by which nginx's instants may be off those on the wire.

    Raises:
        SojournError: a capture cannot be read, or a backend is no address with a port.
    """
    from sojourn.analyses.wire.analysis import wire as wire_of_captures  # noqa: PLC0415 - compiled when it is loaded

    window = Selection.of(since, until, None)
    requests = None if log is None else split_given(log, columns=WIRE_COLUMNS, spans=spans)
    return wire_of_captures(
        captures,
        requests=requests,
        backends=backends,
        since=window.since,
        until=window.until,
        tolerance=tolerance,
    )


def tiers(
    spans: Sequence[Source] | Source | Traces,
    *,
    log: RequestsLike | None = None,
    service: str | None = None,
    since: Instant = None,
    until: Instant = None,
) -> Tiers:
    """Queueing, own work and waiting for others at every service that requests pass.

    >>> found = sojourn.tiers("docs/examples/checkout-spans.jsonl.gz")
    >>> [tier.service for tier in found.services]
    ['db', 'checkout']

    Args:
        spans: of several services: OTLP/JSON lines, globs, run folders, stores.
        log: the log of the proxy in front: its requests are the ones looked at.
        service: the one the finding is about; None: the one that requests come to first.
        since, until: traces that began in [since, until); with ``log``, requests that arrived then.

    Raises:
        SojournError: there is no span, no request, or no such service.
    """
    if log is None:
        window = Selection.of(since, until, None)
        traces = (
            spans if isinstance(spans, Traces) else read_traces(listed(spans), since=window.since, until=window.until)
        )
        return tiers_of_traces(traces, service=service)
    traces = spans if isinstance(spans, Traces) else read_traces(listed(spans))
    taken = given(log, columns=("trace_id", "span_id"), since=since, until=until)
    return tiers_of_traces(traces, taken.rows, service=service)


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
