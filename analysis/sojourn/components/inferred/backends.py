"""The inferred queue of each backend whose app reported nothing: a window of time after the other in a long log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.components.inferred.visits import Backend, Span, Visits
from sojourn.components.inferred.windows import COARSEST_STEP, Floats, Part, part_of, smaller, step_of
from sojourn.estimation.inferred import INFERRED, LOWER_BOUND, REFUSED, Inference, refused
from sojourn.estimation.stretches import Stretch, joined
from sojourn.model.coverage import ENOUGH, FEW_MEASURED
from sojourn.model.formatting import iso, printable
from sojourn.model.frame import APP, WHOLE
from sojourn.model.groups import LARGEST

MOST_SLOW = 0.05  # of the requests: with more slow clients, the order of the lines is not that of the answers
TOO_MANY = (
    f"It is not among the {LARGEST:,} backends with the most requests, and has fewer than {ENOUGH} requests: select "
    "it with --where."
)
SLOW_CLIENTS = (
    "The instants of the log are whole seconds, and clients took long to receive their answers, so that the order of "
    "the lines is not that of the backend's answers: add $msec to nginx's log_format."
)


@dataclass(frozen=True, repr=False)
class BackendInference:
    """The inferred queue of one backend.

    Attributes:
        upstream: its address; None: the log does not name it.
        requests: requests to it.
        unserved: of these, the ones that left without being served.
        inferred: of these, the ones whose wait is inferred.
        wait, service: mean, p50 and p99 of these, s; empty where it is refused.
        result: the inference; of a long log, its arrays are those of the busiest part.
        base: the instant 0 of ``result``.
        rows: positions of the served requests among the rows, in the order of their arrivals.
        waits: of the same requests, s; NaN where it is refused, also in a part of a long log.
        numbers: number of workers at the same requests.
        later: microseconds by which the arrival of each is later than its row says; empty if none is: only where
            instants are reconstructed or a clock is corrected.
        skews: proxy -> s by which its clock is ahead of that of the proxy with most requests, where that is known.
    """

    upstream: str | None
    requests: int
    unserved: int
    inferred: int
    wait: Mapping[str, float]
    service: Mapping[str, float]
    result: Inference
    base: datetime
    rows: npt.NDArray[np.integer[Any]] = field(default_factory=lambda: np.zeros(0, np.int64))
    waits: Floats = field(default_factory=lambda: np.zeros(0))
    numbers: npt.NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16))
    later: npt.NDArray[np.integer[Any]] = field(default_factory=lambda: np.zeros(0, np.int64))
    skews: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The backend, for people."""
        return printable(self.upstream or "the backend", 60)

    @property
    def sentence(self) -> str:
        """The verdict with its reason."""
        verdict = {INFERRED: "inferred", LOWER_BOUND: "a lower bound", REFUSED: "not inferred"}[self.result.verdict]
        return f"Queueing delay of {self.name}: {verdict}. {self.result.reason}"

    def at(self, seconds: float) -> datetime:
        """Return an instant of ``result``."""
        return self.base + timedelta(seconds=seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the object of the JSON output."""
        result = self.result
        refused = result.verdict == REFUSED
        windows = () if refused else result.windows
        excess = result.excess and {"mean": result.excess[0], "standard_error": result.excess[1]}
        return {
            "upstream": self.upstream,
            "requests": self.requests,
            "verdict": result.verdict,
            "reason": result.reason,
            "workers": None if refused else result.workers,
            "workers_set": None if refused else [result.lowest, result.highest],
            "wait": None if refused else dict(self.wait),
            "wait_range": {
                "mean": None if refused else result.mean_range and list(result.mean_range),
                "p99": None if refused else result.p99_range and list(result.p99_range),
            },
            "service": None if refused else dict(self.service),
            "empty_system_excess": excess,
            "moved": bool(windows),
            "windows": [
                {**vars(window), "begin": iso(self.at(window.begin)), "end": iso(self.at(window.end))}
                for window in windows
            ],
            "checks": [check.to_dict() for check in result.checks],
            "unserved": self.unserved,
            "contradictions": result.contradictions,
            "skew": dict(self.skews),
        }


def figures_of(seconds: Floats) -> dict[str, float]:
    """Return mean, p50 and p99 of times (s), without those that are not known; empty without any."""
    values = seconds[~np.isnan(seconds)]
    if not len(values):
        return {}
    p50, p99 = np.quantile(values, (0.5, 0.99))
    return {"mean": float(values.mean(dtype=np.float64)), "p50": float(p50), "p99": float(p99)}


def inferences(rows: pl.LazyFrame, workers: int | Mapping[str, int] | None = None) -> Iterator[BackendInference]:
    """Yield the inferred queue of every backend whose app reported nothing, the one with most requests first.

    Args:
        rows: split rows.
        workers: number of workers per backend, or of all; None: inferred.

    Logs with stamps of a second take seconds: their instants are sampled. Of backends with fewer than ``ENOUGH``
    requests, for which ``workers`` are given, those are refused that are not among the ``LARGEST``.
    """
    visits = Visits.of(rows)
    candidates = [each for each in visits.backends() if _may_be_inferred(each, workers)]
    inferred = [each for place, each in enumerate(candidates) if place < LARGEST or each.requests >= ENOUGH]
    for some, backends in visits.batches(inferred):
        for backend in backends:
            number = workers.get(backend.upstream or "") if isinstance(workers, Mapping) else workers
            yield _inference(some, backend, number)
    for backend in candidates[len(inferred) :]:
        yield _refused(visits, backend, TOO_MANY)


def _may_be_inferred(backend: Backend, workers: int | Mapping[str, int] | None) -> bool:
    """Return whether the app of a backend reported nothing, and the log has enough requests of it."""
    if workers is None and backend.requests < ENOUGH:
        return False
    return backend.measured <= FEW_MEASURED * max(backend.answered, 1) and backend.vantage != APP


def _inference(visits: Visits, backend: Backend, workers: int | None) -> BackendInference:
    if refusal := _unusable(backend):
        return _refused(visits, backend, refusal)
    spans = visits.spans(backend)
    skews: dict[str, float] | None = None
    part_of_span: dict[Span, Part] = {}
    # The busiest one first: the clocks are compared there.
    for span in sorted(spans, key=lambda each: -each.load):
        part, skews = part_of(visits.part(backend, span), span, backend, workers, skews)
        part_of_span[span] = part if len(spans) == 1 else smaller(part, with_arrays=not part_of_span)
    parts = [part_of_span.pop(span) for span in spans]
    waits = _together(part.waits for part in parts)
    result = _joined(parts, waits)
    service = figures_of(_together(part.services for part in parts))
    unknown = result.verdict == REFUSED
    return BackendInference(
        backend.upstream, backend.requests, backend.unserved, 0 if unknown else int((~np.isnan(waits)).sum()),
        {} if unknown else figures_of(waits), {} if unknown else service, result, visits.base,
        _together(part.rows for part in parts), waits, _together(_numbers_of(part, result) for part in parts),
        _together(part.later for part in parts),
        {name: seconds for name, seconds in (skews or {}).items() if seconds},
    )  # fmt: skip


def _refused(visits: Visits, backend: Backend, reason: str) -> BackendInference:
    """Return that nothing is inferred of a backend, and why."""
    result = refused(reason)
    return BackendInference(backend.upstream, backend.requests, backend.unserved, 0, {}, {}, result, visits.base)


def _together(arrays: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return arrays as one; the only one as it is."""
    several = list(arrays)
    return several[0] if len(several) == 1 else np.concatenate(several)


def _joined(parts: list[Part], waits: Floats) -> Inference:
    """Return the inference of all parts, in their order; ``waits``: of all."""
    if len(parts) == 1:
        return parts[0].result
    figures = [figures_of(part.waits) for part in parts]
    stretches = [
        Stretch(part.result, len(part.rows), wait.get("mean", 0.0), wait.get("p99", 0.0), *part.ends, part.load)
        for part, wait in zip(parts, figures, strict=True)
    ]
    return joined(stretches, figures_of(waits).get("p99", 0.0))


def _numbers_of(part: Part, whole: Inference) -> npt.NDArray[np.uint16]:
    """Return the number of workers at each request of a part of a backend's requests."""
    if not whole.windows:
        return np.full(len(part.rows), whole.workers, np.uint16)
    own = part.result.windows
    if own:
        return np.repeat([window.workers for window in own], np.diff([0, *part.edges, len(part.rows)])).astype(
            np.uint16
        )
    around = [window.workers for window in whole.windows if window.begin <= part.ends[0] <= window.end]
    return np.full(len(part.rows), around[0] if around else whole.workers, np.uint16)


def _unusable(backend: Backend) -> str:
    """Return why a log allows no inference, and what to add to it; empty if it does."""
    if backend.vantage == WHOLE:
        return (
            "The log does not say how long the backend took: with nginx, add $upstream_response_time; Traefik's JSON "
            "and Caddy's log_append have it, Apache does not measure it."
        )
    if step_of(backend) > COARSEST_STEP and backend.slow > MOST_SLOW:
        return SLOW_CLIENTS
    return ""
