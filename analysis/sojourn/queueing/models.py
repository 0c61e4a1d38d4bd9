"""Select the closed form of a simulated system, or an approximation and the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sojourn.model.figures import QUANTILES
from sojourn.queueing import theory
from sojourn.queueing.processes import Process
from sojourn.queueing.system import System


@dataclass(frozen=True)
class Model:
    """A model of queueing theory and its figures.

    Attributes:
        name: in Kendall's notation.
        mean_wait: s.
        wait: "p50" … -> s, if known for this discipline.
        probability_of_wait, blocking: if the model has them.
    """

    name: str
    mean_wait: float
    wait: dict[str, float] = field(default_factory=dict)
    probability_of_wait: float | None = None
    blocking: float | None = None

    def to_dict(self, simulated: float | None) -> dict[str, object]:
        """Return plain values, with the relative error of ``simulated`` (mean wait, s) against the model's."""
        error = simulated / self.mean_wait - 1 if simulated is not None and self.mean_wait > 0 else None
        values: dict[str, object] = {"model": self.name, "mean_wait": self.mean_wait, "error": error}
        if self.wait:
            values["wait"] = dict(self.wait)
        for name in ("probability_of_wait", "blocking"):
            if getattr(self, name) is not None:
                values[name] = getattr(self, name)
        return values


def model(arrivals: Process, service: Process, system: System) -> tuple[Model | None, Model | None, str]:
    """Return (closed form, approximation, why there is no closed form); the approximation only without a closed form.

    The mean wait does not depend on the order of service, as long as the order ignores the service times (Kingman
    1962, "The effect of queue discipline on waiting time variance"); the quantiles do.

    Args:
        arrivals: arrival process.
        service: service process.
        system: workers and rules.
    """
    rate, mean = 1 / arrivals.mean if arrivals.mean > 0 else math.inf, service.mean
    workers = sum(system.workers)
    one_queue = system.backends == 1 or system.balancer == "shared_queue"
    poisson = one_queue and arrivals.kind == "poisson"
    reason = _unavailable(system, rate * mean < workers, poisson and service.kind == "exponential")
    if reason:
        return None, None, reason
    if poisson and service.kind == "exponential":
        closed_form = (
            _markov(rate, mean, workers, system.discipline) if system.capacity is None else _limited(rate, mean, system)
        )
        return closed_form, None, ""
    if poisson and workers == 1 and service.independent:
        if math.isinf(service.cv2):
            return None, None, "the service times have no finite variance, so the wait has no finite mean"
        name = "M/D/1" if service.kind == "constant" else "M/G/1"
        return Model(name, theory.mg1_wait(rate, mean, service.cv2)), None, ""
    return (None, *_approximation(arrivals, service, system, rate, one_queue))


def _unavailable(system: System, stable: bool, markov: bool) -> str:
    """Return why the rules of the system have no formula; empty if they have one."""
    if system.discipline in {"codel", "deadline", "sjf"}:
        return f"not available for the discipline {system.discipline}"
    if system.timeout is not None or system.retries:
        return "not available with time-outs or retries"
    if system.capacity is not None:
        return "" if markov else "a limited capacity requires Poisson arrivals, exponential services and a single queue"
    return "" if stable else "the offered load is not below what the workers can serve"


def _markov(rate: float, mean: float, workers: int, discipline: str) -> Model:
    wait = {}
    if discipline == "fifo":
        wait = {name: theory.mmc_wait_quantile(rate, mean, workers, q) for name, q in QUANTILES.items()}
    waiting = theory.erlang_c(rate * mean, workers)
    return Model(f"M/M/{workers}", theory.mmc_wait(rate, mean, workers), wait, waiting)


def _limited(rate: float, mean: float, system: System) -> Model:
    workers = sum(system.workers)
    places = (system.capacity or 0) * system.backends
    figures = theory.mmck(rate, mean, workers, places)
    return Model(f"M/M/{workers}/{workers + places}", figures.mean_wait, blocking=figures.blocking)


def _approximation(
    arrivals: Process, service: Process, system: System, rate: float, one_queue: bool
) -> tuple[Model | None, str]:
    """Return Allen–Cunneen, with the arrivals' variability at one backend under round robin, and the reason."""
    if math.isinf(service.cv2):
        return None, "the service times have no finite variance"
    if one_queue:
        workers, share, ca2 = sum(system.workers), 1.0, arrivals.cv2
        reason = f"not available for G/G/{workers}"
    elif system.balancer == "round_robin" and len(set(system.workers)) == 1:
        # Every b-th arrival of b backends: the variance of a sum of b gaps, over the square of its mean.
        workers, share, ca2 = system.workers[0], 1 / system.backends, arrivals.cv2 / system.backends
        reason = "not available for several backends with round_robin"
    else:
        return None, f"not available for the balancer {system.balancer}"
    wait = theory.allen_cunneen_wait(rate * share, service.mean, workers, ca2, service.cv2)
    return Model(f"Allen–Cunneen G/G/{workers}", wait), reason
