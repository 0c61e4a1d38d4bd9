"""Which closed form a simulated system has, if any; else the usual approximation, and the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sojourn.model.figures import QUANTILES
from sojourn.queueing import theory
from sojourn.queueing.processes import Process
from sojourn.queueing.system import System


@dataclass(frozen=True)
class Model:
    """A model of queueing theory and what it says.

    Attributes:
        name: in Kendall's notation.
        mean_wait: s.
        wait: "p50" … -> s, where they are known for this discipline.
        probability_of_wait, blocking: where the model tells them.
    """

    name: str
    mean_wait: float
    wait: dict[str, float] = field(default_factory=dict)
    probability_of_wait: float | None = None
    blocking: float | None = None

    def to_dict(self, simulated: float | None) -> dict[str, object]:
        """Plain values, and how far ``simulated`` (mean wait, s) is from the model's, relative to it."""
        error = simulated / self.mean_wait - 1 if simulated is not None and self.mean_wait > 0 else None
        found: dict[str, object] = {"model": self.name, "mean_wait": self.mean_wait, "error": error}
        if self.wait:
            found["wait"] = dict(self.wait)
        for name in ("probability_of_wait", "blocking"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        return found


def model(arrivals: Process, service: Process, system: System) -> tuple[Model | None, Model | None, str]:
    """(closed form, approximation, why there is no closed form); the approximation where there is no closed form only.

    The mean wait does not depend on the order in which requests are taken, as long as nobody looks at the services
    (Kingman 1962, "The effect of queue discipline on waiting time variance"); the quantiles do.
    """
    rate, mean = 1 / arrivals.mean if arrivals.mean > 0 else math.inf, service.mean
    workers = sum(system.workers)
    one_queue = system.backends == 1 or system.balancer == "shared_queue"
    poisson = one_queue and arrivals.kind == "poisson"
    reason = _none(system, rate * mean < workers, poisson and service.kind == "exponential")
    if reason:
        return None, None, reason
    if poisson and service.kind == "exponential":
        found = (
            _markov(rate, mean, workers, system.discipline) if system.capacity is None else _limited(rate, mean, system)
        )
        return found, None, ""
    if poisson and workers == 1 and service.independent:
        if math.isinf(service.cv2):
            return None, None, "the services have no finite variance, and so the wait has no finite mean"
        name = "M/D/1" if service.kind == "constant" else "M/G/1"
        return Model(name, theory.mg1_wait(rate, mean, service.cv2)), None, ""
    return (None, *_approximation(arrivals, service, system, rate, one_queue))


def _none(system: System, stable: bool, markov: bool) -> str:
    """Why the rules of the system allow of no formula; empty if they do."""
    if system.discipline in {"codel", "deadline", "sjf"}:
        return f"none is known here for the discipline {system.discipline}"
    if system.timeout is not None or system.retries:
        return "clients give up while their work goes on, or come again"
    if system.capacity is not None:
        return (
            "" if markov else "limited places have one with Poisson arrivals, exponential services and one queue only"
        )
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
    found = theory.mmck(rate, mean, workers, places)
    return Model(f"M/M/{workers}/{workers + places}", found.mean_wait, blocking=found.blocking)


def _approximation(
    arrivals: Process, service: Process, system: System, rate: float, one_queue: bool
) -> tuple[Model | None, str]:
    """Allen–Cunneen, with the burstiness that is left where requests go to backends in turn."""
    if math.isinf(service.cv2):
        return None, "the services have no finite variance"
    if one_queue:
        workers, share, ca2 = sum(system.workers), 1.0, arrivals.cv2
        reason = f"G/G/{workers} has none"
    elif system.balancer == "round_robin" and len(set(system.workers)) == 1:
        # Every so-manyth arrival: the variance of a sum of so many gaps, over the square of its mean.
        workers, share, ca2 = system.workers[0], 1 / system.backends, arrivals.cv2 / system.backends
        reason = "backends that are sent requests in turn have none"
    else:
        return None, f"the balancer {system.balancer} has none"
    wait = theory.allen_cunneen_wait(rate * share, service.mean, workers, ca2, service.cv2)
    return Model(f"Allen–Cunneen G/G/{workers}", wait), reason
