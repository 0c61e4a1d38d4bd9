"""The result of ``load``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.model.frame import Records

Source = str | os.PathLike[str]


def _no_records() -> Records:
    from sojourn.model.frame import Records  # noqa: PLC0415 - Polars takes its time to load

    return Records()


@dataclass
class Loaded:
    """Counts of the rows that a load made of its lines; loading them again changes nothing in the store.

    Attributes:
        records: what became of the log's lines; those refused are in ``dead_letters``.
        requests, dead_letters, listen: rows of each table.
        spans: rows of this table that arrived during the load.
        app_logs: lines of apps' own logs, which are rows of spans.
        minutes: minutes whose rollups were computed.
    """

    records: Records = field(default_factory=_no_records)
    requests: int = 0
    spans: int = 0
    dead_letters: int = 0
    listen: int = 0
    app_logs: int = 0
    minutes: int = 0
