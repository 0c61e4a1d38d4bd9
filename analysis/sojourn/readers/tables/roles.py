"""Roles of the columns of a table, as ``--columns`` assigns them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

INSTANT, DURATION, TEXT = "instant", "duration", "text"


@dataclass(frozen=True)
class Role:
    """What a column says of a request.

    Attributes:
        field: the field of a log format (``sojourn.readers.formats.fields``) that it is read as.
        kind: ``INSTANT``, ``DURATION`` or ``TEXT``.
        meaning: for people.
    """

    field: str
    kind: str
    meaning: str


ROLES: Mapping[str, Role] = {
    "arrival": Role("start", INSTANT, "instant at which the request arrived"),
    "end": Role("end", INSTANT, "instant at which the request ended"),
    "response": Role("response", DURATION, "response time"),
    "service": Role("service_time", DURATION, "service time"),
    "wait": Role("wait", DURATION, "queueing delay"),
    "connect": Role("connect", DURATION, "connect"),
    "proxy_queue": Role("proxy_queue", DURATION, "proxy_queue"),
    "status": Role("status", TEXT, "status"),
    "backend": Role("upstream_addr", TEXT, "backend"),
    "route": Role("route", TEXT, "route"),
    "method": Role("method", TEXT, "method"),
    "id": Role("request_id", TEXT, "request id"),
    "worker": Role("worker", TEXT, "worker"),
    "host": Role("host", TEXT, "host"),
}
SECONDS: Mapping[str, int] = {"s": 0, "ms": -3, "us": -6, "ns": -9}  # unit -> power of ten
RELATIVE: Mapping[str, str] = {"rel": "s", **{f"rel_{unit}": unit for unit in SECONDS}}
ISO = "iso"
UNITS = (*SECONDS, ISO, *RELATIVE)
REQUIRED = "arrival or end, and one of response, service, wait with service, or arrival with end"

_BETWEEN = re.compile(r",(?=\s*\w+\s*=)")


@dataclass(frozen=True)
class Column:
    """A column with its role.

    Attributes:
        role: a key of ``ROLES``.
        name: its name in the table.
        unit: one of ``UNITS``; empty: as its values or its name say.
    """

    role: str
    name: str
    unit: str = ""

    @property
    def kind(self) -> str:
        """The kind of its role."""
        return ROLES[self.role].kind

    @property
    def option(self) -> str:
        """The column as ``--columns`` takes it."""
        return f"{self.role}={self.name}" + (f":{self.unit}" if self.unit else "")


def columns_of(roles: str | Iterable[str] | Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns of ``arrival=NAME:UNIT,response=NAME:UNIT,…``, of several such texts, or of role -> NAME:UNIT.

    Raises:
        SojournError: a role is unknown or occurs twice, a unit does not fit a role, or the roles make no request.
    """
    columns = tuple(_column(role, name) for role, name in _pairs(roles))
    twice = [each.role for each in columns if sum(other.role == each.role for other in columns) > 1]
    if twice:
        raise SojournError(f"--columns: the role {twice[0]} has two columns; give one")
    return columns


def _pairs(roles: str | Iterable[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    if isinstance(roles, Mapping):
        return [(str(role), str(name)) for role, name in roles.items()]
    texts = [roles] if isinstance(roles, str) else list(roles)
    pairs = [part for text in texts for part in _BETWEEN.split(text) if part.strip()]
    if not pairs:
        raise SojournError("--columns: no column; give for example arrival=COLUMN:ms,response=COLUMN:ms")
    for pair in pairs:
        if "=" not in pair:
            raise SojournError(f"--columns: {printable(pair)!r} is not ROLE=COLUMN or ROLE=COLUMN:UNIT")
    return [(role.strip(), name.strip()) for role, name in (pair.split("=", 1) for pair in pairs)]


def _column(role: str, text: str) -> Column:
    if role not in ROLES:
        near = get_close_matches(role, ROLES, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise SojournError(f"--columns: {printable(role)!r} is not a role{hint}; roles are {', '.join(ROLES)}")
    name, colon, unit = text.rpartition(":")
    if not colon or (unit not in UNITS and ROLES[role].kind == TEXT):
        name, unit = text, ""
    if not name:
        raise SojournError(f"--columns: {role} has no column")
    kind = ROLES[role].kind
    fits = SECONDS if kind == DURATION else UNITS if kind == INSTANT else ()
    if unit and unit not in fits:
        units = f"units of {role} are {', '.join(fits)}" if fits else f"{role} has no unit"
        raise SojournError(f"--columns: {printable(text)}: {printable(unit)!r} is not a unit of it; {units}")
    return Column(role, name, unit)


def missing_roles(columns: Iterable[Column]) -> str:
    """Return why columns with these roles make no request, as a sentence; empty if they do."""
    roles = {each.role for each in columns}
    if {"arrival", "end", "response"} <= roles:
        return "arrival, end and response are one too many: leave out one of them."
    if not roles & {"arrival", "end"}:
        return "No column has the instant of a request: arrival or end is missing."
    if {"arrival", "end"} <= roles or roles & {"response", "service"}:
        return ""
    lacking = "end, response or service" if "arrival" in roles else "arrival, response or service"
    return f"No column has the duration of a request: {lacking} is missing."
