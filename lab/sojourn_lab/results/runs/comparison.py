"""Two runs side by side: what was different in their set-up, and what came out differently, beyond noise or not.

Two kinds of interval. A case that both runs repeated at least three times: Student's t over the logarithms of the
ratios of its rounds, round by round, which holds for any figure. Otherwise, for the response time and its parts: the
requests of either run, resampled in blocks of neighbouring windows (`sojourn.timeline.time_blocks`). Those tell what
chance did within a run, and know nothing of what differs from one run to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sojourn_lab.results.criteria import median_at, number_at
from sojourn_lab.results.runs.archive import ArchivedRun, cases_of, figures_of
from sojourn_lab.results.runs.intervals import REQUEST_FIGURES, interval_by_requests, interval_by_rounds
from sojourn_lab.results.runs.setup import Difference, setup_differences

MAIN = (*REQUEST_FIGURES, "client.achieved_rate", "client.failed", "client.useful.share")
"""Paths of the figures that are compared in any case; those of columns and criteria come beside them."""

NOT_RESULTS = ("window.", "client.window.", "duration", "warmup", "service_time", "law.", "reference.", "round")
"""Paths of numbers that are no outcome."""

LEAST = 0.02
"""A change smaller than this share is not called one: two runs of one scenario differ by as much on a quiet machine."""

CLOCK = 0.001
"""s; nginx tells no time more exactly."""


@dataclass(frozen=True)
class FigureChange:
    """One figure of one case in both runs.

    `before` and `after`: medians over the rounds. `change`: after / before - 1; `low` and `high` its 95 % interval,
    None where nothing gives one; `basis`: `rounds` or `requests`. `beyond_noise`: whether the interval leaves 0 out and
    the change is no trifle; None without an interval.
    """

    case: str
    path: str
    before: float
    after: float
    change: float | None
    low: float | None = None
    high: float | None = None
    basis: str | None = None
    beyond_noise: bool | None = None


@dataclass(frozen=True)
class Flip:
    """A criterion that was kept in one run and not in the other."""

    name: str
    case: str
    before: bool
    after: bool


@dataclass(frozen=True)
class RunComparison:
    """What changed from run `a` to run `b`; `only_a` and `only_b` are the cases that the other one lacks."""

    a: ArchivedRun
    b: ArchivedRun
    setup: list[Difference]
    figures: list[FigureChange]
    flips: list[Flip]
    only_a: list[str]
    only_b: list[str]
    notes: list[str] = field(default_factory=list)

    @property
    def cases(self) -> list[str]:
        """The cases that both have, in the first run's order."""
        return list(dict.fromkeys(each.case for each in self.figures))

    @property
    def different(self) -> tuple[str, str] | None:
        """The names of the scenarios, where the two runs are not of the same."""
        names = self.a.raw["scenario"]["name"], self.b.raw["scenario"]["name"]
        return names if names[0] != names[1] else None

    def to_dict(self) -> dict[str, Any]:
        """What `sojourn lab compare --json` prints beside its verdict; durations in seconds."""
        return {
            **{side: _side(run) for side, run in (("a", self.a), ("b", self.b))},
            "setup": [vars(each) for each in self.setup],
            "figures": [vars(each) for each in self.figures],
            "criteria": [vars(each) for each in self.flips],
            "only": {"a": self.only_a, "b": self.only_b},
            "notes": self.notes,
        }


def compared_runs(a: ArchivedRun, b: ArchivedRun, *, every: bool = False) -> RunComparison:
    """Return what changed from `a` to `b`; `every` number of the results, or the main ones."""
    notes = _notes(a, b)
    ours, theirs = _rounds(a), _rounds(b)
    wanted = [*MAIN, *_metrics(a), *_metrics(b)]
    figures: list[FigureChange] = []
    for case in ours:
        if case not in theirs:
            continue
        one, other = ours[case], theirs[case]
        found, trouble = interval_by_requests(a, b, [name for name, _ in one], [name for name, _ in other])
        notes += [] if trouble is None else [f"{case}: {trouble}"]
        results = [result for _, result in one], [result for _, result in other]
        paths = [path for path, _ in figures_of(results[0][0]) if not path.startswith(NOT_RESULTS)] if every else []
        changes = (_change(case, path, *results, found.get(path)) for path in dict.fromkeys([*wanted, *paths]))
        figures += [each for each in changes if each is not None]
    if any(each.basis == "requests" for each in figures):
        notes.append(
            "Intervals from requests hold within these two runs; what differs from one run to the next is not in them."
            " Rounds (`repeats`, three or more) have that in them, too."
        )
    return RunComparison(
        a,
        b,
        setup_differences(a, b),
        figures,
        _flips(a, b),
        [case for case in ours if case not in theirs],
        [case for case in theirs if case not in ours],
        notes,
    )


def _change(
    case: str, path: str, ours: list[Any], theirs: list[Any], by_requests: tuple[float, float] | None
) -> FigureChange | None:
    """Return one figure on both sides; None where either lacks it. `by_requests`: ends of the change, absolute."""
    before, after = median_at(path, ours), median_at(path, theirs)
    if before is None or after is None:
        return None
    change = after / before - 1.0 if before else None
    rounds = list(zip(ours, theirs, strict=False))
    ends = interval_by_rounds([(number_at(path, a), number_at(path, b)) for a, b in rounds])
    basis = "rounds" if ends is not None else None
    if ends is None and by_requests is not None and before > 0.0:
        ends, basis = (by_requests[0] / before, by_requests[1] / before), "requests"
    if ends is None:
        return FigureChange(case, path, before, after, change)
    low, high = ends
    trifle = abs(change or 0.0) < LEAST or (path in REQUEST_FIGURES and abs(after - before) < CLOCK)
    return FigureChange(case, path, before, after, change, low, high, basis, not low <= 0.0 <= high and not trifle)


def _rounds(run: ArchivedRun) -> dict[str, list[tuple[str, Any]]]:
    """Return the rounds of every case of the scenario: what the log calls each, and its result."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for name, base, _, result in cases_of(run):
        found.setdefault(base, []).append((name, result))
    return found


def _metrics(run: ArchivedRun) -> list[str]:
    """Return the paths that the run's scenario shows and judges, as far as they are of the case itself."""
    scenario = run.raw["scenario"]
    told = [*_listed(scenario, "columns"), *_listed(scenario, "criteria")]
    of_cases = [each for each in told if not each.get("predictions") and not each.get("contrasts")]
    paths = [str(each.get("metric", "")) for each in of_cases]
    return [path for path in paths if path and ":" not in path and not path.startswith(NOT_RESULTS)]


def _listed(raw: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = raw.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _flips(a: ArchivedRun, b: ArchivedRun) -> list[Flip]:
    """Return the criteria that one run kept and the other did not, those that broke first."""
    judged = [
        {
            (str(each.get("name")), str(each.get("case"))): each.get("passed") is True
            for each in _listed(run.raw, "criteria")
        }
        for run in (a, b)
    ]
    found = [
        Flip(*key, kept, judged[1][key])
        for key, kept in judged[0].items()
        if key in judged[1] and kept != judged[1][key]
    ]
    return sorted(found, key=lambda flip: flip.after)


def _notes(a: ArchivedRun, b: ArchivedRun) -> list[str]:
    """Return what to know before any figure is read."""
    notes = [f"{run.label} is void: its figures say more about the generator." for run in (a, b) if run.raw.get("void")]
    names = a.raw["scenario"]["name"], b.raw["scenario"]["name"]
    if names[0] != names[1]:
        notes.append(
            f"{a.label} is of the scenario {names[0]} and {b.label} of {names[1]}:"
            " they are compared by the cases and keys that both have."
        )
    scales = number_at("scale", a.raw), number_at("scale", b.raw)
    if scales[0] != scales[1]:
        notes.append(f"The runs are of different scale, {scales[0]:g} and {scales[1]:g}: durations are as measured.")
    return notes


def _side(run: ArchivedRun) -> dict[str, Any]:
    raw = run.raw
    return {
        "run": run.name,
        "number": run.number or None,
        "scenario": raw["scenario"]["name"],
        **{key: raw.get(key) for key in ("started", "passed", "void", "scale", "runtime", "spin_up", "tear_down")},
        "changes": msgspec.to_builtins(raw.get("changes") or {}),
    }
