"""The verdict in one sentence: the queue, the app, or a phase of the request before or after it.

A phase is known from the log; what caused it often is not. ``Evidence`` has what tells causes of one phase apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sojourn.model.coverage import NO_WAITS, Coverage, Waits
from sojourn.model.formatting import counted, formatted

SLO = 0.5  # s, p99, default
NETWORK_GAP = 0.010  # s: a gap between the bounds of a clock offset that a network and a clock's resolution may explain
LARGE = 8192  # bytes: what fits in the buffers of a socket does not wait for the client
CAUSE_SHARE = 0.6  # of all seconds: below this no single cause is named
MENTIONED = 0.01  # of the requests, or of the seconds: fewer with an unknown wait are not mentioned
POSSIBLE = 1.5  # of all seconds: more than this in one cause, the others taking it away again, is no time that passed
HEALTHY_QUEUEING = 0.2  # share of queueing, and of unknown time, that a fast service may have and still be healthy

CAUSES = {
    "queueing": ("proxy_queue", "connect", "queue"),
    "service": ("service_time",),
    "body": ("transfer",),
    "before": ("upload",),
    "after": ("send",),
    "retries": ("retries",),
    "unknown": ("unattributed", "network", "redirected"),
}
REDIRECTED = "at upstreams before or after an internal redirect, which report neither waiting nor work"
NOTHING_MORE = Coverage(())
NETWORK = "network"  # the way to an idle backend, which is in the queueing delay
CLIENT = "client"
INSIDE = "inside"  # waiting inside the app, which is in the service time
WORDS = {
    "queueing": "waiting for a worker",
    "service": "within the app",
    INSIDE: "waiting inside the app, for what its requests share",
    "body": "into the body of the answer",
    "before": "before the proxy turned to the app",
    "after": "in the proxy after the answer of the app, or without one",
    "retries": "in attempts before the last one",
    NETWORK: "on the way to the app",
    "unknown": "where the app did not report what it did",
}
OPENINGS = {
    "queueing": "It is a queue, not the code",
    "service": "It is the app, not a queue in front of it",
    INSIDE: "It is a queue inside the app, not the code",
    "body": "It is the body of the answer, not a queue",
    "before": "It is neither the queue nor the app",
    "after": "It is neither the queue nor the app",
    CLIENT: "It is neither the queue nor the app, but the client",
    "retries": "It is earlier attempts, not the last one",
    NETWORK: "It is the network, not a queue",
    "unknown": "Unknown",
}
OPENING_OF_MIXED = "No single cause"
# What delays a phase, where nothing tells it apart and no configuration is known.
DELAYS = {
    "before": ("`auth_request`", "`limit_req`", "a cache lock"),
    "after": ("`auth_request`", "a cache lock", "`mirror`", "`slice`", "a resolver"),
    "body": ("`proxy_buffering off`",),
    "service": ("`proxy_request_buffering off`",),
}
# The client's part in a phase that directives delay as well.
OF_CLIENT = {"before": "nginx read the request slowly from the client", "after": "the client read the answer slowly"}
LIMIT, LOCK = "`limit_req`", "`proxy_cache_lock`"
MOST_DIRECTIVES = 3  # directives of a configuration
Directives = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Verdict:
    """``cause`` is a key of ``OPENINGS``, mixed or healthy.

    ``tail_cause``: the same of the slowest 1 %, where a phase is never the client's.
    """

    cause: str
    sentence: str
    tail_cause: str

    def to_dict(self) -> dict[str, str]:
        """Return the ``verdict`` object of the JSON output."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Evidence:
    """What tells the causes of one phase apart: seconds averaged over the requests that the component means are of.

    Attributes:
        large: cause (before, after, body, service) -> its seconds in requests or answers of ``LARGE`` bytes and more.
        redirects: of the retries, the time at upstreams that answered (2xx, 3xx), and whose answer an internal redirect
            replaced: they did not fail.
        way: of the queueing, the way to a backend, as requests took it to an idle backend.
        locked: cause (before, after) -> its seconds in a cache lock of nginx, which are queueing.
        limited: cause (before, after) -> its seconds in requests that ``limit_req`` of nginx delayed.
        inner: of the service, waiting inside the app, as far as it is inferred.
        way_in_doubt: of the queueing, what may be the way to a backend: few requests arrived while it was idle, and
            its clock is not known.
    """

    large: Mapping[str, float] = field(default_factory=dict)
    redirects: float = 0.0
    way: float = 0.0
    locked: Mapping[str, float] = field(default_factory=dict)
    limited: Mapping[str, float] = field(default_factory=dict)
    way_in_doubt: float = 0.0
    inner: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the ``evidence`` object of the JSON output."""
        return dict(self.__dict__)


NO_EVIDENCE = Evidence()


def cause_shares(means: Mapping[str, float], evidence: Evidence = NO_EVIDENCE) -> dict[str, float]:
    """Return the share of the response time by cause, from component means over all requests; the sum is 1.

    The time before an internal redirect is unknown: it is the work or the queue of an upstream that reported neither.
    """
    total = sum(means.values()) or 1.0
    seconds = {cause: sum(means.get(part, 0.0) for part in parts) for cause, parts in CAUSES.items()}
    seconds["retries"] -= evidence.redirects
    seconds["unknown"] += evidence.redirects + evidence.way_in_doubt
    seconds["queueing"] -= evidence.way + evidence.way_in_doubt
    for cause, waited in evidence.locked.items():
        seconds[cause] -= waited
        seconds["queueing"] += waited
    if evidence.way:
        seconds[NETWORK] = evidence.way
    if evidence.inner:
        seconds["service"] -= evidence.inner
        seconds[INSIDE] = evidence.inner
    return {cause: part / total for cause, part in seconds.items()}


def verdict(
    means: dict[str, float],
    tail_means: dict[str, float],
    p99: float,
    requests: int,
    slo: float = SLO,
    coverage: Coverage = NOTHING_MORE,
    evidence: tuple[Evidence, Evidence] = (NO_EVIDENCE, NO_EVIDENCE),
    directives: Directives | None = None,
    waits: tuple[Waits, Waits] = (NO_WAITS, NO_WAITS),
    alternative: str = "",
) -> Verdict:
    """Judge a split.

    Args:
        means: component -> seconds, averaged over all requests.
        tail_means: the same, averaged over the requests at and above p99.
        p99: p99 of the response time, s.
        requests: number of requests.
        slo: a p99 below this, with little queueing and little unknown time, is healthy, s.
        coverage: what is known of the requests of each backend.
        evidence: of all requests, and of those at and above p99.
        directives: phase -> the directives of nginx's configuration that delay it, as from
            ``sojourn.nginx.delays.delaying_directives``; None: the configuration is not known.
        waits: of all requests, and of those at and above p99; without any, all waits are known.
        alternative: what else the times may be, as in ``sojourn.model.frame.LogFacts``; empty without a doubt.
    """
    shares, tail = cause_shares(means, evidence[0]), cause_shares(tail_means, evidence[1])
    cause, tail_cause = _cause(means, evidence[0]), _cause(tail_means, evidence[1])
    mean = sum(means.values())
    doubt = f" ({alternative})" if alternative else ""
    if coverage.of_app:
        return Verdict("unknown", _of_app(coverage, waits[0]), "unknown")
    if coverage.distrusted:
        return Verdict("unknown", _distrusted(coverage), "unknown")
    most = max(shares, key=lambda each: abs(shares[each]))
    if abs(shares[most]) > POSSIBLE and mean > 0:
        average = f"{_time(mean)} on average{doubt}"
        return Verdict("unknown", _impossible(shares[most], average, WORDS[most]), tail_cause)
    has_unknown = _has_unknown(waits[0], mean)
    # Unknown time may be queueing.
    queueing = shares["queueing"] + unknown_share(means, evidence[0])
    if p99 <= slo and queueing <= HEALTHY_QUEUEING and cause in ("service", "mixed", "queueing", INSIDE, NETWORK):
        took = f"99 % of {counted(requests, 'request')} took at most" if requests > 1 else "the only request took"
        waited = _waited(shares["queueing"], waits[0] if has_unknown else NO_WAITS, mean, evidence[0])
        inside = f", waiting inside the app {_percent(shares[INSIDE])} (inferred)" if evidence[0].inner else ""
        within = "" if evidence[0].inner else "within the app, and "
        sentence = (
            f"Healthy: {took} {_time(p99)}{doubt}, and {waited}{inside}. Waits {within}before the proxy reads a "
            f"request{'' if evidence[0].inner else ','} are not in the log."
        )
        return Verdict("healthy", sentence, tail_cause)
    seconds = shares.get(cause, 0.0) * mean
    large = _is_most(evidence[0].large, cause, seconds)
    if _is_most(evidence[0].limited, cause, seconds):
        detail = f". Most of that is in requests that {_directives((), directives, 'limited') or LIMIT} delayed."
    elif large and cause in DELAYS:
        detail = f". {_of_large(cause, directives)}"
    elif cause in OF_CLIENT:
        detail = f": {_candidates(cause, directives)}."
    else:
        detail = "."
    words = words_of(means, evidence[0], _directives((), directives, "locked") or LOCK)
    final_cause = CLIENT if large and cause in OF_CLIENT else cause
    average = f"{_time(mean)} on average{doubt}"
    sentence = _opening(cause, shares, average, words, OPENINGS.get(final_cause, "")) + detail
    if cause == "unknown":
        return Verdict(cause, sentence + _unknown_time(means, coverage, evidence[0]), tail_cause)
    if tail_cause not in {cause, "mixed"}:
        sentence += (
            f" The slowest 1 % are different: {_percent(tail[tail_cause])} of their time went "
            f"{words_of(tail_means, evidence[1])[tail_cause]}."
        )
    else:
        sentence += f" Of the slowest 1 % ({_time(p99)} and more), {_of_slowest(tail, waits[1], tail_means)}."
    if has_unknown:
        sentence += f" The wait of {waits[0].missing:,} of {counted(waits[0].requests, 'request')} is unknown."
    return Verdict(final_cause, sentence, tail_cause)


def _waited(share: float, waits: Waits, mean: float, evidence: Evidence) -> str:
    """Return what waiting was of the time, of the requests whose wait is known where ``waits`` has others."""
    waiting = "waiting for a worker or in a cache lock" if any(evidence.locked.values()) else WORDS["queueing"]
    if not waits.missing or not waits.measured_seconds:
        return f"{waiting} was {_percent(share)} of it"
    return f"{waiting} was {_percent(share * mean / waits.measured_seconds)} of it{_of_known(waits)}"


def _of_slowest(tail: Mapping[str, float], waits: Waits, means: Mapping[str, float]) -> str:
    """Return what was queueing of the slowest requests."""
    inside = f" and {_percent(tail[INSIDE])} waiting inside the app" if tail.get(INSIDE) else ""
    if not _has_unknown(waits, sum(means.values())):
        return f"{_percent(tail['queueing'])} was queueing{inside}"
    if waits.share is None:
        return "the wait is unknown"
    return f"{_percent(waits.share)} was queueing{_of_known(waits)}{inside}"


def _has_unknown(waits: Waits, mean: float) -> bool:
    """Return whether requests with an unknown wait are more than a few, or took more than a little of the time."""
    unknown = mean - waits.measured_seconds
    return waits.missing > MENTIONED * waits.requests or (waits.missing > 0 and unknown > MENTIONED * mean)


def _of_known(waits: Waits) -> str:
    return f" (of the {waits.known:,} of {counted(waits.requests, 'request')} whose wait is known)"


def _of_app(coverage: Coverage, waits: Waits) -> str:
    total = coverage.total
    if total.of_app == total.answered:
        return (
            "Unknown: the log is the app server's own, and the wait before it is not in it. Read the proxy's log "
            "instead; --app-log joins this log to it."
        )
    share = waits.share
    of_others = "" if share is None else f" Of the time of the others, {_percent(share)} was queueing."
    return (
        f"Unknown: {total.of_app:,} of {counted(total.answered, 'answer')} are from an app server's own log, and the "
        f"wait before it is not in it.{of_others} Read the proxy's log alone; --app-log joins the app server's to it."
    )


def unknown_share(means: Mapping[str, float], evidence: Evidence = NO_EVIDENCE) -> float:
    """Return the share of unknown time in the response time, without the part that a network explains."""
    unknown = means.get("unattributed", 0.0) + means.get("redirected", 0.0)
    unknown += max(means.get("network", 0.0) - NETWORK_GAP, 0.0)
    return (unknown + evidence.redirects + evidence.way_in_doubt) / (sum(means.values()) or 1.0)


def queueing_seconds(means: Mapping[str, float]) -> float:
    """Return the seconds of queueing in seconds by component."""
    return sum(means[part] for part in CAUSES["queueing"])


def _is_most(part: Mapping[str, float], cause: str, seconds: float) -> bool:
    """Return whether a part of the evidence has more than half of the seconds of a cause."""
    return part.get(cause, 0.0) > seconds / 2 > 0


def _cause(means: dict[str, float], evidence: Evidence) -> str:
    """Return the cause with the most known seconds; "unknown" if unknown time could change the answer."""
    shares = {**cause_shares(means, evidence), "unknown": unknown_share(means, evidence)}
    top = max(shares, key=lambda cause: shares[cause])
    if shares[top] >= CAUSE_SHARE:
        return top
    return "unknown" if shares["unknown"] > HEALTHY_QUEUEING else "mixed"


def words_of(means: dict[str, float], evidence: Evidence = NO_EVIDENCE, lock: str = LOCK) -> dict[str, str]:
    """Return where the time of each cause went, in words; of queueing, its largest kind. ``lock``: a directive."""
    proxy, connect, queue = (means.get(part, 0.0) for part in CAUSES["queueing"])
    words = dict(WORDS)
    if evidence.way_in_doubt > means.get("unattributed", 0.0) + means.get("network", 0.0):
        words["unknown"] = "on the way to a backend or in its queue: its clock is not known well enough to say which"
    elif evidence.redirects + means.get("redirected", 0.0) > means.get("unattributed", 0.0) + means.get("network", 0.0):
        words["unknown"] = REDIRECTED
    if math.fsum(evidence.locked.values()) > proxy + connect + queue:
        words["queueing"] = f"waiting in nginx for another request to fill the cache ({lock})"
    elif proxy > connect + queue:
        words["queueing"] = "waiting, most of it in the proxy's own queue"
    elif connect > queue:
        words["queueing"] = "waiting, most of it for a connection to the app"
    return words


def _impossible(share: float, average: str, words: str) -> str:
    return (
        f"Unknown: of {average}, {share * 100:,.0f} % would have gone {words}. Either a clock "
        "was set while requests were under way, or nginx's and the app's do not agree. Percentiles up to p90 may still "
        "hold."
    )


def _distrusted(coverage: Coverage) -> str:
    return (
        f"Unknown: {coverage.total.impossible:,} of {counted(coverage.reported, 'reported queueing delay')} "
        f"{'is' if coverage.total.impossible == 1 else 'are'} longer than the responses that contain them. The stamps "
        "are forged, a clock was set while requests were under way, or something held nginx between the stamp and the "
        "app, such as a resolver; the other delays are not reliable either."
    )


def _unknown_time(means: dict[str, float], coverage: Coverage, evidence: Evidence) -> str:
    """Return where the unknown time was spent, and what the rest of the time was."""
    sentence = ""
    if coverage.total.incomplete:
        sentence += f" No service time came from {coverage.incomplete_backends()}."
    if coverage.unanswered:
        sentence += f" {counted(coverage.unanswered, 'request')} to an app had no answer."
    rest = {name: value for name, value in means.items() if name not in CAUSES["unknown"]}
    rest["queue"] = rest.get("queue", 0.0) - evidence.way_in_doubt
    if rest["queue"] or rest.get("service_time"):
        shares = cause_shares(rest)
        sentence += (
            f" Of the known time, {_percent(shares['queueing'])} went {words_of(means)['queueing']} and "
            f"{_percent(shares['service'])} {WORDS['service']}."
        )
    return sentence


def _opening(cause: str, shares: dict[str, float], average: str, words: dict[str, str], opening: str) -> str:
    """Return the sentence up to what it is about, without its full stop."""
    if cause == "mixed":
        first, second = sorted(shares, key=lambda c: -shares[c])[:2]
        return (
            f"{OPENING_OF_MIXED}: of {average}, {_percent(shares[first])} went {words[first]} and "
            f"{_percent(shares[second])} {words[second]}"
        )
    return f"{opening}: of {average}, {_percent(shares[cause])} went {words[cause]}"


def _candidates(cause: str, directives: Directives | None) -> str:
    """Return what a phase may be."""
    if directives is not None and not directives.get(cause):
        return f"{OF_CLIENT[cause]}; no directive of the configuration delays it"
    return f"{OF_CLIENT[cause]}, or {_directives(DELAYS[cause], directives, cause)} delayed it"


def _of_large(cause: str, directives: Directives | None) -> str:
    """Return what a phase is that lies mostly in large messages."""
    delays = _directives(DELAYS[cause], directives, cause)
    if cause == "before":
        unless = f", unless {delays} delays them" if delays else ""
        return f"Most of that is in requests of 8 kB and more: the client's upload{unless}."
    if cause == "after":
        unless = f", unless {delays} delays them" if delays else ""
        return f"Most of that is in answers of 8 kB and more: the client reads them{unless}."
    if cause == "body":
        or_client = (
            f", or, with {delays}{' or behind HAProxy' if directives is None else ''}, the client reads them slowly"
            if delays
            else ""
        )
        return f"Most of that is in answers of 8 kB and more: the app produces them{or_client}."
    waits = f"with {delays} the app waits for their upload there" if delays else "nginx has read them before"
    return f"Most of that is in requests of 8 kB and more: {waits}."


def _directives(possible: Sequence[str], directives: Directives | None, phase: str) -> str:
    """Return the directives that delay a phase, or the possible ones, where no configuration is known."""
    names = [*(possible if directives is None else directives.get(phase, ()))]
    if directives is not None and len(names) > MOST_DIRECTIVES + 1:
        names[MOST_DIRECTIVES:] = [f"{len(names) - MOST_DIRECTIVES} more"]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _percent(share: float) -> str:
    return f"{formatted(share * 100, '.0f')} %" if share >= 0.01 or share <= 0 else "under 1 %"


def _time(seconds: float) -> str:
    return f"{formatted(seconds * 1000, '.0f')} ms" if seconds < 1 else f"{formatted(seconds, '.2f')} s"
