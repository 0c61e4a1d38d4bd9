"""Load logs, spans and listen-queue samples into a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sojourn.model.dsn import Dsn
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.store.client import connect
from sojourn.store.load_result import Loaded, Source
from sojourn.store.rollups import refresh_rollups, refresh_spans

if TYPE_CHECKING:
    from sojourn.readers.inputs import SourcesLike


def load(
    dsn: str | Dsn,
    sources: SourcesLike,
    *,
    spans: Sequence[Source] = (),
    app_logs: Sequence[Source] = (),
    closes: str | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Loaded:
    """Read log files, globs, ``-`` and run folders into a store, a block at a time; then bring its rollups up to date.

    A run's folder brings its spans and its listen-queue samples too. Every row is identified by its content, so what is
    loaded twice is there once, and a load that broke off is completed by loading again.

    Args:
        dsn: the store; ``sojourn store init`` makes it.
        sources: what to read.
        spans: OTLP/JSON-lines files with spans of any kind.
        app_logs: the app's own logs, JSON lines with ``request_id``, ``service_time`` (s) and ``start`` (unix s).
        closes: a gap of ``line_gaps`` that these lines fill, as ``SOURCE@BEGIN-END``.
        on_size: called with the number of bytes to read (None: unknown), before the first one.
        on_progress: called with the number of log bytes read so far.

    Raises:
        SojournError: a source or the store cannot be opened, the store failed, there is no such gap, or no line to
            close it with. Bad lines never raise.
    """
    from sojourn.store.gaps import Gap  # noqa: PLC0415
    from sojourn.store.inserts import load_into  # noqa: PLC0415 - DuckDB, Polars and Arrow take their time to load

    with connect(dsn) as store:
        gap = None if closes is None else Gap.of(store, closes)
        loaded = load_into(store, sources, list(spans), list(app_logs), on_size, on_progress)
        if gap is not None:
            if not loaded.requests:
                raise SojournError(f"--closes {printable(closes or '')}: no request was loaded, so the gap remains")
            gap.close(store, loaded.requests)
        loaded.minutes = refresh_rollups(store)
        refresh_spans(store)
    return loaded
