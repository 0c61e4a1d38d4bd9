"""Parse the changes of a variant, as written on the command line: ``workers=+1``, ``balancer=least_conn``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sojourn.model.errors import SojournError
from sojourn.queueing.system import BALANCERS, DISCIPLINES

KEYS = (
    "workers", "backends", "limit", "processes", "absent", "discipline", "balancer", "timeout", "retries", "backoff",
    "capacity", "load", "cores", "dependency", "pool", "service", "service:ROUTE",
    "pool:ROUTE",
)  # fmt: skip
_AMOUNT = re.compile(r"([+\-x×]?)\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_WHOLE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Amount:
    """A number, absolute or relative to the present one: ``3``, ``+1``, ``-1``, ``x2``."""

    operator: str
    number: float

    def of(self, present: float) -> float:
        """Return the resulting number."""
        if self.operator == "+":
            return present + self.number
        if self.operator == "-":
            return present - self.number
        return present * self.number if self.operator == "x" else self.number


@dataclass(frozen=True)
class Change:
    """One variant; None: unchanged.

    Attributes:
        settings: key -> value as the user wrote them, for tables and the JSON.
        workers: per backend.
        backends: number of backends.
        limit: of requests at a time at each backend.
        never_absent: workers are not replaced or restarted.
        one_queue: all processes of a backend take requests from one queue.
        discipline, balancer: of ``sojourn.queueing.system``.
        timeout: s; ``math.inf`` for none.
        retries, backoff, capacity: as in ``sojourn.queueing.system.System``.
        load: factor of the arrival rate.
        cores: of what services share: processors, places of a lock or a database.
        pool: places that requests wait for inside the app.
        dependency: factor of the time that services spend at what they share.
        service: factor of every service time.
        routes: route -> factor of its service times.
        pools: route -> workers of a separate pool.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    workers: Amount | None = None
    backends: Amount | None = None
    limit: Amount | None = None
    cores: Amount | None = None
    pool: Amount | None = None
    dependency: float = 1.0
    one_queue: bool = False
    never_absent: bool = False
    discipline: str | None = None
    balancer: str | None = None
    timeout: float | None = None
    retries: int = 0
    backoff: float = 0.0
    capacity: int | None = None
    load: float = 1.0
    service: float = 1.0
    routes: Mapping[str, float] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)


def change_of(settings: Mapping[str, str | float]) -> Change:
    """Parse a variant.

    Args:
        settings: key of ``KEYS`` -> value, as text or as a number.

    Raises:
        SojournError: a key is not one of ``KEYS``, or a value does not fit its key.
    """
    fields: dict[str, object] = {}
    routes: dict[str, float] = {}
    pools: dict[str, int] = {}
    texts = {key: str(value) for key, value in settings.items()}
    for key, text in texts.items():
        kind, _, route = key.partition(":")
        if kind == "service" and route:
            routes[route] = _factor(key, text)
        elif kind == "pool" and route:
            pools[route] = _whole(key, text, at_least=1)
        elif key in ("workers", "backends", "limit", "cores", "pool"):
            fields[key] = _amount(key, text)
        elif key == "processes":
            fields["one_queue"] = _one_of(key, text, ("one_queue",)) == "one_queue"
        elif key == "absent":
            fields["never_absent"] = _one_of(key, text, ("none",)) == "none"
        elif key in ("discipline", "balancer"):
            fields[key] = _one_of(key, text, DISCIPLINES if key == "discipline" else BALANCERS)
        elif key == "timeout":
            fields[key] = math.inf if text == "none" else _positive(key, text)
        elif key in ("retries", "capacity"):
            fields[key] = _whole(key, text, at_least=0)
        elif key == "backoff":
            fields[key] = _positive(key, text, zero=True)
        elif key in ("load", "service", "dependency"):
            fields[key] = _factor(key, text)
        else:
            raise SojournError(f"{key!r} cannot be changed; keys: {', '.join(KEYS)}")
    return Change(settings=texts, routes=routes, pools=pools, **fields)  # type: ignore[arg-type]


def written(settings: Mapping[str, str]) -> str:
    """Return settings as on the command line: ``workers=+1, balancer=least_conn``."""
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def _amount(key: str, text: str) -> Amount:
    match = _AMOUNT.fullmatch(text.strip())
    if not match or (match[1] not in {"x", "×"} and "." in match[2]):
        raise SojournError(f"{key}={text}: give N, +N, -N or xK")
    return Amount(match[1].replace("×", "x"), float(match[2]))


def _factor(key: str, text: str) -> float:
    return _positive(key, text.strip().removeprefix("x").removeprefix("×"))


def _positive(key: str, text: str, *, zero: bool = False) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (0 < number < math.inf or (zero and number == 0)):
        raise SojournError(f"{key}={text}: give a number {'of 0 or more' if zero else 'above 0'}")
    return number


def _whole(key: str, text: str, *, at_least: int) -> int:
    number = text.strip()
    if not _WHOLE.fullmatch(number) or int(number) < at_least:
        raise SojournError(f"{key}={text}: give a whole number of at least {at_least}")
    return int(number)


def _one_of(key: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise SojournError(f"{key}={text}: give one of {', '.join(allowed)}")
    return text
