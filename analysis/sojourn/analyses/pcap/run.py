"""Read captures and measure the queues before accept()."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sojourn.analyses.pcap.analysis import wire as wire_of_captures
from sojourn.analyses.pcap.log_join import READ as WIRE_COLUMNS
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.tracked_capture import TrackedCapture
from sojourn.model.frame import Selection
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Instant
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
    with captures if isinstance(captures, TrackedCapture) else TrackedCapture(captures) as tracked:
        rows = None if log is None else requests_from(log, columns=WIRE_COLUMNS, spans=spans).rows
        return wire_of_captures(
            tracked,
            rows=rows,
            backends=backends,
            since=window.since,
            until=window.until,
            tolerance=tolerance,
            on_step=on_step or (lambda _: None),
        )
