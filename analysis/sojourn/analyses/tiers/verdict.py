"""Where the time is made: a queue, slow code, or a dependency that every instance of a service shares.

The workers of a service are held by its own code or by what it calls. From the service that is asked about, the way
leads down as long as one callee has at least ``HELD`` of the time the workers are held: that is the path. A service on
the path is *loaded* where its queue has at least ``QUEUE`` of its time (queueing and span), or at least ``SOME`` of it
while it rises with the calls under way (see load.py). The deepest loaded service is the bottleneck: those above it
wait for it, whatever queues of their own that makes. Where none is loaded, the code of the deepest is what takes time.

A service with a queue of its own above a dependency with workers to spare (utilisation below ``ROOM``, known from
worker names only) is the bottleneck itself: more of its workers would reach the dependency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.analyses.tiers.load import Load
from sojourn.model.formatting import milliseconds, percent, printable

HELD = 0.5
QUEUE = 0.5
SOME = 0.2
ROOM = 0.7

SHARED, WAITS, SLOW_BELOW, BELOW = "shared_dependency", "dependency_queue", "dependency_code", "dependency_unknown"
OWN_QUEUE, OWN_CODE, MIXED = "queue", "code", "mixed"


@dataclass(frozen=True)
class Balance:
    """Where the seconds of one service's visits went.

    Attributes:
        service, opaque: of an opaque one only the calls are known: all of them is ``own``.
        visits: how many.
        waited: seconds of queueing; with ``bounded``, of queueing and network together, for nothing tells them apart.
        own: seconds of its own work.
        calls: (callee, opaque) -> seconds of waiting for it.
        utilisation: of its workers, None where unknown.
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
        """Seconds its workers were held."""
        return self.own + sum(self.calls.values())

    @property
    def total(self) -> float:
        """Seconds of its visits from the caller's view: queueing and what followed."""
        return self.waited + self.held

    @property
    def queue_share(self) -> float:
        """The queue's part of them."""
        return self.waited / self.total if self.total > 0 else 0.0


@dataclass(frozen=True)
class Finding:
    """The case.

    Attributes:
        kind: ``shared_dependency``, ``dependency_queue``, ``dependency_code``, ``dependency_unknown``, ``queue``,
            ``code`` or ``mixed``.
        service: the one asked about.
        dependency: the service below it where the time is made; None where it is made in itself, or nowhere.
        path: services whose workers hold each other, from ``service`` down.
        share: of the service's time, spent waiting for ``dependency`` (or the first callee on the way there); else
            queueing, or its own code.
        another_instance_helps: of ``service``; None where it cannot be told.
        sentence: in plain words.
    """

    kind: str
    service: str
    dependency: str | None
    path: tuple[str, ...]
    share: float
    another_instance_helps: bool | None
    sentence: str

    def to_dict(self) -> dict[str, object]:
        """As plain values."""
        return {
            "kind": self.kind, "service": self.service, "dependency": self.dependency, "path": list(self.path),
            "share": self.share, "another_instance_helps": self.another_instance_helps, "sentence": self.sentence,
        }  # fmt: skip


Balances = Mapping[tuple[str, bool], Balance]
Loads = Mapping[tuple[str, bool], Load]


def finding_of(service: str, balances: Balances, loads: Loads) -> Finding:
    """The case of one service, which has a balance and is not opaque."""
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
            f"{percent(share)} of {_name(top)}'s time is its own code, {_each(top.own, top)} a visit; "
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


def _loaded(balance: Balance, load: Load | None) -> bool:
    rises = load is not None and bool(load.rises)
    if balance.opaque:  # its queue cannot be told from its work: only that it takes longer under load
        return rises
    if balance.bounded and not rises:  # what lies between call and start may all be network
        return False
    return balance.queue_share >= QUEUE or (rises and balance.queue_share >= SOME)


def _dependency_queue(top: Balance, path: tuple[str, ...], below: Balance, load: Load | None) -> Finding:
    first, share = _waiting(top, path)
    name, whose = printable(below.service, 60), _name(top)
    shared = load is not None and load.shared
    if below.opaque:
        queue = (
            f"what a call takes rises from {milliseconds(load.low)} ms to {milliseconds(load.high)} ms" if load else ""
        )
        queue += " with the calls under way"
    else:
        what = "waiting or network" if below.bounded else "queueing"
        queue = f"{percent(below.queue_share)} of its time is {what}"
        if load is not None and load.rises:
            queue += ", which rises with the calls under way"
    if shared and load is not None:
        callers = [printable(instance or service, 40) for service, instance in load.callers]
        many = f" and {len(callers) - 3} more" if len(callers) > 3 else ""
        listed = ", ".join(callers[:3]) if many else " and ".join(callers[:3])
        sentence = f"{_waits(whose, share, first, top)}. {name} is shared by {listed}{many}, and {queue}"
    else:
        sentence = f"{_waits(whose, share, first, top)}. At {name} {queue}"
    sentence += f": another {printable(top.service, 60)} instance will not help; "
    sentence += f"more workers for {name}, or less work there, will"
    return Finding(SHARED if shared else WAITS, top.service, below.service, path, share, False, sentence)


def _dependency_code(top: Balance, path: tuple[str, ...], below: Balance) -> Finding:
    first, share = _waiting(top, path)
    name = printable(below.service, 60)
    begin = _waits(_name(top), share, first, top)
    if below.opaque:
        sentence = (
            f"{begin}. {name} recorded no spans, and what a call takes does not rise with the load: "
            "instrument it to tell its queue from its work"
        )
        return Finding(BELOW, top.service, below.service, path, share, None, sentence)
    between = "waiting or network" if below.bounded else "queueing"
    if below.bounded and below.queue_share >= QUEUE:
        sentence = (
            f"{begin}. {percent(below.queue_share)} of what {name} takes is {between}, which does not rise with the "
            f"load: the network most likely; have {name} record its queueing delay to be sure"
        )
        return Finding(BELOW, top.service, below.service, path, share, None, sentence)
    own = below.own / below.total if below.total > 0 else 0.0
    sentence = (
        f"{begin}. {name} takes the time itself: {percent(own)} of its time is its own code, "
        f"{_each(below.own, below)} a visit, and {percent(below.queue_share)} {between}"
    )
    return Finding(SLOW_BELOW, top.service, below.service, path, share, False, sentence)


def _own_queue(top: Balance, path: tuple[str, ...], below: Balance | None) -> Finding:
    sentence = f"{percent(top.queue_share)} of {_name(top)}'s time is its own queue; "
    if below is None:
        sentence += f"its code takes {_each(top.own, top)} a visit: another instance, or faster code, will help"
    else:
        room = f", which is {percent(below.utilisation)} busy" if below.utilisation is not None else ""
        sentence += f"its workers are held by {printable(below.service, 60)}{room}: another instance will help "
        sentence += "until that is full"
    return Finding(OWN_QUEUE, top.service, None, path, top.queue_share, True, sentence)


def _waiting(top: Balance, path: tuple[str, ...]) -> tuple[str, float]:
    seconds = max(top.calls.values())
    return path[1], seconds / top.total if top.total > 0 else 0.0


def _waits(whose: str, share: float, first: str, top: Balance) -> str:
    name = printable(first, 60)
    code = f"its own code takes {_each(top.own, top)}"
    if top.queue_share >= QUEUE:
        held = percent(max(top.calls.values()) / top.held)
        return (
            f"{percent(top.queue_share)} of {whose}'s time is its own queue, for its workers are held by {name}, "
            f"{held} of the time they are busy: {code}"
        )
    queue = f", {percent(top.queue_share)} is its own queue" if top.queue_share >= 0.1 else ""
    return f"{percent(share)} of {whose}'s time is waiting for {name}{queue}: {code}"


def _name(balance: Balance) -> str:
    return printable(balance.service, 60)


def _each(seconds: float, balance: Balance) -> str:
    return f"{milliseconds(seconds / balance.visits if balance.visits else None)} ms"
