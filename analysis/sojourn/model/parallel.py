"""Calls in several threads, for NumPy, Polars and compiled code, which work on without holding Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = max(min(os.cpu_count() or 1, 4), 1)


def in_threads(work: Callable[[Item], Result], items: Collection[Item]) -> list[Result]:
    """Return ``work`` of each item, in their order; as many at once as there are cores, at most four.

    Raises:
        Exception: what the work of an item raises.
    """
    if THREADS == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(THREADS, len(items)), thread_name_prefix="sojourn-work") as pool:
        return list(pool.map(work, items))
