"""Read captures and measure the queues before accept()."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sojourn.analyses.pcap.analysis import checked_backend, ports_of, wire_of
from sojourn.analyses.pcap.log_join import READ
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.tracked_capture import TrackedCapture
from sojourn.model.frame import Selection
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.opening import RequestsLike, requests_from


def pcap(
    captures: TrackedCapture | Sequence[Source] | Source,
    *,
    log: RequestsLike | None = None,
    spans: Sequence[Source] | Source = (),
    backends: Collection[str] = (),
    since: Instant = None,
    until: Instant = None,
    tolerance: float = 0.005,
    on_step: Callable[[str], None] | None = None,
) -> WireResult:
    """Measure the queues before accept() in packets, and compare the log with them: ``sojourn pcap``.

    >>> result = sojourn.pcap("docs/examples/wire.pcap.gz", log="docs/examples/wire.jsonl.gz")
    >>> result.joined.requests
    139

    Args:
        captures: pcap or pcapng files (plain, gzip, zstd), globs, folders of ring files, run folders, ``-``; or those
            that are tracked already.
        log: nginx's log of the same requests.
        spans: the app's spans of the same requests.
        backends: ``address:port`` (or ``:port``) of backends, in addition to those in the log.
        since: only connections that began then or later.
        until: only connections that began before then.
        tolerance: largest difference between nginx's times and those on the wire, s.
        on_step: called with the name of each step before it begins.

    Raises:
        SojournError: a capture cannot be read, or a backend is not an address with a port.
    """
    window = Selection.of(since, until, None)
    say = on_step or (lambda _: None)
    with captures if isinstance(captures, TrackedCapture) else TrackedCapture(captures) as capture:
        requests = None if log is None else requests_from(log, columns=READ, spans=spans)
        rows = None if requests is None else requests.rows
        checked = [checked_backend(name) for name in backends]
        ports = {int(name.rpartition(":")[2]) for name in checked} | (set() if rows is None else ports_of(rows))
        tracked = capture.result(sorted(ports), say)
    say("joining")
    result = wire_of(
        tracked.tracking, tracked.counts, tracked.names, tracked.interfaces,
        rows=rows, backends=checked, since=window.since, until=window.until, tolerance=tolerance,
    )  # fmt: skip
    result.notes[:0] = () if requests is None else requests.records.apart
    return result
