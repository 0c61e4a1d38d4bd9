"""The plan of a generator and its results: the only contract between it and the harness."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sojourn_lab.scenario.load import AnyLoad, Distribution, NotNegative, Positive, Retries, Route


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A URL that is requested unchanged, its share of the requests, and its name in the records."""

    url: str
    name: str
    share: Positive = 1.0


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case for one generator process; times in seconds.

    Where there are `routes`, each request draws one of them and its service time; else all have `service_time`. `seed`
    is a list so that every case of a scenario has its own random numbers: [seed, case]. `max_in_flight` bounds what the
    generator holds open: an open-loop arrival beyond it is dropped, counted, and makes the run void. `dependency` is
    the service time (s) that requests without routes request from the tier behind. `local_ports` bounds the ports the
    generator may send from, `started` is a file that gets the instant (unix s) at which the measured window begins, as
    soon as that is known. `targets` are requested unchanged, each request drawing one by the shares, whatever the
    service time: they are not the lab's app. `cacert` is a file of certificates that https trusts in place of the
    system's; with `request_ids` every request has an `X-Request-ID` of its own. The users of a closed loop together
    send at most `most_a_second` requests a second, and end early after `most_requests`.
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
    dependency: NotNegative = 0.0
    retries: Retries | None = None
    max_in_flight: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    local_ports: Annotated[int, msgspec.Meta(ge=1, le=20_000)] | None = None
    started: str | None = None
    targets: list[Target] = []
    cacert: str | None = None
    request_ids: bool = False
    most_a_second: Positive | None = None
    most_requests: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ClientRecord(msgspec.Struct, gc=False):
    """One request as its client observed it: one line of client.jsonl.

    Instants are unix seconds with six decimals, from one monotonic clock that was set to
    the wall clock once, at the start: differences are exact whatever NTP does meanwhile.
    `intended` is when the schedule wanted it sent (closed loop: the previous answer plus the
    think time), `sent` when the generator began it, before the connect; `first_byte` when the
    answer's headers were there; `done` when the body was, or the request had failed. A retry has the `id` of the
    first attempt, and its own `attempt` (from 1) and instants. `request_id` is that of the answer, `sent_request_id`
    that of the request, where the generator sends one. `route` is the route of the lab's app, or the target's name.
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
    attempt: int = 1
    sent_request_id: str | None = None


class Quantiles(msgspec.Struct):
    """Mean and exact quantiles of a list of seconds; all None for an empty list."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None
    p95: float | None = None


class Window(msgspec.Struct):
    """The measured window, in unix seconds: after the warm-up, `until` excluded."""

    since: float = msgspec.field(name="from")
    until: float = msgspec.field(name="to")


class Latency(msgspec.Struct):
    """Response times of answered requests, s: from the intended instant, and from the actual sending."""

    corrected: Quantiles
    uncorrected: Quantiles


class Useful(msgspec.Struct):
    """Outcomes of the intended requests, however many attempts each needed.

    `wanted` counts them, `served` those that got an answer below 400 in the end, `share` is served of wanted and
    `rate` served per second of the window; `latency`, s, from the first intended instant to the good answer.
    `attempts` is the number of attempts for each wanted request.
    """

    wanted: int
    served: int
    share: float | None
    rate: float
    attempts: float | None
    latency: Quantiles


class Summary(msgspec.Struct):
    """What a generator reports about one case; counts are of the requests intended in the window.

    `offered` is what the schedule intended, `sent` what left in time, `dropped` what the bound on
    requests in flight refused; `requests` counts the rows of client.jsonl, warm-up included.
    `offered` and `sent` count first attempts, `answered`, `failed`, `errors` and `statuses` every attempt; `useful` is
    the outcome for the client.
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
    useful: Useful | None = None
