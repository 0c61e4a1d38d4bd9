"""Coverage: how much is known of the requests of a split. Verdict, audit, notes and doctor use this judgement.

A request's waiting and working are known by its stamp (or a span), by durations alone (header time - service time, no
stamp reached the app), in part (a delay without a service time), or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

from sojourn.model.formatting import counted, printable

IN_SENTENCE = 3  # backends named in a sentence
APP_LOG = (
    "The log is an app server's own, and the wait before the app is not in its times. Read the proxy's log; --app-log "
    "joins the two."
)
ENOUGH = 500  # answers of a backend to infer its queue
FEW_MEASURED = 0.01  # of a backend's answers: with more of them nothing is inferred
MOST_INFERRED = 5_000_000  # answers whose rows are fetched from a store for it
FEW_OF_APP = 0.01  # of all answers
MANY_IMPOSSIBLE = 0.1  # of the reported delays: a larger share is no exception


@dataclass(frozen=True)
class Counts:
    """Requests of one backend (or none) by what is known of them.

    Attributes:
        upstream: address; None where there is none.
        not_proxied: answered by nginx itself.
        answered: answered by the app. Of these, the next four are known; of the rest, a delay without a service time.
        by_stamp: delay and service time are known, by stamp or span.
        by_duration: delay and service time are known, by the service time alone.
        inferred: delay and service time are inferred from the log alone.
        silent: neither is known.
        timed_out, left, failed: proxied and not answered, and no span shows what the worker did: status 504, 499, any
            other.
        impossible: reported delays longer than their response, not used.
        late_stamps: requests whose logged stamp lies after the begin of the upstream request, not used.
        of_app: answered, in the log of the app server itself, whose times do not contain the wait.
    """

    upstream: str | None
    not_proxied: int
    answered: int
    by_stamp: int
    by_duration: int
    inferred: int
    silent: int
    timed_out: int
    left: int
    failed: int
    impossible: int
    late_stamps: int
    of_app: int = 0

    @property
    def incomplete(self) -> int:
        """Responses with unknown wait or service time."""
        return self.answered - self.by_stamp - self.by_duration - self.inferred


COUNTS = tuple(field.name for field in fields(Counts))[1:]


@dataclass(frozen=True)
class Waits:
    """How much of the requests is queueing, by those whose queueing delay is known; means over all requests.

    Attributes:
        requests: their number.
        proxied: share that went to a backend.
        measured: share of a known queueing delay.
        measured_seconds, queueing: s, response time and queueing delay of these and of requests without a backend.
        part_seconds: s, response time of requests of which only the wait in front of the backend is known, as its
            proxy saw it.
        part_queueing: s, that wait.
        part_queue: s, of that wait, the proxy's own queue.
    """

    requests: int = 0
    proxied: float = 0.0
    measured: float = 0.0
    measured_seconds: float = 0.0
    queueing: float = 0.0
    part_seconds: float = 0.0
    part_queueing: float = 0.0
    part_queue: float = 0.0

    @property
    def share(self) -> float | None:
        """The share of queueing in the response time, of the requests whose wait is known; None: of none.

        A proxy with a queue of its own logs the wait in it for every request: it is a lower bound of the others' share.
        """
        with_part = self.part_queue > 0
        seconds = self.measured_seconds + (self.part_seconds if with_part else 0.0)
        queueing = self.queueing + (self.part_queueing if with_part else 0.0)
        unknown = self.proxied > 0 and not self.measured and not with_part
        return None if unknown or seconds <= 0 else queueing / seconds

    @property
    def known(self) -> int:
        """Number of requests with a known queueing delay, and of those that went to no backend."""
        return self.requests - self.missing

    @property
    def missing(self) -> int:
        """Number of requests that went to a backend and whose queueing delay is not even known in part."""
        return 0 if self.part_queue > 0 else round((self.proxied - self.measured) * self.requests)


NO_WAITS = Waits()
WAITS = tuple(field.name for field in fields(Waits))[1:]


def waits_of(requests: int, row: Mapping[str, float | None]) -> Waits:
    """Return the waits in a row with the columns ``waits/<name>`` of ``WAITS``; without a request they are null."""
    return Waits(requests, **{name: row[f"waits/{name}"] or 0.0 for name in WAITS})


@dataclass(frozen=True)
class Coverage:
    """Coverage of all requests, without upgraded connections; counts as in ``Counts``.

    Attributes:
        backends: of many, the ``LARGEST`` with the most answers.
        others: sums over the other backends; None: there are none.
        number: of all backends.
        answering: number of those with answers.
        lacking: number of these with answers whose wait or service time is unknown.
    """

    backends: tuple[Counts, ...]
    others: Counts | None = None
    number: int = 0
    answering: int = 0
    lacking: int = 0

    @cached_property
    def total(self) -> Counts:
        """The sums over all backends."""
        parts = self.backends if self.others is None else (*self.backends, self.others)
        return Counts(None, **{name: sum(getattr(one, name) for one in parts) for name in COUNTS})

    @property
    def of_app(self) -> bool:
        """Whether so many responses are in logs of app servers that figures of all would mix two kinds of times."""
        return self.total.of_app > FEW_OF_APP * self.total.answered

    @property
    def determined(self) -> float | None:
        """Share of the responses with measured wait and service time; None without a response."""
        total = self.total
        return (total.by_stamp + total.by_duration) / total.answered if total.answered else None

    @property
    def covered(self) -> float | None:
        """Share of the responses with measured or inferred wait and service time; None without a response."""
        total = self.total
        return 1 - total.incomplete / total.answered if total.answered else None

    @property
    def inferable(self) -> bool:
        """Whether a backend reported nothing, and had enough requests to infer its queue from them."""
        return any(
            ENOUGH <= one.answered < MOST_INFERRED and one.answered - one.silent <= FEW_MEASURED * one.answered
            for one in self.backends
        )

    @property
    def unanswered(self) -> int:
        """Requests proxied and not answered, without a span that shows more."""
        return self.total.timed_out + self.total.left + self.total.failed

    @property
    def reported(self) -> int:
        """Delays reported by apps, including impossible ones."""
        total = self.total
        return total.answered - total.silent - total.by_duration - total.inferred + total.impossible

    @property
    def distrusted(self) -> bool:
        """Whether too many reported delays are impossible for the others to be relied on."""
        return self.total.impossible > MANY_IMPOSSIBLE * max(self.reported, 1)

    def incomplete_backends(self) -> str:
        """Return the backends with answers whose waiting or working is unknown, most of these first, for a sentence."""
        if self.lacking == self.answering > IN_SENTENCE:
            return f"all {counted(self.lacking, 'backend')}"
        incomplete = sorted((one for one in self.backends if one.incomplete), key=lambda one: -one.incomplete)
        names = [printable(one.upstream or "the backend", 60) for one in incomplete[:IN_SENTENCE]]
        more = self.lacking - len(names)
        if more and not names:
            return counted(more, "backend")
        return ", ".join(names) + (f" and {more:,} more" if more else "")

    def to_dict(self) -> dict[str, object]:
        """Return the ``audit.known`` object of the JSON output."""
        return {name: getattr(self.total, name) for name in COUNTS}
