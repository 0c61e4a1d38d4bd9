"""Saturation of a closed loop under a ramp of users, and the part of it that is usable under an objective.

law            c / S, the most requests a second that the workers can serve (utilisation law)
plateau        throughput while users join and all workers are busy. `early`: from 2·c users until there are 4·c (at
               most half way to all); `late`: while the last fifth of the users joins. Each has the `throughput`,
               answers a second, and the mean number of `users`; `ratio` is late / early, `more_users` the same of users
saturation     the throughput of `late`
rise           throughput against users, in windows, while users are fewer than HALF_WAY of those that saturate: `slope`
               (per user, through the origin), `ratio` to 1 / (Z + S), the throughput of one user without queueing;
               `r2`, the share of the variance that the line explains; `windows`
objective      p99 of the response time in seconds, BEYOND_PAUSE times the pause; None without a pause
usable         requests a second at which p99 exceeds the objective, from `sojourn capacity`: `rate`, `low`, `high`,
               `reason`; `of_saturation` is rate / law
sizing         instances for TARGET requests a second plus HEADROOM: `saturation` and `usable` by the measured rates, in
               units of the article's saturation (an instance that serves the law's rate in the lab serves ARTICLE_MOST
               in the article), `article` by the article's own rate per instance
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from sojourn.analyses.capacity.analysis import capacity
from sojourn.analyses.capacity.knee import Slo
from sojourn.analyses.capacity.sizing import instances_needed
from sojourn.model.arrays import Floats
from sojourn.timeline.load_windows import load_windows

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.scenario.load import ClosedLoad

HALF_WAY = 0.6
"""Share of the users that saturate: above it some requests wait by chance, and the curve is no longer a line."""

BEYOND_PAUSE = 4.0 / 3.0
"""From the article: a pause of 1.5 s and an objective of 2 s."""

WINDOWS = 24
TARGET, HEADROOM, ARTICLE_EACH, ARTICLE_MOST = 24_000.0, 0.3, 900.0, 1_250.0


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module. LabError if its load is not a ramp of users in a closed loop."""
    load = data.case.load
    if not isinstance(load, ClosedLoad) or load.from_concurrency is None:
        raise LabError("the analysis `capacity` needs a closed load with `from_concurrency`: users that join over time")
    workers = data.topology.served_at_once
    service = data.case.mean_service_time
    duration = data.until - data.since
    done = answered_after(
        [each.done for each in data.records if each.done is not None and (each.status or 500) < 400], data.since
    )
    law = workers / service
    plateau = plateau_of(done, load, workers, duration)
    objective = BEYOND_PAUSE * load.think_time if load.think_time else None
    usable = None if objective is None else _usable(data.rows, objective)
    rate = None if usable is None else usable["rate"]
    if usable is not None:
        usable["of_saturation"] = None if rate is None else rate / law
    saturation = plateau["late"]["throughput"]
    return {
        "law": law,
        "plateau": plateau,
        "saturation": saturation,
        "rise": rise_of(done, load, workers, service, duration),
        "objective": objective,
        "usable": usable,
        "sizing": {
            "saturation": instances(saturation / law * ARTICLE_MOST),
            "usable": instances(rate / law * ARTICLE_MOST) if rate is not None else None,
            "article": instances(ARTICLE_EACH),
        },
    }


def answered_after(done: Sequence[float], since: float) -> Floats:
    """Return the instants of answers in seconds after `since`, in order."""
    return np.sort(np.asarray(done, dtype=np.float64)) - since


def users_at(load: ClosedLoad, at: Floats, duration: float) -> Floats:
    """Return how many users there are at seconds after the warm-up; they join evenly over `duration`."""
    first = load.concurrency if load.from_concurrency is None else load.from_concurrency
    return np.asarray(first + (load.concurrency - first) * np.clip(at / duration, 0.0, 1.0), dtype=np.float64)


def throughput(done: Floats, begin: float, end: float) -> float:
    """Return the answers a second between two instants."""
    return float(((done >= begin) & (done < end)).sum() / (end - begin))


def plateau_of(done: Floats, load: ClosedLoad, workers: int, duration: float) -> dict[str, Any]:
    """Return the throughput of additional users once all workers are busy; LabError if there are never enough users."""
    first = load.from_concurrency or 1
    joining = load.concurrency - first
    busy = 2 * workers
    if joining <= 0 or load.concurrency <= busy:
        raise LabError(
            f"{load.concurrency} users are too few for a plateau of {workers} workers: set `concurrency` above {busy}"
        )

    def instant(users: float) -> float:
        return min(max((users - first) / joining, 0.0), 1.0) * duration

    begin, end = instant(busy), instant(min(2.0 * busy, (busy + load.concurrency) / 2.0))
    spans = {"early": (begin, end), "late": (0.8 * duration, duration)}
    plateau: dict[str, Any] = {
        name: {
            "throughput": throughput(done, since, until),
            "users": float(users_at(load, np.array([(since + until) / 2.0]), duration)[0]),
        }
        for name, (since, until) in spans.items()
    }
    early, late = plateau["early"], plateau["late"]
    ratio = late["throughput"] / early["throughput"] if early["throughput"] else None
    return {**plateau, "ratio": ratio, "more_users": late["users"] / early["users"]}


def rise_of(done: Floats, load: ClosedLoad, workers: int, service: float, duration: float) -> dict[str, Any]:
    """Return how the throughput rises with the number of users below saturation."""
    few = HALF_WAY * workers * (load.think_time + service) / service
    edges = np.linspace(0.0, duration, WINDOWS + 1)
    users = users_at(load, (edges[:-1] + edges[1:]) / 2.0, duration)
    rates = np.histogram(done, edges)[0] / (duration / WINDOWS)
    chosen = users < few
    if chosen.sum() < 3:
        return {"windows": int(chosen.sum()), "slope": None, "ratio": None, "r2": None}
    x, y = users[chosen], rates[chosen]
    slope = float((x * y).sum() / (x * x).sum())
    spread = float(((y - y.mean()) ** 2).sum())
    left = float(((y - slope * x) ** 2).sum())
    return {
        "windows": int(chosen.sum()),
        "slope": slope,
        "ratio": slope * (load.think_time + service),
        "r2": 1.0 - left / spread if spread else None,
    }


def instances(each: float) -> int:
    """Return the instances of `each` requests a second that the article's target and its headroom need."""
    return instances_needed(TARGET, each, HEADROOM)


def _usable(rows: pl.DataFrame, objective: float) -> dict[str, Any]:
    starts = rows["start"].dt.epoch("us").to_numpy() / 1e6
    seconds = float(starts.max() - starts.min()) if len(rows) else 0.0
    if not seconds:
        raise LabError("no request was logged: a capacity cannot be estimated")
    windows = load_windows(rows.lazy(), width=seconds / WINDOWS)
    knee = capacity(windows, slos=[Slo("p99", objective)]).knees[0].to_dict()
    return {name: knee[name] for name in ("rate", "low", "high", "at_least", "at_most", "reason")}
