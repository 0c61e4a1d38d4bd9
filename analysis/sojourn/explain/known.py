"""What is known of the requests that a split divides: the one judgement that verdict, audit, notes and doctor read.

A request's waiting and working are known by its stamp (or a span), by durations alone (header time - service time, no
stamp reached the app), in part (a delay without a service time), or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from sojourn.words import printable

NAMED = 3  # backends named in a sentence
MANY_IMPOSSIBLE = 0.1  # of the reported delays: so many cannot be odd ones out

# Requests by what is known of them; of a frame as ``split_rows`` makes it. store/sql/known.sql has the same.
_BOTH = pl.col("queue").is_not_null() & pl.col("service_time").is_not_null()
_UNANSWERED = pl.col("proxied") & ~pl.col("answered") & pl.col("queue").is_null()
KNOWN_COUNTS = {
    "not_proxied": ~pl.col("proxied"),
    "answered": pl.col("answered"),
    "by_stamp": pl.col("answered") & _BOTH & pl.col("queue_source").is_in(["stamp", "span"]),
    "by_duration": pl.col("answered") & _BOTH & (pl.col("queue_source") == "duration"),
    "silent": pl.col("answered") & pl.col("queue").is_null(),
    "timed_out": _UNANSWERED & (pl.col("status") == 504),
    "left": _UNANSWERED & (pl.col("status") == 499),
    "failed": _UNANSWERED & ~pl.col("status").is_in([499, 504]),
    "impossible": pl.col("impossible"),
}
KNOWN_COLUMNS = ("upstream", "status", "proxied", "answered", "queue", "service_time", "queue_source", "impossible")


@dataclass(frozen=True)
class Counts:
    """Requests of one backend (or none) by what is known of them.

    Attributes:
        upstream: address; None where there is none.
        not_proxied: answered by nginx itself.
        answered: answered by the app. Of these: by_stamp (delay and service time, by stamp or span), by_duration (by
            service time alone), silent (neither), and the rest a delay without a service time.
        timed_out, left, failed: proxied and not answered, and no span tells what the worker did: status 504, 499, any
            other.
        impossible: reported delays longer than their response, not used.
    """

    upstream: str | None
    not_proxied: int
    answered: int
    by_stamp: int
    by_duration: int
    silent: int
    timed_out: int
    left: int
    failed: int
    impossible: int

    @property
    def incomplete(self) -> int:
        """Answers whose waiting or working is unknown."""
        return self.answered - self.by_stamp - self.by_duration


@dataclass(frozen=True)
class Known:
    """What is known of all requests, upgraded connections left out; counts as in ``Counts``."""

    backends: tuple[Counts, ...]

    @cached_property
    def total(self) -> Counts:
        """The sums over all backends."""
        return Counts(None, *(sum(getattr(one, name) for one in self.backends) for name in KNOWN_COUNTS))

    @property
    def determined(self) -> float | None:
        """Share of the answers whose waiting and working are both known; None without an answer."""
        total = self.total
        return (total.by_stamp + total.by_duration) / total.answered if total.answered else None

    @property
    def unanswered(self) -> int:
        """Requests proxied and not answered, of which no span tells more."""
        return self.total.timed_out + self.total.left + self.total.failed

    @property
    def reported(self) -> int:
        """Delays that apps reported, the impossible ones included."""
        total = self.total
        return total.answered - total.silent - total.by_duration + total.impossible

    @property
    def distrusted(self) -> bool:
        """Whether so many reported delays are impossible that the others cannot be relied on."""
        return self.total.impossible > MANY_IMPOSSIBLE * max(self.reported, 1)

    def incomplete_backends(self) -> str:
        """The backends with answers whose waiting or working is unknown, most of these first, for a sentence."""
        answering = [one for one in self.backends if one.answered]
        lacking = sorted((one for one in answering if one.incomplete), key=lambda one: -one.incomplete)
        if len(lacking) == len(answering) > NAMED:
            return f"all {len(lacking):,} backends"
        names = ", ".join(printable(one.upstream or "–", 60) for one in lacking[:NAMED])
        return names + (f" and {len(lacking) - NAMED:,} more" if len(lacking) > NAMED else "")

    def to_dict(self) -> dict[str, object]:
        """The ``audit.known`` object of the JSON output."""
        return {name: getattr(self.total, name) for name in KNOWN_COUNTS}


def known_of(rows: Iterable[dict[str, object]]) -> Known:
    """Known, from one row a backend: ``upstream`` and the counts of ``KNOWN_COUNTS``."""
    return Known(tuple(Counts(**row) for row in rows))  # type: ignore[arg-type]


def known_of_frame(rows: pl.LazyFrame) -> Known:
    """Known, from split rows without upgraded connections; they need ``KNOWN_COLUMNS``."""
    counts = [value.fill_null(False).sum().alias(name) for name, value in KNOWN_COUNTS.items()]
    return known_of(rows.group_by("upstream").agg(counts).sort("upstream").collect(engine="streaming").to_dicts())
