"""The verdict in one sentence: queue, code, client or retries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.model.coverage import Coverage
from sojourn.model.formatting import counted, formatted

SLO = 0.5  # s, p99, default
NETWORK_GAP = 0.010  # s: a gap between the bounds of a clock offset that a network and a clock's resolution may explain
CAUSE_SHARE = 0.6  # of all seconds: below this no single cause is named
POSSIBLE = 1.5  # of all seconds: more than this in one cause, the others taking it away again, is no time that passed
HEALTHY_QUEUEING = 0.2  # share of queueing, and of unknown time, that a fast service may have and still be healthy

CAUSES = {
    "queueing": ("proxy_queue", "connect", "queue"),
    "service": ("service_time",),
    "client": ("upload", "send", "transfer"),
    "retries": ("retries",),
    "unknown": ("unattributed", "network"),
}
NOTHING_MORE = Coverage(())
WORDS = {
    "queueing": "waiting for a worker",
    "service": "in the app's own code",
    "client": "on the way from and to the client",
    "retries": "in attempts that failed",
    "unknown": "where the app did not report what it did",
}


@dataclass(frozen=True)
class Verdict:
    """``cause`` is queueing, service, mixed, client, retries, unknown or healthy.

    ``tail_cause``: the same of the slowest 1 %.
    """

    cause: str
    sentence: str
    tail_cause: str

    def to_dict(self) -> dict[str, str]:
        """Return the ``verdict`` object of the JSON output."""
        return {"cause": self.cause, "sentence": self.sentence, "tail_cause": self.tail_cause}


def cause_shares(means: dict[str, float]) -> dict[str, float]:
    """Return the share of the response time by cause, from component means over all requests; the sum is 1."""
    total = sum(means.values()) or 1.0
    return {cause: sum(means.get(part, 0.0) for part in parts) / total for cause, parts in CAUSES.items()}


def verdict(
    means: dict[str, float],
    tail_means: dict[str, float],
    p99: float,
    requests: int,
    slo: float = SLO,
    known: Coverage = NOTHING_MORE,
) -> Verdict:
    """Judge a split.

    Args:
        means: component -> seconds, averaged over all requests.
        tail_means: the same, averaged over the requests at and above p99.
        p99: p99 of the response time, s.
        requests: number of requests.
        slo: a p99 below this, with little queueing and little unknown time, is healthy, s.
        known: what is known of the requests of each backend.
    """
    shares, tail = cause_shares(means), cause_shares(tail_means)
    cause, tail_cause = _cause(means), _cause(tail_means)
    mean = sum(means.values())
    if known.distrusted:
        return Verdict("unknown", _distrusted(known), "unknown")
    most = max(shares, key=lambda each: abs(shares[each]))
    if abs(shares[most]) > POSSIBLE and mean > 0:
        return Verdict("unknown", _impossible(shares[most], mean, WORDS[most]), tail_cause)
    # Unknown time may be queueing.
    queueing = shares["queueing"] + unknown_share(means)
    if p99 <= slo and queueing <= HEALTHY_QUEUEING and cause in ("service", "mixed", "queueing"):
        took = f"99 % of {counted(requests, 'request')} took at most" if requests > 1 else "the only request took"
        sentence = f"Healthy: {took} {_time(p99)}, and waiting for a worker was {_percent(shares['queueing'])} of it."
        return Verdict("healthy", sentence, tail_cause)
    sentence = _opening(cause, shares, mean, words_of(means))
    if cause == "unknown":
        return Verdict(cause, sentence + _what_is_known(means, known), tail_cause)
    if tail_cause not in {cause, "mixed"}:
        sentence += (
            f" The slowest 1 % are different: {_percent(tail[tail_cause])} of their time went "
            f"{words_of(tail_means)[tail_cause]}."
        )
    else:
        sentence += f" Of the slowest 1 % ({_time(p99)} and more), {_percent(tail['queueing'])} was queueing."
    return Verdict(cause, sentence, tail_cause)


def unknown_share(means: dict[str, float]) -> float:
    """Return the share of unknown time in the response time, without the part that a network explains."""
    unknown = means.get("unattributed", 0.0) + max(means.get("network", 0.0) - NETWORK_GAP, 0.0)
    return unknown / (sum(means.values()) or 1.0)


def queueing_share(means: dict[str, float]) -> float | None:
    """Return the share of queueing in the response time; None if no app is known or no time passed."""
    total = math.fsum(means.values())
    known = means["proxy_queue"] or means["queue"] or means["service_time"]
    silent = means["unattributed"] > 0 and not known
    return queueing_seconds(means) / total if total > 0 and not silent else None


def queueing_seconds(means: Mapping[str, float]) -> float:
    """Return the seconds of queueing in seconds by component."""
    return sum(means[part] for part in CAUSES["queueing"])


def _cause(means: dict[str, float]) -> str:
    """Return the cause with the most known seconds; "unknown" if unknown time could change the answer."""
    shares = {**cause_shares(means), "unknown": unknown_share(means)}
    top = max(shares, key=lambda cause: shares[cause])
    if shares[top] >= CAUSE_SHARE:
        return top
    return "unknown" if shares["unknown"] > HEALTHY_QUEUEING else "mixed"


def words_of(means: dict[str, float]) -> dict[str, str]:
    """Return where the time of each cause went, in words; of queueing, its largest kind."""
    proxy, connect, queue = (means.get(part, 0.0) for part in CAUSES["queueing"])
    if proxy > connect + queue:
        return {**WORDS, "queueing": "waiting, most of it in the proxy's own queue"}
    if connect > queue:
        return {**WORDS, "queueing": "waiting, most of it for a connection to the app"}
    return WORDS


def _impossible(share: float, mean: float, words: str) -> str:
    return (
        f"Unknown: of {_time(mean)} on average, {share * 100:,.0f} % would have gone {words}. Either a clock "
        "was set while requests were under way, or nginx's and the app's do not agree. Percentiles up to p90 may still "
        "hold."
    )


def _distrusted(known: Coverage) -> str:
    return (
        f"Unknown: {known.total.impossible:,} of {counted(known.reported, 'reported queueing delay')} "
        f"{'is' if known.total.impossible == 1 else 'are'} longer than the responses that contain them. The stamps are "
        "forged, or a clock was set while requests were under way; the other delays are not reliable either."
    )


def _what_is_known(means: dict[str, float], known: Coverage) -> str:
    """Return where the unknown time was spent, and what the rest of the time was."""
    sentence = ""
    if known.total.incomplete:
        sentence += f" No service time came from {known.incomplete_backends()}."
    if known.unanswered:
        sentence += f" {counted(known.unanswered, 'request')} to an app had no answer."
    rest = {name: value for name, value in means.items() if name not in CAUSES["unknown"]}
    if rest.get("queue") or rest.get("service_time"):
        shares = cause_shares(rest)
        sentence += (
            f" Of the known time, {_percent(shares['queueing'])} went {words_of(means)['queueing']} and "
            f"{_percent(shares['service'])} {WORDS['service']}."
        )
    return sentence


def _opening(cause: str, shares: dict[str, float], mean: float, words: dict[str, str]) -> str:
    if cause == "mixed":
        first, second = sorted(shares, key=lambda c: -shares[c])[:2]
        return (
            f"No single cause: of {_time(mean)} on average, {_percent(shares[first])} went {words[first]} and "
            f"{_percent(shares[second])} {words[second]}."
        )
    beginning = {
        "queueing": "It is a queue, not the code",
        "service": "It is the code, not a queue",
        "client": "It is neither the queue nor the code, but the client",
        "retries": "It is the retries",
        "unknown": "Unknown",
    }[cause]
    return f"{beginning}: of {_time(mean)} on average, {_percent(shares[cause])} went {words[cause]}."


def _percent(share: float) -> str:
    return f"{formatted(share * 100, '.0f')} %" if share >= 0.01 or share <= 0 else "under 1 %"


def _time(seconds: float) -> str:
    return f"{formatted(seconds * 1000, '.0f')} ms" if seconds < 1 else f"{formatted(seconds, '.2f')} s"
