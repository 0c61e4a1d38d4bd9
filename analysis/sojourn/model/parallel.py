"""Work in threads, for NumPy, Polars and compiled code, which work on without holding Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = min(os.cpu_count() or 1, 4)


def in_threads(work: Callable[[Item], Result], items: Collection[Item], *, at_once: int = THREADS) -> list[Result]:
    """Return ``work`` of each item, in their order.

    Args:
        work: called with each item.
        items: the items.
        at_once: calls at one time, at most; and at most one per core, and four.

    Raises:
        Exception: what the work of an item raises.
    """
    threads = min(THREADS, at_once, len(items))
    if threads < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix="sojourn-work") as pool:
        return list(pool.map(work, items))


def prefetched(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the same items; a thread fetches the next item while the current one is processed."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="sojourn-read") as pool:
        pending = pool.submit(next, items, end)
        while (item := pending.result()) is not end:
            pending = pool.submit(next, items, end)
            yield item  # type: ignore[misc]
