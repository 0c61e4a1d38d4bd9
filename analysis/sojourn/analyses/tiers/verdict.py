"""Name the bottleneck: a queue, slow code, or a dependency that every instance of a service shares.

The workers of a service are held by its own code or by its calls. The path begins at the service of the finding, and
continues to a callee as long as that callee has at least ``HELD`` of the time the workers are held. A service on the
path is *loaded* if its queue has at least ``QUEUE`` of its time (queueing and span), or at least ``SOME`` of it and
rises with the concurrent calls (see load_dependence.py). The deepest loaded service is the bottleneck: the services
above wait for it, even if they have queues of their own. If no service is loaded, the code of the deepest takes the
time.

A service with a queue above a dependency with free workers (utilisation below ``ROOM``, known from worker names only)
is the bottleneck itself: with more workers it would send more calls to the dependency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.analyses.tiers.load_dependence import LoadDependence
from sojourn.model.formatting import milliseconds, percent, printable

HELD = 0.5
QUEUE = 0.5
SOME = 0.2
ROOM = 0.7

SHARED, WAITS, SLOW_BELOW, BELOW = "shared_dependency", "dependency_queue", "dependency_code", "dependency_unknown"
OWN_QUEUE, OWN_CODE, MIXED = "queue", "code", "mixed"


@dataclass(frozen=True)
class Balance:
    """The division of the seconds of one service's visits.

    Attributes:
        service, opaque: of an opaque service only the calls are known: all their time is ``own``.
        visits: number of visits.
        waited: seconds of queueing; with ``bounded``, of queueing and network.
        bounded: whether queueing and network cannot be separated.
        own: seconds of its own work.
        calls: (callee, opaque) -> seconds of waiting for it.
        utilisation: of its workers, None if unknown.
    """

    service: str
    opaque: bool
    visits: int
    waited: float
    bounded: bool
    own: float
    calls: Mapping[tuple[str, bool], float]
    utilisation: float | None = None

    @property
    def held(self) -> float:
        """Return the seconds its workers were held."""
        return self.own + sum(self.calls.values())

    @property
    def total(self) -> float:
        """Return the seconds of its visits from the caller's view: queueing and service."""
        return self.waited + self.held

    @property
    def queue_share(self) -> float:
        """Return the queueing share of ``total``."""
        return self.waited / self.total if self.total > 0 else 0.0


@dataclass(frozen=True)
class Finding:
    """The bottleneck of one service.

    Attributes:
        kind: ``shared_dependency``, ``dependency_queue``, ``dependency_code``, ``dependency_unknown``, ``queue``,
            ``code`` or ``mixed``.
        service: the service of the finding.
        dependency: the bottleneck below it; None if it is the service itself, or if there is none.
        path: services whose workers are held by the next one, from ``service`` down.
        share: of the service's time: waiting for ``dependency`` (or the first callee on the path to it); else
            queueing, or its own code.
        another_instance_helps: of ``service``; None if unknown.
        sentence: the finding as a sentence.
    """

    kind: str
    service: str
    dependency: str | None
    path: tuple[str, ...]
    share: float
    another_instance_helps: bool | None
    sentence: str

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as in the JSON."""
        return {
            "kind": self.kind, "service": self.service, "dependency": self.dependency, "path": list(self.path),
            "share": self.share, "another_instance_helps": self.another_instance_helps, "sentence": self.sentence,
        }  # fmt: skip


Balances = Mapping[tuple[str, bool], Balance]
Loads = Mapping[tuple[str, bool], LoadDependence]


def finding_of(service: str, balances: Balances, loads: Loads) -> Finding:
    """Return the finding of one service, which has a balance and is not opaque."""
    top = balances[service, False]
    path = _path(top, balances)
    names = tuple(balance.service for balance in path)
    loaded = [balance for balance in path if _loaded(balance, loads.get((balance.service, balance.opaque)))]
    own_queue = top.queue_share >= QUEUE
    if loaded and loaded[-1] is not top:
        below = loaded[-1]
        if own_queue and below.utilisation is not None and below.utilisation < ROOM:
            return _own_queue(top, names, below)
        return _dependency_queue(top, names, below, loads.get((below.service, below.opaque)))
    if own_queue:
        return _own_queue(top, names, path[-1] if len(path) > 1 else None)
    if len(path) > 1:
        return _dependency_code(top, names, path[-1])
    if top.own >= HELD * top.total:
        share = top.own / top.total if top.total > 0 else 0.0
        sentence = (
            f"{percent(share)} of {_name(top)}'s time is its own code, {_each(top.own, top)} per visit; "
            f"its queue is {percent(top.queue_share)}: another instance will not make it faster"
        )
        return Finding(OWN_CODE, service, None, names, share, False, sentence)
    callee, seconds = max(top.calls.items(), key=lambda item: item[1], default=((None, False), 0.0))
    parts = [f"{percent(top.queue_share)} queue", f"{percent(top.own / top.total if top.total else 0.0)} its own code"]
    if callee[0] is not None:
        parts.append(f"{percent(seconds / top.total)} waiting for {printable(callee[0])}")
    return Finding(
        MIXED, service, None, names, 0.0, None, f"{_name(top)}'s time has no single cause: {', '.join(parts)}"
    )


def _path(top: Balance, balances: Balances) -> list[Balance]:
    path = [top]
    while path[-1].calls and path[-1].held > 0:
        callee, seconds = max(path[-1].calls.items(), key=lambda item: item[1])
        if seconds < HELD * path[-1].held or callee not in balances or balances[callee] in path:
            break
        path.append(balances[callee])
    return path


def _loaded(balance: Balance, load: LoadDependence | None) -> bool:
    rises = load is not None and bool(load.rises)
    if balance.opaque:  # queue and work cannot be separated; only the growth under load is known
        return rises
    if balance.bounded and not rises:  # the time between call and start may all be network
        return False
    return balance.queue_share >= QUEUE or (rises and balance.queue_share >= SOME)


def _dependency_queue(top: Balance, path: tuple[str, ...], below: Balance, load: LoadDependence | None) -> Finding:
    first, share = _waiting(top, path)
    name, service = printable(below.service, 60), _name(top)
    shared = load is not None and load.shared
    if below.opaque:
        queue = (
            f"a call's duration rises from {milliseconds(load.low)} ms to {milliseconds(load.high)} ms" if load else ""
        )
        queue += " with the concurrent calls"
    else:
        component = "waiting or network" if below.bounded else "queueing"
        queue = f"{percent(below.queue_share)} of its time is {component}"
        if load is not None and load.rises:
            queue += ", which rises with the concurrent calls"
    if shared and load is not None:
        callers = [printable(instance or service, 40) for service, instance in load.callers]
        many = f" and {len(callers) - 3} more" if len(callers) > 3 else ""
        names = ", ".join(callers[:3]) if many else " and ".join(callers[:3])
        sentence = f"{_waits(service, share, first, top)}. {name} is shared by {names}{many}, and {queue}"
    else:
        sentence = f"{_waits(service, share, first, top)}. At {name} {queue}"
    sentence += f": another {printable(top.service, 60)} instance will not help; "
    sentence += f"more workers for {name}, or less work there, will"
    return Finding(SHARED if shared else WAITS, top.service, below.service, path, share, False, sentence)


def _dependency_code(top: Balance, path: tuple[str, ...], below: Balance) -> Finding:
    first, share = _waiting(top, path)
    name = printable(below.service, 60)
    begin = _waits(_name(top), share, first, top)
    if below.opaque:
        sentence = (
            f"{begin}. {name} recorded no spans, and the duration of its calls does not rise with the load: "
            "instrument it to separate queueing and work"
        )
        return Finding(BELOW, top.service, below.service, path, share, None, sentence)
    between = "waiting or network" if below.bounded else "queueing"
    if below.bounded and below.queue_share >= QUEUE:
        sentence = (
            f"{begin}. {percent(below.queue_share)} of {name}'s time is {between}, which does not rise with the "
            f"load: most likely the network; have {name} record its queueing delay to be sure"
        )
        return Finding(BELOW, top.service, below.service, path, share, None, sentence)
    own = below.own / below.total if below.total > 0 else 0.0
    sentence = (
        f"{begin}. {name} is slow itself: {percent(own)} of its time is its own code, "
        f"{_each(below.own, below)} per visit, and {percent(below.queue_share)} {between}"
    )
    return Finding(SLOW_BELOW, top.service, below.service, path, share, False, sentence)


def _own_queue(top: Balance, path: tuple[str, ...], below: Balance | None) -> Finding:
    sentence = f"{percent(top.queue_share)} of {_name(top)}'s time is its own queue; "
    if below is None:
        sentence += f"its code takes {_each(top.own, top)} per visit: another instance, or faster code, will help"
    else:
        room = f", which is {percent(below.utilisation)} busy" if below.utilisation is not None else ""
        sentence += f"its workers are held by {printable(below.service, 60)}{room}: another instance will help "
        sentence += "until that is saturated"
    return Finding(OWN_QUEUE, top.service, None, path, top.queue_share, True, sentence)


def _waiting(top: Balance, path: tuple[str, ...]) -> tuple[str, float]:
    seconds = max(top.calls.values())
    return path[1], seconds / top.total if top.total > 0 else 0.0


def _waits(service: str, share: float, first: str, top: Balance) -> str:
    name = printable(first, 60)
    code = f"its own code takes {_each(top.own, top)}"
    if top.queue_share >= QUEUE:
        held = percent(max(top.calls.values()) / top.held)
        return (
            f"{percent(top.queue_share)} of {service}'s time is its own queue, because its workers are held by {name} "
            f"for {held} of the time they are busy: {code}"
        )
    queue = f", {percent(top.queue_share)} is its own queue" if top.queue_share >= 0.1 else ""
    return f"{percent(share)} of {service}'s time is waiting for {name}{queue}: {code}"


def _name(balance: Balance) -> str:
    return printable(balance.service, 60)


def _each(seconds: float, balance: Balance) -> str:
    return f"{milliseconds(seconds / balance.visits if balance.visits else None)} ms"
