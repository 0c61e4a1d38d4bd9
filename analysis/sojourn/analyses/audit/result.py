"""Checks of an audit, each with its figure, threshold, verdict and sentence.

A check passes, fails, or is unknown for lack of data. The sentence of a failure states the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sojourn.analyses.audit.incident import Incident
from sojourn.components.app_log import AppLogMatch
from sojourn.model.checks import FAIL, PASS, UNKNOWN, Check
from sojourn.model.coverage import MANY_IMPOSSIBLE, Coverage
from sojourn.model.formatting import counted, formatted, milliseconds, percent
from sojourn.model.measures import INSTANTS
from sojourn.model.one_worker import serving_several
from sojourn.model.verdict import NETWORK_GAP

IDENTITY_TOLERANCE = 1e-6  # s
LITTLE_TOLERANCE = 0.05
ENOUGH_ARRIVALS = 100  # with fewer, the ends of the window weigh too much to test the law
TREND_SIGNIFICANCE = 0.01
UTILISATION_LIMIT = 1.02  # more work than workers have time for; service times are rounded
HEADERS_SHARE = 0.9
MILLISECOND = 1e-3  # nginx's own resolution, the finest possible in a log
TICK_SHARE = 0.1  # of the median queueing delay: a coarser clock rounds the delay away
APP_LOG_SHARE = 0.9
LONGER_SHARE = 0.01  # of the requests with a line: more show that durations are of something else
TICK_LIMIT = 0.5  # s: whole seconds are too coarse whatever the delays are


@dataclass
class Audit:
    """The checks of a split, with their figures.

    Attributes:
        identity_max_error: largest |sum of components - request_time|, s.
        negative: component -> requests in which it is below 0.
        arrivals: requests that arrived in the inner window.
        arrival_rate: requests/s in it.
        mean_in_system: requests in system, averaged over it.
        mean_response: mean response time of the requests that arrived in it, s.
        little_ratio: N / (lambda R).
        stationary: no trend in arrivals or response time; None: unknown.
        trend: the result of the trend test as text.
        incident: the interval in which requests waited far longer than in the rest; None: there is none.
        utilisation: one row per backend, of many those with the most work: upstream, workers, busy (s of services,
            until the release where a span shows it), utilisation, in_one_worker (requests that one worker serves at a
            time).
        less_busy: number of other backends with workers.
        known: coverage of the requests of each backend.
        garbled: answers whose headers were not durations.
        upgraded: connections switched to another protocol (101), left out of the distributions.
        disagreement: median of (queue by stamp - queue by durations), s: network and clock error.
        trend_p: the smallest p value of the trend tests; None without tests.
        median_delay: median queueing delay, s.
        ticks: instant (of ``INSTANTS``) -> the step of its clock, s; None: unknown.
        contradiction: the largest gap between bounds of a clock's offset, s.
        contradicted: the upstream of that clock.
        reading: checks of what was read: the formats, and the refused lines.
        wire: checks of a capture of the same requests, if there is one.
        duplicates: duplicate records, each counted once; None: a store removed them before.
        reconstructed: instants of whole seconds were reconstructed, from the order of the lines.
        app_log: how the app's own log and the requests fit; None without one.
    """

    identity_max_error: float = 0.0
    negative: dict[str, int] = field(default_factory=dict)
    arrivals: int = 0
    arrival_rate: float | None = None
    mean_in_system: float | None = None
    mean_response: float | None = None
    little_ratio: float | None = None
    stationary: bool | None = None
    trend: str = "too few requests for a test"
    incident: Incident | None = None
    utilisation: list[dict[str, Any]] = field(default_factory=list)
    less_busy: int = 0
    known: Coverage = field(default_factory=lambda: Coverage(()))
    garbled: int = 0
    upgraded: int = 0
    disagreement: float | None = None
    trend_p: float | None = None
    median_delay: float | None = None
    ticks: dict[str, float | None] = field(default_factory=dict)
    contradiction: float | None = None
    contradicted: str = ""
    duplicates: int | None = 0
    reconstructed: bool = False
    wire: tuple[Check, ...] = ()
    app_log: AppLogMatch | None = None
    reading: tuple[Check, ...] = ()

    @property
    def checks(self) -> list[Check]:
        """The checks, in the order in which failures are reported."""
        return [
            *self.reading,
            _identity(self),
            _little(self),
            _stationarity(self),
            _utilisation(self),
            _headers(self),
            _impossible(self),
            _resolution(self),
            _clock(self),
            _duplicates(self),
            *([] if self.app_log is None else [_app_log(self.app_log)]),
            *self.wire,
        ]

    @property
    def app_known(self) -> float | None:
        """Share of the answers with known queueing delay and service time."""
        return self.known.determined

    def failures(self) -> list[str]:
        """Return the sentences of failed checks."""
        return [check.sentence for check in self.checks if check.verdict == FAIL]

    def to_dict(self) -> dict[str, object]:
        """Return the ``audit`` object of the JSON output."""
        return {
            "identity_max_error": self.identity_max_error,
            "negative_queue": self.negative.get("queue", 0),
            "negative": self.negative,
            "little": {
                "arrival_rate": self.arrival_rate,
                "mean_in_system": self.mean_in_system,
                "mean_response": self.mean_response,
                "ratio": self.little_ratio,
            },
            "stationary": self.stationary,
            "stationarity": {"test": "Mann-Kendall", "significance": TREND_SIGNIFICANCE, "found": self.trend},
            "utilisation": self.utilisation,
            "less_busy_backends": self.less_busy,
            "app_known": self.app_known,
            "known": self.known.to_dict(),
            "impossible": self.known.total.impossible,
            "app_headers_garbled": self.garbled,
            "upgraded": self.upgraded,
            "stamp_less_duration": self.disagreement,
            "resolution": self.ticks,
            "duplicates": self.duplicates,
            "app_log": None if self.app_log is None else self.app_log.to_dict(),
            "checks": [check.to_dict() for check in self.checks],
            "failures": self.failures(),
        }


def _judged(passed: bool) -> str:
    return PASS if passed else FAIL


def _identity(audit: Audit) -> Check:
    error = audit.identity_max_error
    passed = error <= IDENTITY_TOLERANCE
    sentence = (
        "the components add up to the response time, to less than a microsecond"
        if passed
        else f"the components miss the response time by up to {error:.6f} s"
    )
    return Check("identity", error, IDENTITY_TOLERANCE, _judged(passed), sentence)


def _little(audit: Audit) -> Check:
    ratio = audit.little_ratio
    if ratio is None or audit.arrivals < ENOUGH_ARRIVALS:
        return Check("little", ratio, LITTLE_TOLERANCE, UNKNOWN, "too few requests to test Little's law")
    passed = abs(ratio - 1) <= LITTLE_TOLERANCE
    sentence = (
        f"Little's law holds, N/λR = {ratio:.3f}"
        if passed
        else f"Little's law is off by {formatted(ratio - 1, '+.0%')}: the window cuts through a change of load"
    )
    return Check("little", ratio, LITTLE_TOLERANCE, _judged(passed), sentence)


def _stationarity(audit: Audit) -> Check:
    verdict = UNKNOWN if audit.stationary is None else _judged(audit.stationary)
    sentence = audit.trend
    if audit.stationary is False:
        sentence = f"not stationary: {audit.trend}; averages over this window describe no single state"
    return Check("stationarity", audit.trend_p, TREND_SIGNIFICANCE, verdict, sentence)


def _utilisation(audit: Audit) -> Check:
    if not audit.utilisation:
        sentence = "no worker values, so the time workers had is not known"
        return Check("utilisation", None, UTILISATION_LIMIT, UNKNOWN, sentence)
    several = serving_several(audit.utilisation)
    if several:
        worst = max(audit.utilisation, key=lambda row: row["in_one_worker"])
        sentence = (
            f"{several} (an event loop, threads, or several processes with one worker value), so the time they had is "
            "unknown; queueing delay is the wait until one of these takes the request"
        )
        return Check("utilisation", worst["utilisation"], UTILISATION_LIMIT, UNKNOWN, sentence)
    over = [row for row in audit.utilisation if row["utilisation"] > UTILISATION_LIMIT]
    worst = max(audit.utilisation, key=lambda row: row["utilisation"])
    sentence = f"services took at most {percent(worst['utilisation'])} of the time that the workers of a backend had"
    if over:
        sentence = (
            f"{len(over)} of {counted(len(audit.utilisation), 'backend')} worked longer than their workers had time "
            f"({worst['upstream']}: {worst['utilisation']:.0%} of {worst['workers']}): "
            "the worker values, or the service times, are not what they seem"
        )
    return Check("utilisation", worst["utilisation"], UTILISATION_LIMIT, _judged(not over), sentence)


def _headers(audit: Audit) -> Check:
    covered = audit.known.covered
    if covered is None:
        return Check("headers", None, HEADERS_SHARE, UNKNOWN, "no request was answered by an app")
    passed = covered >= HEADERS_SHARE
    total = audit.known.total
    sentence = f"waiting and working are known for {percent(covered)} of the answers"
    if total.by_duration:
        sentence += f", for {percent(total.by_duration / total.answered)} by durations alone"
    if total.inferred:
        sentence += f", for {percent(total.inferred / total.answered)} inferred from the log alone"
    if not passed and audit.known.of_app:
        sentence = (
            f"{percent(total.of_app / total.answered)} of the answers are from an app server's own log: the wait "
            "before it is not in their times; read the proxy's log"
        )
    elif not passed:
        sentence = (
            f"{percent(1 - covered)} of the answers came without the app's service time: waiting and working are "
            f"unknown there ({audit.known.incomplete_backends()}); wrap every backend in the middleware"
        )
    return Check("headers", covered, HEADERS_SHARE, _judged(passed), sentence)


def _impossible(audit: Audit) -> Check:
    number, reported = audit.known.total.impossible, audit.known.reported
    if not reported:
        return Check("impossible", None, None, UNKNOWN, "no queueing delay is known by a stamp")
    sentence = "no queueing delay is longer than the response that contains it"
    if number:
        sentence = (
            f"{number:,} of {counted(reported, 'queueing delay')} {'is' if number == 1 else 'are'} longer than the "
            f"response that contains {'it' if number == 1 else 'them'} and {'is' if number == 1 else 'are'} not used: "
            "the stamp was forged, or a clock was set meanwhile"
        )
    limit = MANY_IMPOSSIBLE * reported
    return Check("impossible", number, limit, _judged(not audit.known.distrusted), sentence)


def _resolution(audit: Audit) -> Check:
    ticks = {name: tick for name, tick in audit.ticks.items() if tick is not None}
    limit = min(max(MILLISECOND, TICK_SHARE * (audit.median_delay or 0.0)), TICK_LIMIT)
    if not ticks:
        return Check("resolution", None, limit, UNKNOWN, "too few instants to tell how finely the clocks count")
    worst, tick = max(ticks.items(), key=lambda item: item[1])
    if audit.reconstructed:
        sentence = "instants of whole seconds were reconstructed from the order of the lines; log $msec"
        return Check("resolution", tick, limit, UNKNOWN, sentence)
    if tick <= limit:
        sentence = f"instants count in steps of {milliseconds(tick)} ms or finer"
        return Check("resolution", tick, limit, PASS, sentence)
    what, mend = INSTANTS[worst]
    if audit.median_delay is None and tick <= TICK_LIMIT:
        sentence = f"{what} counts in steps of {milliseconds(tick)} ms, and no delay is known to hold against it"
        return Check("resolution", tick, limit, UNKNOWN, sentence)
    sentence = f"{what} counts in steps of {milliseconds(tick)} ms, too coarse"
    if audit.median_delay is not None:
        sentence += f" for queueing delays of {milliseconds(audit.median_delay)} ms in the median"
    return Check("resolution", tick, limit, FAIL, f"{sentence}; {mend}")


def _clock(audit: Audit) -> Check:
    if audit.contradiction is None:
        return Check("clock", None, NETWORK_GAP, UNKNOWN, "no request shows the offset of an app's clock from nginx's")
    passed = audit.contradiction <= NETWORK_GAP
    sentence = "what requests say of the clocks agrees"
    if not passed:
        sentence = (
            f"what requests say of the clock of {audit.contradicted} disagrees by "
            f"{milliseconds(audit.contradiction)} ms, and no drift and no step explains it: "
            "its delays, or its service times, are not what they seem"
        )
    return Check("clock", audit.contradiction, NETWORK_GAP, _judged(passed), sentence)


def _duplicates(audit: Audit) -> Check:
    count = audit.duplicates
    if count is None:
        sentence = "the store keeps a record once, however often it was delivered"
    elif count:
        sentence = (
            f"{counted(count, 'record was a copy of one before it', 'records were copies of records before them')}; "
            "each counts once"
        )
    else:
        sentence = "no record was delivered twice"
    return Check("duplicates", count, None, PASS, sentence)


def _app_log(match: AppLogMatch) -> Check:
    share = match.matched / match.requests if match.requests else 0.0
    sentence = match.coverage
    lines = match.requests - match.absent
    contradicted = match.longer > LONGER_SHARE * lines
    passed = share >= APP_LOG_SHARE and not contradicted and not match.tiny
    if contradicted:
        sentence += (
            "; durations longer than the response are not used: they contain work after it, or another request's"
        )
    elif match.tiny:
        sentence += "; nearly all durations are below a thousandth of the upstream's own time: check their unit"
    elif not passed:
        sentence += "; let every app server log the header X-Request-ID that nginx sends"
    return Check("app_log", share, APP_LOG_SHARE, _judged(passed), sentence)
