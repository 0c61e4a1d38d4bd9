"""What is inferred of the requests to a backend in one window of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.components.inferred.visits import ROW, Backend, Span
from sojourn.estimation.inferred import REFUSED, STAMP_ERROR, Inference
from sojourn.model.arrays import Ints

Floats = npt.NDArray[np.floating[Any]]
Instants = npt.NDArray[np.float64]

COARSEST_STEP = 0.001  # s, of instants that the likelihood can use


@dataclass(frozen=True)
class Part:
    """A window of time of a backend: positions of its rows, what is inferred of them, first and last arrival (s).

    ``edges``: positions of the first requests of ``result.windows``, but for the first one.
    """

    rows: npt.NDArray[np.integer[Any]]
    waits: Floats
    services: Floats
    later: npt.NDArray[np.integer[Any]]
    result: Inference
    ends: tuple[float, float]
    edges: Ints
    load: float


def smaller(part: Part, *, with_arrays: bool) -> Part:
    """Return a part in less memory, its result with or without arrays."""
    result, none, numbers = part.result, np.zeros(0), np.zeros(0, np.int64)
    if not with_arrays:
        result = replace(
            result, order=numbers, arrival=none, departure=none, start=none, depth=numbers, tried=none
        )  # fmt: skip
    return replace(
        part, rows=part.rows.astype(np.uint32), waits=part.waits.astype(np.float32),
        services=part.services.astype(np.float32), later=part.later.astype(np.int32), result=result,
    )  # fmt: skip


def part_of(
    table: pl.DataFrame, span: Span, backend: Backend, workers: int | None, skews: dict[str, float] | None
) -> tuple[Part, dict[str, float]]:
    """Return what is inferred of a window of time, and by how much the clock of each proxy is ahead, s.

    ``table``: as from ``Visits.part``. ``workers``: None: unknown. ``skews``: the clocks; None: they are estimated.
    """
    served = table.filter(~pl.col("unserved"))
    arrival, departure = (served[name].to_numpy() / 1e6 for name in ("arrival", "departure"))
    routes = _numbers(served["route"])
    unserved = len(table) - len(served)
    step = step_of(backend)
    if step > COARSEST_STEP:
        from sojourn.estimation.reconstruction import reconstruct  # noqa: PLC0415 - measured requests need no engine

        second = served["finish"].to_numpy() / 1e6
        result, skews = reconstruct(second, departure - arrival, routes, unserved=unserved, workers=workers), {}
    else:
        from sojourn.estimation.engine import infer  # noqa: PLC0415

        error = STAMP_ERROR if step >= COARSEST_STEP else STAMP_ERROR / 5
        if skews is None:
            skews = _skews(served, arrival, departure, routes, error)
        if skews:
            ahead = served["proxy"].cast(pl.String).replace_strict(skews, default=0.0).to_numpy()
            arrival, departure = arrival - ahead, departure - ahead
        result = infer(arrival, departure, routes, unserved=unserved, error=error, workers=workers)
    # Requests of the window before were in the system when this one began.
    order = result.order[served["arrival"].to_numpy()[result.order] >= span.begin]
    inside = np.isin(result.order, order, assume_unique=True) if len(order) < len(result.order) else slice(None)
    later = np.rint(result.arrival[inside] * 1e6).astype(np.int64) - served["arrival"].to_numpy()[order]
    is_inferred = result.verdict != REFUSED
    unknown = np.full(len(order), np.nan)
    wait, service = (result.wait[inside], result.service[inside]) if is_inferred else (unknown, unknown)
    at = result.arrival[inside]
    ends = (float(at[0]), float(at[-1])) if len(at) else (span.begin / 1e6, span.end / 1e6)
    if not is_inferred:  # what is refused keeps its instants
        later[:] = 0
    later = later if step > COARSEST_STEP or any(skews.values()) else later[:0]
    edges = np.searchsorted(at, [window.begin for window in result.windows[1:]])
    return Part(served[ROW].to_numpy()[order], wait, service, later, result, ends, edges, span.load), skews


def _numbers(names: pl.Series) -> Ints:
    """Return the number of each category."""
    return names.to_physical().to_numpy().astype(np.int64)


def _skews(
    served: pl.DataFrame, arrival: Instants, departure: Instants, routes: Ints, error: float
) -> dict[str, float]:
    """Return by how much the clock of each proxy is ahead, s; empty if there is one proxy."""
    _, first, proxies = np.unique(_numbers(served["proxy"]), return_index=True, return_inverse=True)
    if len(first) < 2:
        return {}
    from sojourn.estimation.skew import skews_of  # noqa: PLC0415

    ahead = skews_of(arrival, departure, proxies.astype(np.int64), routes, error)
    return {str(served["proxy"][int(at)]): round(float(skew), 6) for at, skew in zip(first, ahead, strict=True)}


def step_of(backend: Backend) -> float:
    """Return the largest step of the instants, s."""
    return COARSEST_STEP if backend.step is None else round(backend.step, 9)
