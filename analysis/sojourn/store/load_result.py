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
    """Counts of the rows sent to the store; sending them again changes nothing there.

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
