"""What could be changed, as it is written on the command line: ``workers=+1``, ``balancer=least_conn``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sojourn.model.errors import SojournError
from sojourn.queueing.system import BALANCERS, DISCIPLINES

KEYS = (
    "workers", "backends", "discipline", "balancer", "timeout", "retries", "backoff", "capacity", "load", "service",
    "service:ROUTE", "pool:ROUTE",
)  # fmt: skip
_AMOUNT = re.compile(r"([+\-x×]?)\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)")
_WHOLE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Amount:
    """A number that says how it stands to the one there is: ``3``, ``+1``, ``-1``, ``x2``."""

    how: str
    number: float

    def of(self, present: float) -> float:
        """The number that results."""
        if self.how == "+":
            return present + self.number
        if self.how == "-":
            return present - self.number
        return present * self.number if self.how == "x" else self.number


@dataclass(frozen=True)
class Change:
    """One variant; None: as it is.

    Attributes:
        said: as it was written, for people and the JSON.
        workers: per backend; backends: how many.
        discipline, balancer: of ``sojourn.queueing.system``.
        timeout: s; ``math.inf`` for none.
        retries, backoff (s), capacity: as in ``System``.
        load: factor of the arrival rate.
        service: factor of every service time; routes: of those of single routes.
        pools: route -> workers of a pool of its own.
    """

    said: Mapping[str, str] = field(default_factory=dict)
    workers: Amount | None = None
    backends: Amount | None = None
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
    """A variant as it is written; numbers may be numbers.

    Raises:
        SojournError: a key is none of ``KEYS``, or a value does not fit its key.
    """
    found: dict[str, object] = {}
    routes: dict[str, float] = {}
    pools: dict[str, int] = {}
    said = {key: str(value) for key, value in settings.items()}
    for key, text in said.items():
        kind, _, route = key.partition(":")
        if kind == "service" and route:
            routes[route] = _factor(key, text)
        elif kind == "pool" and route:
            pools[route] = _whole(key, text, at_least=1)
        elif key in ("workers", "backends"):
            found[key] = _amount(key, text)
        elif key in ("discipline", "balancer"):
            found[key] = _one_of(key, text, DISCIPLINES if key == "discipline" else BALANCERS)
        elif key == "timeout":
            found[key] = math.inf if text == "none" else _positive(key, text)
        elif key in ("retries", "capacity"):
            found[key] = _whole(key, text, at_least=0)
        elif key == "backoff":
            found[key] = _positive(key, text, zero=True)
        elif key in ("load", "service"):
            found[key] = _factor(key, text)
        else:
            raise SojournError(f"{key!r} cannot be changed; what can: {', '.join(KEYS)}")
    return Change(said=said, routes=routes, pools=pools, **found)  # type: ignore[arg-type]


def _amount(key: str, text: str) -> Amount:
    found = _AMOUNT.fullmatch(text.strip())
    if not found or (found[1] not in {"x", "×"} and "." in found[2]):
        raise SojournError(f"{key}={text}: give N, +N, -N or xK")
    return Amount(found[1].replace("×", "x"), float(found[2]))


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
