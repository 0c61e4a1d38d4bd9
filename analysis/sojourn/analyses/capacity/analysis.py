"""Capacity: the universal scalability law, the load at which an objective breaks, instances for a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sojourn.analyses.capacity.knee import LEAST_WINDOWS as KNEE_WINDOWS
from sojourn.analyses.capacity.knee import Knee, Slo, knee_of
from sojourn.analyses.capacity.mix import Mix, explained_by_mix
from sojourn.analyses.capacity.sizing import AS_GIVEN, Sizing, instances_needed, sized
from sojourn.analyses.capacity.usl import LEAST_WINDOWS as USL_WINDOWS
from sojourn.analyses.capacity.usl import Usl, fit_usl
from sojourn.model.formatting import counted, iso, percent
from sojourn.model.result import Result
from sojourn.timeline.apparent_loop import ApparentLoop, loop_of
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.contention.resources import DEPENDENCY, WORKERS
from sojourn.timeline.load_windows import LoadWindows

RAMP = 1.5  # ratio of the loads of busy and quiet windows; below it the load counts as constant
QUIET, BUSY = 0.05, 0.95
GOOD_FIT = 0.8  # of R²
POISSON_BUSY = 1.645  # standard deviations at 95 %
REQUESTS_OF_P = {"p90": 10, "p99": 100, "p999": 1_000}  # with fewer in a window, the quantile is its slowest request
IF_SHARED = "If all instances share it, each further instance serves less than this one, and the number is too small."
UNTESTED = (
    "The number of instances assumes that they share nothing, which was not tested: a test needs files with the "
    "queueing delay. A database or a lock that all instances share makes more of them necessary, or useless."
)
CLOSED = (
    "a closed loop without think time: each client sends its next request after an answer, so throughput and response "
    "time are those of saturation, not a capacity; generate load with a schedule of arrivals instead"
)


@dataclass(frozen=True, repr=False)
class Capacity(Result):
    """The capacity of a system, or of its instances, from windows of load.

    Attributes:
        windows: the windows of load.
        loop: closed or open.
        quiet, busy: 5 % and 95 % quantile of the windows' rates, requests/s.
        ramp: whether the load varied enough, and by more than chance, for a fit.
        usl: the fit; None: there is none.
        usl_reason: why there is no fit.
        knees: one per objective.
        sizing: instances for a target rate, if one was given.
        by_instance: one row per instance, if windows are by instance.
        dependence: of services on the load, for a size from the log; None: not tested.
    """

    TABLES: ClassVar = ("windows", "knees", "by_instance")

    windows: LoadWindows
    loop: ApparentLoop
    quiet: float
    busy: float
    ramp: bool
    usl: Usl | None
    usl_reason: str | None
    knees: tuple[Knee, ...]
    sizing: Sizing | None
    by_instance: tuple[dict[str, Any], ...] = ()
    dependence: LoadDependence | None = None

    def _table(self, name: str) -> Any:
        return self.windows.table if name == "windows" else super()._table(name)

    @property
    def contention(self) -> dict[str, Any] | None:
        """What services share, as plain values; None: nothing, not tested, or no law explains it."""
        contention = None if self.dependence is None else self.dependence.contention
        return contention.to_dict() if contention is not None and contention.explains else None

    @property
    def failures(self) -> list[str]:
        """Reasons to doubt the figures, shown first."""
        return [CLOSED] if self.loop.closed else []

    @property
    def notes(self) -> list[str]:
        """Limits of the result, in sentences."""
        notes = list(self.windows.notes)
        table = self.windows.table
        if not self.ramp and not self.loop.closed:
            notes.append(
                f"The load was nearly constant ({self.quiet:.4g} to {self.busy:.4g} requests/s): one point "
                "determines no law and no knee. Ramp the load, or read a longer log with different loads."
            )
        typical = float(table["arrivals"].median() or 0)  # type: ignore[arg-type]
        notes.extend(
            f"A window has {typical:.0f} requests: {knee.slo.metric} of so few is about their slowest. Give a larger "
            "--window, or more requests."
            for knee in self.knees
            if typical < REQUESTS_OF_P.get(knee.slo.metric, 0)
        )
        if self.usl is not None and self.usl.unidentified:
            notes.append(f"USL: not significant in the observed range: {' and '.join(self.usl.unidentified)}.")
        if self.usl is not None and self.usl.r_squared < GOOD_FIT:
            notes.append(
                f"USL: the curve explains {percent(max(self.usl.r_squared, 0.0))} of the variance of throughput; do "
                "not rely on it."
            )
        if not self.windows.by_instance and self.windows.upstreams > 1:
            notes.append(
                f"{self.windows.upstreams} upstream addresses are counted as one system. Give --instance upstream to "
                "count each address."
            )
        if self.sizing is not None and self.sizing.instances is not None and self.sizing.source != AS_GIVEN:
            notes.extend(_of_dependence(self.dependence))
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn capacity --json`` prints."""
        windows = self.windows.table.drop("departures", "followed", "age", "gaps", "gaps_squared")
        return {
            "requests": self.windows.requests,
            "window": self.windows.width,
            "instance": "upstream" if self.windows.by_instance else "system",
            "upstreams": self.windows.upstreams,
            "load": {"quiet": self.quiet, "busy": self.busy, "ramp": self.ramp},
            "closed_loop": self.loop.to_dict(),
            "usl": self.usl.to_dict() if self.usl else None,
            "usl_reason": self.usl_reason,
            "knees": [knee.to_dict() for knee in self.knees],
            "sizing": self.sizing.to_dict() if self.sizing else None,
            "contention": self.contention,
            "by_instance": list(self.by_instance),
            "failures": self.failures,
            "notes": self.notes,
            "windows": [
                {"begin": iso(self.windows.begin + timedelta(seconds=row.pop("window") * self.windows.width)), **row}
                for row in windows.to_dicts()
            ],
        }


def _of_dependence(dependence: LoadDependence | None) -> list[str]:
    if dependence is None or not dependence.independence.tested:
        return [UNTESTED]
    contention = dependence.contention
    if contention is None or not contention.explains:
        return [
            f"{name or 'The backend'}: {clause}. {IF_SHARED}" for name, clause in list(dependence.clauses.items())[:1]
        ]
    notes = contention.notes
    if contention.bottleneck != WORKERS:
        notes += [
            f"{each.name}: saturated at {each.saturates_at:,.3g} requests/s, with any number of workers."
            for each in contention.resources
            if each.saturates_at is not None
        ]
    if contention.bottleneck == DEPENDENCY:
        notes.append(IF_SHARED)
    return notes


def capacity(
    windows: LoadWindows,
    *,
    slos: Sequence[Slo] = (),
    target_rate: float | None = None,
    headroom: float = 0.0,
    per_instance: float | None = None,
    dependence: LoadDependence | None = None,
    mix: Mix | None = None,
    seed: int = 0,
) -> Capacity:
    """Estimate the capacity from windows of load.

    Args:
        windows: windows of ``load_windows`` or of a store.
        slos: objectives; sizing uses the one that breaks first.
        target_rate: rate to size for, requests/s.
        headroom: additional capacity, as a share of the target.
        per_instance: known rate of one instance, requests/s.
        dependence: of the services of the same requests; None: not tested.
        mix: the routes of the same requests by window, for each objective; None: unknown.
        seed: seed of the bootstraps.

    Raises:
        SojournError: target, headroom or rate of an instance is out of range.
    """
    table = windows.table
    loop = loop_of(table if windows.whole is None else windows.whole)
    quiet, busy, ramp = _varied(table, loop)
    knees = tuple(_knee(table, slo, loop, ramp, seed) for slo in slos)
    if mix is not None and mix.tables and not windows.by_instance and not loop.closed:
        knees = tuple(explained_by_mix(knee, table, each) for knee, each in zip(knees, mix.tables, strict=True))
    usl, reason = _usl(table, loop, ramp, seed)
    return Capacity(
        windows=windows,
        loop=loop,
        quiet=quiet,
        busy=busy,
        ramp=ramp,
        usl=usl,
        usl_reason=reason,
        knees=knees,
        sizing=_sizing(target_rate, headroom, per_instance, knees, windows, dependence),
        by_instance=tuple(_instances(table, slos, loop, seed)) if windows.by_instance else (),
        dependence=dependence,
    )


def _varied(table: pl.DataFrame, loop: ApparentLoop) -> tuple[float, float, bool]:
    """Return the rates of quiet and busy windows, and whether they differ by more than chance and ``RAMP``."""
    quiet, busy = (float(v) for v in np.quantile(table["rate"].to_numpy(), [QUIET, BUSY]))
    # The square root of a Poisson count has a standard deviation of 1/2, whatever its mean (Anscombe 1948).
    root, spread = math.sqrt(table["arrivals"].mean()), POISSON_BUSY / 2  # type: ignore[arg-type]
    chance = ((root + spread) / (root - spread)) ** 2 if root > spread else math.inf
    return quiet, busy, busy >= RAMP * chance * quiet and not loop.closed


def _usl(table: pl.DataFrame, loop: ApparentLoop, ramp: bool, seed: int) -> tuple[Usl | None, str | None]:
    """Return the fit of the law; in a closed loop the number of clients has to vary, otherwise the rate."""
    if not ramp and not loop.closed:
        return None, "the load was nearly constant: a ramp is needed"
    busy = table.filter(pl.col("concurrency") > 0, pl.col("throughput") > 0)
    concurrency, throughput = busy["concurrency"].to_numpy(), busy["throughput"].to_numpy()
    if len(busy) < USL_WINDOWS:
        return None, _too_few(len(busy), USL_WINDOWS)
    low, high = np.quantile(concurrency, [QUIET, BUSY])
    if high < RAMP * low:
        what = "clients" if loop.closed else "concurrency"
        return None, f"{what} hardly varied ({low:.3g} to {high:.3g}): a ramp is needed"
    return fit_usl(concurrency, throughput, seed=seed), None


def _too_few(windows: int, least: int) -> str:
    return f"{counted(windows, 'window of load is', 'windows of load are')} too few; at least {least} are needed"


def _knee(table: pl.DataFrame, slo: Slo, loop: ApparentLoop, ramp: bool, seed: int) -> Knee:
    if loop.closed:
        return Knee(slo, reason="closed loop without think time: the rate is a result, not an input")
    if len(table) < KNEE_WINDOWS:
        return Knee(slo, reason=_too_few(len(table), KNEE_WINDOWS))
    figures = table[slo.metric].to_numpy()
    over = float((figures > slo.limit).mean())
    if not ramp and 0 < over < 1:
        return Knee(
            slo, reason=f"the load was nearly constant, and {percent(over)} of the windows broke it: a ramp is needed"
        )
    return knee_of(table["rate"].to_numpy(), figures, slo, seed=seed)


def _sizing(
    target: float | None,
    headroom: float,
    per_instance: float | None,
    knees: Sequence[Knee],
    windows: LoadWindows,
    dependence: LoadDependence | None,
) -> Sizing | None:
    if target is None:
        return None
    if per_instance is not None:
        return sized(target, headroom, per_instance)
    if windows.by_instance and dependence is not None and dependence.of_all is not None:
        reason = f"{dependence.of_all}; the rate of one does not hold for another number of them"
        return Sizing(target, headroom, None, "an upstream address", reason=reason)
    what = "an upstream address" if windows.by_instance else "the system as it was measured"
    unknown = next((knee for knee in knees if knee.rate is None and knee.at_least is None), None)
    if not knees or unknown is not None:
        reason = "no objective was given" if unknown is None else str(unknown.reason)
        return Sizing(target, headroom, None, what, reason=f"the rate of {what} is unknown: {reason}")
    knee = min(knees, key=lambda k: k.rate if k.rate is not None else k.at_least or 0.0)
    rate = knee.rate if knee.rate is not None else knee.at_least
    assert rate is not None  # noqa: S101 - the knees without either were sorted out

    def needed(value: float | None) -> int | None:
        return None if value is None else instances_needed(target, value, headroom)

    return Sizing(
        target,
        headroom,
        rate,
        f"{what}, {knee.slo}",
        instances=needed(rate),
        bound="exactly" if knee.rate is not None else "at most",
        low=needed(knee.high),
        high=needed(knee.low),
    )


def _instances(table: pl.DataFrame, slos: Sequence[Slo], loop: ApparentLoop, seed: int) -> list[dict[str, Any]]:
    instances = []
    for (name,), part in sorted(table.partition_by("instance", as_dict=True).items()):
        quiet, busy, ramp = _varied(part, loop)
        instances.append(
            {
                "instance": name,
                "requests": int(part["arrivals"].sum()),
                "quiet": quiet,
                "busy": busy,
                "throughput": float(part["throughput"].max()),  # type: ignore[arg-type]
                "concurrency": float(part["concurrency"].max()),  # type: ignore[arg-type]
                "knees": [_knee(part, slo, loop, ramp, seed).to_dict() for slo in slos],
            }
        )
    return instances
