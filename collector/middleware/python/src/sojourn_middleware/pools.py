"""The pools inside a process whose places requests and queries wait for: AnyIO's threads, SQLAlchemy's connections.

Neither library is imported, and nothing of either is replaced: what it counts already is read when metrics
are collected.
"""

from __future__ import annotations

import logging
import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet, ref

if TYPE_CHECKING:
    from collections.abc import Callable

#: The name of the pool of threads in which Starlette and FastAPI run `def` handlers.
ANYIO_THREADS = "anyio_threads"

_logger = logging.getLogger("sojourn_middleware")


class PoolState(NamedTuple):
    """One reading of a pool. A figure is None if the library does not count it, or if there is no limit."""

    places: int | None
    in_use: int | None
    waiting: int | None


# Weak references: a pool that the app has discarded is not measured, and not kept alive.
_pools: dict[str, Callable[[], Any]] = {}
# AnyIO has a limiter for each event loop, and tells which one only inside of that loop.
_loops: WeakSet[Any] = WeakSet()
_limiters: list[tuple[Callable[[], Any], Callable[[], Any]]] = []
_warned: set[str] = set()


def observe_pool(engine_or_pool: Any, name: str) -> None:
    """Export the places of a pool of SQLAlchemy, and how many of them are in use, from now on.

    A pool without a limit of connections, such as `NullPool`, has no places and is not exported. A second pool of the
    same name replaces the first one.

    Args:
        engine_or_pool: an `Engine`, an `AsyncEngine` or a `Pool` of SQLAlchemy.
        name: the label ``pool`` of the metrics.

    Raises:
        TypeError: the pool is no pool of SQLAlchemy, or the name no text.
        ValueError: the name is empty, or that of the threads of AnyIO.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a text, not {name!r}")
    if not name or name == ANYIO_THREADS:
        raise ValueError(f"name must be a name of the app's own, not {name!r}")
    # An AsyncEngine is a thin object around its engine, which lives longer.
    target = getattr(engine_or_pool, "sync_engine", engine_or_pool)
    if not callable(getattr(target, "connect", None)):
        raise TypeError(f"engine_or_pool must be an engine or a pool of SQLAlchemy, not {engine_or_pool!r}")
    _pools[name] = _reference(target)


def observe_threads() -> None:
    """Export the threads of AnyIO in the running event loop from now on, if the app has imported AnyIO.

    Called inside of the loop with every request: after the first one it takes half a microsecond.
    """
    to_thread, asyncio = sys.modules.get("anyio.to_thread"), sys.modules.get("asyncio")
    if to_thread is None or asyncio is None:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return  # The loop is one of Trio.
    if loop in _loops:
        return
    _loops.add(loop)
    _limiters.append((_reference(loop), _reference(to_thread.current_default_thread_limiter())))


def pool_states() -> list[tuple[str, PoolState]]:
    """Return the name and the state of each pool of this process. Never raises."""
    states: list[tuple[str, PoolState]] = []
    for name, read in ((ANYIO_THREADS, _thread_state), *((name, _connection_reader(name)) for name in tuple(_pools))):
        try:
            state = read()
        except Exception:
            if name not in _warned:
                _warned.add(name)
                _logger.warning("the pool %s could not be read; the same again will not be logged", name, exc_info=True)
            continue
        if state is not None:
            states.append((name, state))
    return states


def _reference(target: Any) -> Callable[[], Any]:
    """Return a function that returns the object, or None after its end; an object without weak references has none."""
    try:
        return ref(target)
    except TypeError:
        return lambda: target


def _thread_state() -> PoolState | None:
    """Return the sums over the event loops of the process; None without one."""
    statistics = []
    for entry in tuple(_limiters):
        loop, limiter = entry[0](), entry[1]()
        if loop is None or limiter is None or loop.is_closed():
            if entry in _limiters:
                _limiters.remove(entry)
        else:
            statistics.append(limiter.statistics())
    if not statistics:
        return None
    places = sum(each.total_tokens for each in statistics)
    return PoolState(
        None if math.isinf(places) else int(places),
        sum(each.borrowed_tokens for each in statistics),
        sum(each.tasks_waiting for each in statistics),
    )


def _connection_reader(name: str) -> Callable[[], PoolState | None]:
    return lambda: _connection_state(_pools[name]())


def _connection_state(target: Any) -> PoolState | None:
    """Return the state of an engine's present pool, or of a pool; None if it has ended, or counts no connections."""
    # `Engine.dispose` gives an engine another pool.
    pool = getattr(target, "pool", target)
    size, checked_out = getattr(pool, "size", None), getattr(pool, "checkedout", None)
    if not callable(size) or not callable(checked_out):
        return None
    # SQLAlchemy has no public name for the maximum. -1 is no limit, and so is a size of 0.
    max_overflow = getattr(pool, "_max_overflow", None)
    limited = isinstance(max_overflow, int) and max_overflow >= 0 and size() > 0
    return PoolState(size() + max_overflow if limited else None, max(0, checked_out()), None)
