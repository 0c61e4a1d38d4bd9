"""The plan of the process with the embedded engine, and its results."""

from __future__ import annotations

from typing import Any

import msgspec


class Inserts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows, table and duration of the inserts; see `settings.Pipeline`."""

    folder: str
    seed: list[int]
    table: str
    batch: int
    spread: float
    threads: int
    warmup: float
    duration: float
    result: str


class Inserted(msgspec.Struct, frozen=True):
    """The result; `began` is when the worker started, in unix s like the window's ends."""

    began: float
    since: float
    until: float
    figures: dict[str, Any]
