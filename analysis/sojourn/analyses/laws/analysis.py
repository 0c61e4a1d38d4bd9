"""Queueing laws compared with the measured wait: which law applies, and why the others do not.

    Erlang C               M/M/c: Poisson arrivals, exponential services, c workers with one queue (Erlang 1917)
    Pollaczek–Khinchine    M/G/1: Poisson arrivals, any services, one worker (Pollaczek 1930; Khinchine 1932)
    Kingman                G/G/1, approximately, for one worker under heavy load (Kingman 1961)
    Allen–Cunneen          G/G/c, approximately (Allen 1978, 1990, section 5.3.4)
    closed loop            N S / c - S: N clients without think time, workers always busy (Little 1961; Denning & Buzen
                           1978, section 5)

A law that does not apply is not computed: it says why instead. The formulas themselves are in
``sojourn.queueing.theory``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from sojourn.analyses.audit.result import Audit
from sojourn.analyses.laws.applicability import reason_against
from sojourn.analyses.queue_source import MEASURED, QueueSource, slots
from sojourn.model.errors import SojournError
from sojourn.model.formatting import duration, formatted, listed, milliseconds, printable
from sojourn.model.groups import largest_alone
from sojourn.model.one_worker import doubt
from sojourn.model.result import Result
from sojourn.queueing.theory import allen_cunneen_wait, kingman_wait, mg1_wait, mmc_wait
from sojourn.timeline.free_workers import blocking_causes, looks_free, understated
from sojourn.timeline.station import BACKEND, Station, backends_beyond, stations
from sojourn.timeline.visits import FROM_CONCURRENCY, Visits, places_of

LEAST = 200  # requests of a station; fewer tell no moments
GIVEN_UP = 0.01
DOUBTFUL = 0.1  # of the measured wait: its interval is worth saying from here on
HALF = 0.5  # of the measured wait: a prediction that far below it is not explained by bursts alone
LONG = 0.005  # s: a shorter mean wait is no sign of held workers
UNCERTAIN = 0.5  # a measured wait known no better than this tests no law
TICK = 0.001  # s: nginx's clock
GAPS_OF_TICKS = 5
NAMES = {
    "erlang_c": "Erlang C",
    "pollaczek_khinchine": "Pollaczek–Khinchine",
    "kingman": "Kingman",
    "allen_cunneen": "Allen–Cunneen",
    "closed_loop": "closed loop",
}
# Exact ones before approximations.
BELIEVED = ("closed_loop", "pollaczek_khinchine", "erlang_c", "kingman", "allen_cunneen")


@dataclass(frozen=True)
class Prediction:
    """What a law says of a station.

    Attributes:
        law: a key of ``NAMES``.
        mean_wait: s; None where the law does not apply.
        error: mean_wait / the measured wait, less 1; None without a prediction or a measured wait above 0.
        reason: why it does not apply.
    """

    law: str
    mean_wait: float | None = None
    error: float | None = None
    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {"mean_wait": self.mean_wait, "error": self.error, "reason": self.reason}


@dataclass(frozen=True)
class StationLaws:
    """A station, what the laws say of it, and which of them to believe (a key of ``NAMES``, or None).

    ``wait_source``: measured, estimated or inferred. ``apart``: what kept requests from workers that the laws assume to
    be free, as clauses. ``lower_bound``: whether its workers were held for longer than their services show, or lines
    may be missing, so that its utilisation is at least λS/c.
    """

    station: Station
    predictions: tuple[Prediction, ...]
    believe: str | None
    wait_source: str = "measured"
    lower_bound: bool = False
    apart: tuple[str, ...] = ()

    @property
    def believed(self) -> Prediction | None:
        """The prediction of the law that applies best."""
        return next((p for p in self.predictions if p.law == self.believe), None)

    @property
    def doubt(self) -> float:
        """Relative uncertainty of the measured mean wait; 0 if unknown."""
        doubt = self.station.wait_error / self.station.mean_wait if self.station.mean_wait > 0 else 0.0
        return doubt if math.isfinite(doubt) else 0.0

    @property
    def unexplained(self) -> bool:
        """Whether requests waited so much longer than predicted that something may have held the workers."""
        law = self.believed
        return self.station.mean_wait > LONG and (law is None or law.error is None or law.error < -HALF)

    @property
    def label(self) -> str:
        """The station's name; an upstream is named by its backends."""
        station = self.station
        if station.kind == BACKEND:
            return printable(station.name or "–", 60)
        return f"all {station.backends} backends of {printable((station.name or '–').split(',')[0], 60)}"

    @property
    def sentence(self) -> str:
        """The law that applies best and its error, in one sentence."""
        law, measured = self.believed, milliseconds(self.station.mean_wait)
        if law is None:
            reason = next(p.reason for p in self.predictions if p.law == "allen_cunneen")
            return f"{self.label}: no law applies: {reason}."
        predicted = milliseconds(law.mean_wait)
        if self.doubt > UNCERTAIN:
            return (
                f"{self.label}: too few requests to test a law: the uncertainty of the {self.wait_source} wait of "
                f"{measured} ms is ±{self.doubt:.0%}; {NAMES[law.law]} predicts {predicted} ms."
            )
        if self.station.kind != BACKEND and self.believe != "closed_loop":
            return (
                f"{self.label}: as one queue they would wait {predicted} ms ({NAMES[law.law]}); {self.wait_source} "
                f"{measured} ms."
            )
        if law.error is None or (self._predicts_none(law) and self.station.mean_wait < TICK):
            below = "" if law.error is None else f"; the {self.wait_source} wait is below 1 ms, as predicted"
            return f"{self.label}: {NAMES[law.law]} applies{below}."
        if abs(law.error) > self.doubt + DOUBTFUL:
            return f"{self.label}: no law is near the measurement. {self._error_of(law)}."
        text = f"{self.label}: {NAMES[law.law]} applies, with an error of {self.off_by(law)}"
        if self.doubt > DOUBTFUL:
            text += f"; the uncertainty of the {self.wait_source} wait is ±{self.doubt:.0%}"
        return f"{text}."

    def off_by(self, law: Prediction) -> str:
        """Return the error of a law; empty if the predicted wait is below nginx's resolution."""
        if law.error is None or self._predicts_none(law):
            return ""
        return formatted(law.error, "+.0%")

    def _predicts_none(self, law: Prediction) -> bool:
        return law.mean_wait is not None and law.mean_wait < TICK

    def _error_of(self, law: Prediction) -> str:
        """Return the error of a law, and what may cause it."""
        error = f"The error of {NAMES[law.law]} is {self.off_by(law)}"
        if self._predicts_none(law):
            error = f"{NAMES[law.law]} predicts no wait; {self.wait_source} {duration(self.station.mean_wait)}"
        if self.apart:
            return f"{error}. The laws know nothing of {listed(list(self.apart))}; `sojourn blame` measures it"
        causes = "bursts, timeouts or another discipline"
        if self.lower_bound:
            causes = f"workers that are held for longer than their services (`sojourn blame` names what fits), {causes}"
        return f"{error}: the cause may be {causes}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        s = self.station
        return {
            "kind": s.kind,
            "name": s.name,
            "backends": s.backends,
            "requests": s.requests,
            "service_known": s.measured,
            "seconds": s.seconds,
            "arrival_rate": s.arrival_rate,
            "mean_service": s.mean_service,
            "workers": s.workers,
            "workers_source": s.workers_source,
            "utilisation": s.utilisation,
            "lower_bound": self.lower_bound,
            "ca2": s.ca2,
            "cs2": s.cs2,
            "dispersion": {"index": s.dispersion, "window": s.dispersion_window},
            "closed_loop": s.loop.to_dict(),
            "given_up": s.given_up,
            "measured": {"mean_wait": s.mean_wait, "error": s.wait_error if math.isfinite(s.wait_error) else None},
            "laws": {p.law: p.to_dict() for p in self.predictions},
            "believe": self.believe,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, repr=False)
class Laws(Result):
    """The laws of every station with enough requests.

    Attributes:
        stations: upstreams of several backends first.
        stationary: whether the load is stationary; None: unknown.
        trend: the result of the trend test.
        failures: failed audit checks.
        left_out: reason -> requests, as in ``Visits``.
        queue_source: how the queueing delays are known.
        others: ``stations`` -> number (``values``) and ``requests`` of the backends with enough requests that have no
            entry, of more than ``LARGEST`` backends; empty: each has one.
    """

    TABLES: ClassVar = ("stations",)

    stations: tuple[StationLaws, ...]
    stationary: bool | None
    trend: str
    failures: tuple[str, ...]
    left_out: dict[str, int]
    queue_source: QueueSource = MEASURED
    others: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """Limits of the result, in sentences."""
        loads = [s.station for s in self.stations]
        backends = [
            {"upstream": s.name, "in_one_worker": s.in_one_worker, "workers": s.workers, "source": s.workers_source}
            for s in loads
            if s.kind == BACKEND
        ]
        sentences = [*self.queue_source.marks, *self.queue_source.gaps, *doubt(backends, "every law"), *slots(backends)]
        sentences += largest_alone(self.others, "stations", "are compared with laws", "are in their upstreams only")
        if any(FROM_CONCURRENCY in s.workers_source for s in loads):
            sentences.append(
                "No worker values were logged: the number of workers is taken as the most requests in service at once, "
                "which is too low if they were never all busy. Give --workers."
            )
        fast = [s for s in loads if s.arrival_rate * TICK * GAPS_OF_TICKS > 1]
        if fast:
            sentences.append(
                f"Arrivals at {printable(fast[0].name or '–', 60)} are less than {GAPS_OF_TICKS} ms apart on average, "
                "and nginx's clock has steps of 1 ms: c_a² is computed from rounded times."
            )
        if any(s.kind != BACKEND for s in loads):
            sentences.append(
                "For an upstream the laws treat its backends as one queue: the excess is the cost of balancing."
            )
        if any(s.given_up > GIVEN_UP for s in loads):
            sentences.append("Some requests were abandoned: their waits end early, which the laws do not model.")
        if any(s.measured < 0.99 for s in loads):
            least = min(s.measured for s in loads)
            sentences.append(f"Service times are known for {least:.0%} of the requests or more, and used for all.")
        return sentences

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn laws --json`` prints."""
        return {
            "stations": [station.to_dict() for station in self.stations],
            "stationary": self.stationary,
            "trend": self.trend,
            "failures": list(self.failures),
            "notes": self.notes,
            "left_out": self.left_out,
            "others": self.others,
            "queue_source": self.queue_source.requests,
        }


def laws(
    visits: Visits, audit: Audit | None = None, *, least: int = LEAST, queue_source: QueueSource = MEASURED
) -> Laws:
    """Compare the laws with the measured wait, per upstream of several backends and per backend.

    Args:
        visits: the visits to backends.
        audit: the audit of the same requests; its trend test decides whether averages are valid; None: not tested.
        least: minimum number of requests of a station.
        queue_source: how the queueing delays are known.

    Raises:
        SojournError: no station has enough requests whose service time is known.
    """
    loads = stations(visits, least=least)
    if not loads:
        raise SojournError(
            f"no backend has {least} requests with known wait and service time; the laws need averages of that many"
        )
    stationary = None if audit is None else audit.stationary
    trend = "not tested" if audit is None else audit.trend
    predicted = [station_laws(station, stationary, trend) for station in loads]
    doubted = any(each.unexplained for each in predicted) or looks_free(visits)
    understated_backends = understated(visits) if doubted else frozenset()
    apart = blocking_causes(visits)
    results = []
    members_of = _members_of_pools(visits)
    for each in predicted:
        backends = [each.station.name] if each.station.kind == BACKEND else members_of[each.station.name or ""]
        clauses = dict.fromkeys(clause for name in backends for clause in apart.get(name, ()))
        lower_bound = each.station.silence is not None or not understated_backends.isdisjoint(backends)
        source = queue_source.word(backends)
        results.append(replace(each, wait_source=source, apart=tuple(clauses), lower_bound=lower_bound))
    failures = (*(audit.failures() if audit is not None else ()), *queue_source.moved, *queue_source.filtered)
    others = backends_beyond(visits, least=least)
    return Laws(
        tuple(results), stationary, trend, failures, dict(visits.left_out), queue_source,
        {"stations": others} if others else {},
    )  # fmt: skip


def _members_of_pools(visits: Visits) -> dict[str, list[str | None]]:
    """Return upstream -> its backends; of two with one name, those of the first."""
    members: dict[str, list[str | None]] = {}
    for name, codes in zip(visits.pools, places_of(visits.pool, len(visits.pools)), strict=True):
        members.setdefault(name, [visits.backends[code] for code in codes.tolist()])
    return members


def station_laws(station: Station, stationary: bool | None, trend: str) -> StationLaws:
    """Return the prediction of each law for one station."""
    rate, service, workers = station.arrival_rate, station.mean_service, station.workers
    values = {
        "erlang_c": lambda: mmc_wait(rate, service, workers),
        "pollaczek_khinchine": lambda: mg1_wait(rate, service, station.cs2),
        "kingman": lambda: kingman_wait(rate, service, station.ca2, station.cs2),
        "allen_cunneen": lambda: allen_cunneen_wait(rate, service, workers, station.ca2, station.cs2),
        "closed_loop": lambda: station.loop.clients * service / workers - service,
    }
    predictions = []
    for law in NAMES:
        reason = reason_against(law, station, stationary, trend)
        if reason is not None:
            predictions.append(Prediction(law, reason=reason))
            continue
        value = values[law]()
        error = value / station.mean_wait - 1 if station.mean_wait > 0 else None
        predictions.append(Prediction(law, value, error))
    holding = [p.law for p in predictions if p.mean_wait is not None]
    return StationLaws(station, tuple(predictions), next((law for law in BELIEVED if law in holding), None))
