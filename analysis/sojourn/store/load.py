"""``load``: old logs, spans and listen-queue samples into a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sojourn.store.client import connect
from sojourn.store.dsn import Dsn
from sojourn.store.rollups import refresh_rollups

if TYPE_CHECKING:
    from sojourn.frame import Records

Source = str | os.PathLike[str]


def _no_records() -> Records:
    from sojourn.frame import Records  # noqa: PLC0415 - Polars takes its time to load

    return Records()


@dataclass
class Loaded:
    """What was sent to the store. Sending it again changes nothing there.

    Attributes:
        records: what became of the log's lines; those refused are in ``dead_letters``.
        requests, spans, dead_letters, listen: rows sent to each table.
        minutes: minutes whose rollups were computed.
    """

    records: Records = field(default_factory=_no_records)
    requests: int = 0
    spans: int = 0
    dead_letters: int = 0
    listen: int = 0
    minutes: int = 0


def load(
    dsn: str | Dsn,
    sources: Sequence[Source] | Source,
    *,
    spans: Sequence[Source] = (),
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Loaded:
    """Read log files, globs, ``-`` and run folders into a store, a block at a time; then bring its rollups up to date.

    A run's folder brings its spans and its listen-queue samples too. Every row is told by what it holds, so what is
    loaded twice is there once, and a load that broke off is completed by loading again.

    Args:
        dsn: the store; ``sojourn store init`` makes it.
        sources: what to read.
        spans: OTLP/JSON-lines files with spans of any kind.
        on_size: told the bytes to be read (None: unknown), before the first one.
        on_progress: told the bytes of logs read so far.

    Raises:
        SojournError: a source or the store cannot be opened, or the store failed. Bad lines never raise.
    """
    from sojourn.store.loading import load_into  # noqa: PLC0415 - DuckDB, Polars and Arrow take their time to load

    named = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    with connect(dsn) as store:
        loaded = load_into(store, named, list(spans), on_size, on_progress)
        loaded.minutes = refresh_rollups(store)
    return loaded
