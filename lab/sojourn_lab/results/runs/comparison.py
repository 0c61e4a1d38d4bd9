"""Compare two runs: the differences of their set-up, and the changes of their figures, beyond noise or not.

There are two kinds of interval. For a case that both runs repeated at least three times: Student's t over the
logarithms of the ratios of successive rounds, for any figure. Otherwise, for the response time and its parts: the
requests of each run, resampled in blocks of neighbouring windows (`sojourn.timeline.time_blocks`), by the logarithms of
the ratios of the resamples. The latter cover variation within a run, not variation between runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sojourn_lab.results.contrasts import interval_by_rounds
from sojourn_lab.results.criteria import median_at, number_at
from sojourn_lab.results.runs.archive import REQUEST_FIGURES, ArchivedRun, cases_of, figures_of, tables_in
from sojourn_lab.results.runs.setup import Difference, setup_differences

MAIN = (*REQUEST_FIGURES, "client.achieved_rate", "client.failed", "client.useful.share")
"""Paths of the figures that are always compared, in addition to those of columns and criteria."""

NOT_RESULTS = ("window.", "client.window.", "duration", "warmup", "service_time", "law.", "reference.", "round")
"""Paths of numbers that are not results."""

LEAST = 0.02
"""A smaller change counts as noise: two runs of one scenario differ by as much on a quiet machine."""

CLOCK = 0.001
"""s; the resolution of nginx's times."""


@dataclass(frozen=True)
class FigureChange:
    """One figure of one case in both runs.

    `before` and `after`: medians over the rounds. `change`: after / before - 1; `low` and `high`: its 95 % interval,
    None where there is none; `basis`: `rounds` or `requests`. `beyond_noise`: whether the interval excludes 0 and the
    change is at least LEAST (and CLOCK, for times of requests); None without an interval.
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
    """A criterion that was met in one run and not in the other."""

    name: str
    case: str
    before: bool
    after: bool


@dataclass(frozen=True)
class RunComparison:
    """The changes from run `a` to run `b`; `only_a` and `only_b`: cases that the other run lacks."""

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
        """The cases of both runs, in the first run's order."""
        return list(dict.fromkeys(each.case for each in self.figures))

    @property
    def different(self) -> tuple[str, str] | None:
        """The names of the two scenarios; None if they are the same."""
        names = self.a.raw["scenario"]["name"], self.b.raw["scenario"]["name"]
        return names if names[0] != names[1] else None

    def to_dict(self) -> dict[str, Any]:
        """Return the output of `sojourn lab compare --json` without its verdict; durations in seconds."""
        return {
            **{side: _side(run) for side, run in (("a", self.a), ("b", self.b))},
            "setup": [vars(each) for each in self.setup],
            "figures": [vars(each) for each in self.figures],
            "criteria": [vars(each) for each in self.flips],
            "only": {"a": self.only_a, "b": self.only_b},
            "notes": self.notes,
        }


def compared_runs(a: ArchivedRun, b: ArchivedRun, *, every: bool = False) -> RunComparison:
    """Return the changes from `a` to `b`: of `every` number of the results, or of the main ones."""
    from sojourn_lab.results.runs.intervals import interval_by_requests  # noqa: PLC0415 - brings NumPy and Polars

    notes = _notes(a, b)
    rounds_a, rounds_b = _rounds(a), _rounds(b)
    main = [*MAIN, *_metrics(a), *_metrics(b)]
    figures: list[FigureChange] = []
    for case in rounds_a:
        if case not in rounds_b:
            continue
        one, other = rounds_a[case], rounds_b[case]
        intervals, reason = interval_by_requests(a, b, [name for name, _ in one], [name for name, _ in other])
        notes += [] if reason is None else [f"{case}: {reason}"]
        results = [result for _, result in one], [result for _, result in other]
        paths = [path for path, _ in figures_of(results[0][0]) if not path.startswith(NOT_RESULTS)] if every else []
        changes = (_change(case, path, *results, intervals.get(path)) for path in dict.fromkeys([*main, *paths]))
        figures += [each for each in changes if each is not None]
    if any(each.basis == "requests" for each in figures):
        notes.append(
            "Intervals from requests cover variation within these two runs, not variation between runs."
            " Three or more rounds (`repeats`) cover both."
        )
    return RunComparison(
        a,
        b,
        setup_differences(a, b),
        figures,
        _flips(a, b),
        [case for case in rounds_a if case not in rounds_b],
        [case for case in rounds_b if case not in rounds_a],
        notes,
    )


def _change(
    case: str, path: str, rounds_a: list[Any], rounds_b: list[Any], by_requests: tuple[float, float] | None
) -> FigureChange | None:
    """Return one figure of both runs; None if either lacks it. `by_requests`: ends of after / before - 1."""
    before, after = median_at(path, rounds_a), median_at(path, rounds_b)
    if before is None or after is None:
        return None
    change = after / before - 1.0 if before else None
    rounds = list(zip(rounds_a, rounds_b, strict=False))
    ends = interval_by_rounds([(number_at(path, a), number_at(path, b)) for a, b in rounds])
    basis = "rounds" if ends is not None else None
    if ends is None and by_requests is not None:
        ends, basis = by_requests, "requests"
    if ends is None:
        return FigureChange(case, path, before, after, change)
    low, high = ends
    trifle = abs(change or 0.0) < LEAST or (path in REQUEST_FIGURES and abs(after - before) < CLOCK)
    return FigureChange(case, path, before, after, change, low, high, basis, not low <= 0.0 <= high and not trifle)


def _rounds(run: ArchivedRun) -> dict[str, list[tuple[str, Any]]]:
    """Return case of the scenario -> its rounds, each with its name in the log and its result."""
    rounds: dict[str, list[tuple[str, Any]]] = {}
    for name, base, _, result in cases_of(run):
        rounds.setdefault(base, []).append((name, result))
    return rounds


def _metrics(run: ArchivedRun) -> list[str]:
    """Return the paths in the columns and criteria of the run's scenario that are of the case itself."""
    scenario = run.raw["scenario"]
    metrics = [*tables_in(scenario, "columns"), *tables_in(scenario, "criteria")]
    of_cases = [each for each in metrics if not each.get("predictions") and not each.get("contrasts")]
    paths = [str(each.get("metric", "")) for each in of_cases]
    return [path for path in paths if path and ":" not in path and not path.startswith(NOT_RESULTS)]


def _flips(a: ArchivedRun, b: ArchivedRun) -> list[Flip]:
    """Return the criteria that only one run met, those that the second run missed first."""
    judged = [
        {
            (str(each.get("name")), str(each.get("case"))): each.get("passed") is True
            for each in tables_in(run.raw, "criteria")
        }
        for run in (a, b)
    ]
    flips = [
        Flip(*key, passed, judged[1][key])
        for key, passed in judged[0].items()
        if key in judged[1] and passed != judged[1][key]
    ]
    return sorted(flips, key=lambda flip: flip.after)


def _notes(a: ArchivedRun, b: ArchivedRun) -> list[str]:
    """Return notes on the validity of all figures."""
    notes = [f"{run.label} is void: do not use its figures." for run in (a, b) if run.raw.get("void")]
    names = a.raw["scenario"]["name"], b.raw["scenario"]["name"]
    if names[0] != names[1]:
        notes.append(
            f"{a.label} is of the scenario {names[0]} and {b.label} of {names[1]}:"
            " only the cases and keys of both are compared."
        )
    scales = number_at("scale", a.raw), number_at("scale", b.raw)
    if scales[0] != scales[1]:
        notes.append(f"The runs have different scales, {scales[0]:g} and {scales[1]:g}: durations are as measured.")
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
