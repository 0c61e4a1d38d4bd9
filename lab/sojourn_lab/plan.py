"""What a generator is told and what it writes back: the only contract between it and the harness."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sojourn_lab.load import AnyLoad, Distribution, NotNegative, Positive, Route


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case for one generator process; times in seconds.

    Where there are `routes`, each request draws one of them and its service time; else all have `service_time`.
    `seed` is a list so that every case of a scenario has its own random numbers: [seed, case].
    `max_in_flight` bounds what the generator holds open: an open-loop arrival beyond it is
    dropped, counted, and makes the run void.
    """

    case: str
    url: str
    seed: list[int]
    load: AnyLoad
    service_time: NotNegative
    warmup: NotNegative
    duration: Positive
    timeout: Positive
    client_log: str
    summary: str
    distribution: Distribution = "constant"
    routes: list[Route] = []
    max_in_flight: Annotated[int, msgspec.Meta(ge=1)] = 10_000


class ClientRecord(msgspec.Struct, gc=False):
    """One request as its client saw it: one line of client.jsonl.

    Instants are unix seconds with six decimals, from one monotonic clock that was set to
    the wall clock once, at the start: differences are exact whatever NTP does meanwhile.
    `intended` is when the schedule wanted it sent (closed loop: the previous answer plus the
    think time), `sent` when the generator began it, before the connect; `first_byte` when the
    answer's headers were there; `done` when the body was, or the request had failed.
    """

    case: str
    id: str
    user: int | None
    service_time: float
    intended: float
    sent: float
    first_byte: float | None = None
    done: float | None = None
    status: int | None = None
    bytes: int = 0
    error: str | None = None
    request_id: str | None = None
    route: str | None = None


class Quantiles(msgspec.Struct):
    """Mean and exact quantiles of a list of seconds; all None where the list was empty."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None


class Window(msgspec.Struct):
    """The measured window, in unix seconds: after the warm-up, `until` excluded."""

    since: float = msgspec.field(name="from")
    until: float = msgspec.field(name="to")


class Latency(msgspec.Struct):
    """Response times of answered requests, s: from the intended instant, and from the actual sending."""

    corrected: Quantiles
    uncorrected: Quantiles


class Summary(msgspec.Struct):
    """What a generator reports about one case; counts are of the requests intended in the window.

    `offered` is what the schedule intended, `sent` what left in time, `dropped` what the bound on
    requests in flight refused; `requests` counts the rows of client.jsonl, warm-up included.
    `schedule_lag` is sent - intended, `loop_lag` how late the event loop came to a timer due
    every ten milliseconds; `cpu` is the share of one core the process used. `void` lists the
    reasons why these figures say more about the generator than about the system under test.
    """

    case: str
    window: Window
    requests: int
    offered: int
    sent: int
    dropped: int
    answered: int
    failed: int
    errors: dict[str, int]
    statuses: dict[str, int]
    offered_rate: float
    achieved_rate: float
    latency: Latency
    schedule_lag: Quantiles
    loop_lag: Quantiles
    cpu: float
    void: list[str]
