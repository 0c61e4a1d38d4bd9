"""Whether an objective breaks by the mix of the routes rather than by the rate.

Of each window of load the requests of each route are counted. How well a number tells windows that broke the objective
from the others is the area under the ROC curve (Hanley & McNeil 1982): the share of pairs of such windows in which the
number is larger in the one that broke it; 0.5 is chance. The number of a route's requests is the better explanation if
its area is ``CLEAR``, exceeds the rate's by ``BETTER``, and differs from chance by ``SIGNIFICANT`` standard deviations
(Mann & Whitney 1947). And no rate keeps an objective that service times alone exceed, also in the windows of the least
load: services that share something are shorter there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sojourn.analyses.capacity.knee import Knee, Slo
from sojourn.model.arrays import Bools, Floats
from sojourn.model.figures import QUANTILES
from sojourn.model.formatting import counted, duration, percent, printable
from sojourn.model.frame import INSTANT
from sojourn.model.groups import route_name
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.load_windows import LoadWindows

CLEAR, BETTER, SIGNIFICANT = 0.8, 0.1, 4.0
QUIET = 4  # of all windows, one in so many is of the least load
FEWEST = 3  # windows that broke the objective, and that kept it
ROUTES = 20  # with most requests
SCHEMA = {
    "route": pl.String(), "window": pl.Int64(), "requests": pl.Int64(), "service": pl.Float64(), "above": pl.Int64(),
}  # fmt: skip


@dataclass(frozen=True)
class Mix:
    """Requests of each route by window of load; one table for each objective.

    Attributes:
        tables: columns of ``SCHEMA``: route, window, requests, service (s), above (requests whose service time alone
            exceeds the limit of the objective).
    """

    tables: Sequence[pl.DataFrame]


def mix_of(rows: pl.LazyFrame, windows: LoadWindows, slos: Sequence[Slo]) -> Mix:
    """Return the mix of split rows."""
    served = without_upgraded(rows)
    if "service_time" not in served.collect_schema().names():
        return Mix(())
    width = round(windows.width * 1e6)
    window = (pl.col("start") - pl.lit(windows.begin, INSTANT)).dt.total_microseconds() // width
    service = pl.col("service_time")
    tables = [
        served.group_by(route=route_name(served), window=window)
        .agg(
            requests=pl.len().cast(pl.Int64),
            service=service.fill_null(0.0).sum(),
            above=(service > slo.limit).sum().cast(pl.Int64),
        )
        .select(*SCHEMA)
        .sort("route", "window")
        .collect(engine="streaming")
        for slo in slos
    ]
    return Mix(tables)


def explained_by_mix(knee: Knee, table: pl.DataFrame, mix: pl.DataFrame) -> Knee:
    """Return the knee, without a rate where a route explains the break, and the rate does not or less well.

    Args:
        knee: of the windows in ``table``.
        table: windows of load, of the system as one.
        mix: a table of ``Mix``, of the same objective.
    """
    if knee.slo.metric == "errors" or mix.is_empty():
        return knee
    quiet = table.sort("rate").head(max(math.ceil(len(table) / QUIET), FEWEST))["window"]
    in_quiet = _alone(knee.slo, mix.filter(pl.col("window").is_in(quiet.to_list())))
    if in_quiet is not None and (alone := _alone(knee.slo, mix)) is not None:
        return Knee(knee.slo, reason=alone[1], route=alone[0])
    broke = (table[knee.slo.metric] > knee.slo.limit).fill_null(value=False).to_numpy()
    if min(broke.sum(), (~broke).sum()) < FEWEST:
        return knee
    by_rate, _ = _area(table["rate"].to_numpy(), broke)
    best: tuple[float, str, Floats] | None = None
    largest = mix.group_by("route").agg(pl.col("requests").sum()).sort("requests", "route", descending=[True, False])
    for route in largest["route"].head(ROUTES).to_list():
        own = mix.filter(pl.col("route").eq_missing(route)).select("window", "requests")
        counts = table.select("window").join(own, on="window", how="left")["requests"].fill_null(0).to_numpy()
        area, deviations = _area(counts, broke)
        if area >= max(CLEAR, by_rate + BETTER) and deviations >= SIGNIFICANT and (best is None or area > best[0]):
            best = (area, route or "–", counts)
    if best is None:
        return knee
    _, route, counts = best
    rates = table["rate"].to_numpy()
    reason = (
        f"requests of {printable(route, 60)} break it, not the rate of all: windows that broke it had "
        f"{counts[broke].mean():.3g} of them at {rates[broke].mean():.3g} requests/s, the others "
        f"{counts[~broke].mean():.3g} at {rates[~broke].mean():.3g} requests/s"
    )
    return Knee(knee.slo, reason=reason, route=route)


def _alone(slo: Slo, mix: pl.DataFrame) -> tuple[str, str] | None:
    """Return the route whose services alone exceed the objective, and that as a clause; None if none does."""
    requests, above = int(mix["requests"].sum()), int(mix["above"].sum())
    if not requests:
        return None
    if slo.metric == "mean":
        broken = float(mix["service"].sum()) > slo.limit * requests
    else:
        broken = above > (1 - QUANTILES[slo.metric]) * requests
    if not broken:
        return None
    sums = mix.group_by("route").agg(pl.col("requests", "above", "service").sum())
    top = sums.sort("above", "service", "route", descending=[True, True, False]).row(0, named=True)
    route = printable(top["route"] or "–", 60)
    return route, (
        f"service times alone exceed it at any rate: those of {counted(above, 'request')} "
        f"({percent(above / requests)}) are longer than {duration(slo.limit)}, most of them of {route}"
    )


def _area(values: Floats, broke: Bools) -> tuple[float, float]:
    """Return the area under the ROC curve, and by how many standard deviations it exceeds chance."""
    positive, negative = int(broke.sum()), int((~broke).sum())
    ranks = pl.Series(values).rank("average").to_numpy()
    area = (ranks[broke].sum() - positive * (positive + 1) / 2) / (positive * negative)
    deviation = math.sqrt((positive + negative + 1) / (12 * positive * negative))
    return float(area), float((area - 0.5) / deviation)
