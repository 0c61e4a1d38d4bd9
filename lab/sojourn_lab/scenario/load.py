"""The load of one case, in scenario files and in the generator's plan.

There are two models. In a *closed* loop each of a fixed number of users waits for an answer before it sends again: the
system under test sets the pace. In an *open* loop requests arrive by a schedule that is independent of the system.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
from sojourn.model.formatting import counted

Positive = Annotated[float, msgspec.Meta(gt=0.0, le=86_400.0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)]
Rate = Annotated[float, msgspec.Meta(gt=0.0, le=1_000_000.0)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=60)]

RouteName = Annotated[str, msgspec.Meta(pattern=r"^/[a-z0-9/_-]{1,60}$")]

Distribution = Literal["constant", "exponential"]

MAX_REQUESTS = 1_000_000
"""The most requests of one case; more are taken for an error in the scenario."""


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of the loads."""


class ClosedLoad(Load, frozen=True, tag="closed"):
    """`concurrency` users; each pauses `think_time` seconds between an answer and its next request.

    With `from_concurrency`, that many users begin, and the others join one by one, evenly over the measured time.
    """

    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    think_time: NotNegative = 0.0
    from_concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None

    def __post_init__(self) -> None:
        if self.from_concurrency is not None and self.from_concurrency > self.concurrency:
            raise ValueError("`from_concurrency` must not exceed `concurrency`: users join, they do not leave")


class PoissonLoad(Load, frozen=True, tag="poisson"):
    """Independent arrivals, `rate` a second on average."""

    rate: Rate


class ConstantLoad(Load, frozen=True, tag="constant"):
    """One arrival every 1 / `rate` seconds."""

    rate: Rate


class RampLoad(Load, frozen=True, tag="ramp"):
    """Arrivals at `from_rate` during the warm-up, then going linearly to `to_rate` a second."""

    from_rate: Annotated[float, msgspec.Meta(ge=0.0, le=1_000_000.0)]
    to_rate: Annotated[float, msgspec.Meta(ge=0.0, le=1_000_000.0)]

    def __post_init__(self) -> None:
        if self.from_rate + self.to_rate <= 0.0:
            raise ValueError("a ramp needs at least one of from_rate and to_rate above 0")


class StepsLoad(Load, frozen=True, tag="steps"):
    """Poisson arrivals whose rate changes: `rates[0]` from the start of the warm-up, `rates[k]` from `at[k - 1]` on.

    `at` counts in seconds after the warm-up.
    """

    rates: Annotated[list[Annotated[float, msgspec.Meta(ge=0.0, le=1_000_000.0)]], msgspec.Meta(min_length=2)]
    at: list[NotNegative]

    def __post_init__(self) -> None:
        if len(self.at) != len(self.rates) - 1:
            raise ValueError(
                f"{len(self.rates)} rates need {len(self.rates) - 1} instants of change, not {len(self.at)}"
            )
        if any(later <= earlier for earlier, later in zip(self.at, self.at[1:], strict=False)):
            raise ValueError("the instants of `at` must increase")
        if not any(self.rates):
            raise ValueError("at least one rate must be above 0")

    def spells(self, warmup: float, duration: float) -> list[tuple[float, float, float]]:
        """Return (begin, end, rate) of every step, in seconds after the start of the warm-up."""
        begins = [0.0, *(warmup + instant for instant in self.at)]
        ends = [*begins[1:], warmup + duration]
        cut = [
            (begin, min(end, warmup + duration), rate)
            for begin, end, rate in zip(begins, ends, self.rates, strict=True)
        ]
        return [spell for spell in cut if spell[1] > spell[0]]


class DiurnalLoad(Load, frozen=True, tag="diurnal"):
    """Poisson arrivals whose rate follows a cosine, from `low` a second to `high` and back in `period` seconds.

    The rate is lowest at the end of the warm-up.
    """

    low: Annotated[float, msgspec.Meta(ge=0.0, le=1_000_000.0)]
    high: Rate
    period: Positive

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("`low` must not exceed `high`")


class InstantsLoad(Load, frozen=True, tag="instants"):
    """Arrivals at the listed seconds after the warm-up, with their own service times and routes where given."""

    at: Annotated[list[NotNegative], msgspec.Meta(min_length=1, max_length=MAX_REQUESTS)]
    service_times: list[NotNegative] | None = None
    routes: list[RouteName] | None = None

    def __post_init__(self) -> None:
        if any(later < earlier for earlier, later in zip(self.at, self.at[1:], strict=False)):
            raise ValueError("the instants of `at` must not decrease")
        if self.service_times is not None and len(self.service_times) != len(self.at):
            raise ValueError(f"{len(self.at)} instants of at but {len(self.service_times)} of service_times")
        if self.routes is not None and len(self.routes) != len(self.at):
            raise ValueError(f"{len(self.at)} instants of at but {counted(len(self.routes), 'route')}")


class Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A route of the app: its share of the requests (relative to the other routes') and its service time, s.

    `dependency`: seconds of work that it needs from the tier behind the app, after its own. `body`: seconds for which
    its body is sent after the headers; `after`: seconds of work after the answer. `cpu`: the service time is processor
    time, which the app uses; otherwise the app sleeps.
    """

    name: RouteName
    share: Positive
    service_time: NotNegative
    distribution: Distribution = "constant"
    dependency: NotNegative = 0.0
    body: NotNegative = 0.0
    after: NotNegative = 0.0
    cpu: bool = False


class Retries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Retries of a client after a failure (no answer in time, a broken connection, 429 or 5xx).

    It repeats the request up to `attempts` - 1 times, after a pause of `backoff` seconds that grows by `factor` each
    time and is multiplied by a uniform random number in 1 ± `jitter`.
    """

    attempts: Annotated[int, msgspec.Meta(ge=2, le=20)]
    backoff: NotNegative = 0.0
    factor: Annotated[float, msgspec.Meta(ge=1.0, le=10.0)] = 1.0
    jitter: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0


AnyLoad = ClosedLoad | PoissonLoad | ConstantLoad | RampLoad | StepsLoad | DiurnalLoad | InstantsLoad


def scaled_seconds(seconds: float, scale: float) -> float:
    """Return seconds times scale, rounded to the nanosecond: 0.1 times 0.2 is 0.02, not 0.020000000000000004."""
    return round(seconds * scale, 9)


def load_with_time_scaled(load: AnyLoad, scale: float) -> AnyLoad:
    """Return the load with every duration multiplied by `scale` and every rate divided by it.

    Utilisation (arrival rate · service time / workers) does not change.
    """
    match load:
        case ClosedLoad():
            return msgspec.structs.replace(load, think_time=scaled_seconds(load.think_time, scale))
        case PoissonLoad() | ConstantLoad():
            return msgspec.structs.replace(load, rate=load.rate / scale)
        case RampLoad():
            return msgspec.structs.replace(load, from_rate=load.from_rate / scale, to_rate=load.to_rate / scale)
        case StepsLoad():
            return msgspec.structs.replace(
                load,
                rates=[rate / scale for rate in load.rates],
                at=[scaled_seconds(instant, scale) for instant in load.at],
            )
        case DiurnalLoad():
            return msgspec.structs.replace(
                load, low=load.low / scale, high=load.high / scale, period=scaled_seconds(load.period, scale)
            )
        case InstantsLoad():
            own = load.service_times
            return msgspec.structs.replace(
                load,
                at=[scaled_seconds(instant, scale) for instant in load.at],
                service_times=None if own is None else [scaled_seconds(each, scale) for each in own],
            )


def expected_requests(load: AnyLoad, warmup: float, duration: float) -> float | None:
    """Return the number of requests that the load intends, None for a closed loop (the system determines it)."""
    match load:
        case ClosedLoad():
            return None
        case PoissonLoad() | ConstantLoad():
            return load.rate * (warmup + duration)
        case RampLoad():
            return load.from_rate * warmup + (load.from_rate + load.to_rate) / 2.0 * duration
        case StepsLoad():
            return sum((end - begin) * rate for begin, end, rate in load.spells(warmup, duration))
        case DiurnalLoad():
            # The integral of the rate, from the warm-up to the end of the measured time.
            waves = [math.sin(math.tau * instant / load.period) for instant in (-warmup, duration)]
            swing = load.period / math.tau * (waves[1] - waves[0])
            return (load.low + load.high) / 2.0 * (warmup + duration) - (load.high - load.low) / 2.0 * swing
        case InstantsLoad():
            return float(len(load.at))


def retries_with_time_scaled(retries: Retries | None, scale: float) -> Retries | None:
    """Return the retries with their pauses multiplied by `scale`."""
    return None if retries is None else msgspec.structs.replace(retries, backoff=scaled_seconds(retries.backoff, scale))
