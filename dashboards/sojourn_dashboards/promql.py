"""Parts of PromQL that the recording rules, the alerts and the dashboard share.

A series may come from several exporters, each of which reads the logs of one nginx. Requests, seconds and offered load
add up over exporters; workers do not, because each exporter counts the same ones.
"""

from __future__ import annotations

RESPONSE, QUEUEING, SERVICE = (
    f"sojourn_{part}_seconds" for part in ("response_time", "queueing_delay", "service_time")
)
NEGATIVE_SECONDS = "sojourn_negative_queueing_delay_seconds_total"


def rate_of(counter: str, window: str, by: str = "service", where: str = "") -> str:
    """Return PromQL: the rate of a counter per second.

    Args:
        counter: name of the series.
        window: range of the rate, such as ``5m``.
        by: labels to keep, separated by commas; empty for none.
        where: label matchers, without braces.
    """
    return f"sum{_by(by)} (rate({counter}{_where(where)}[{window}]))"


def increase_of(counter: str, window: str, by: str = "service", where: str = "") -> str:
    """Return PromQL: the increase of a counter in the window; arguments as for ``rate_of``."""
    return f"sum{_by(by)} (increase({counter}{_where(where)}[{window}]))"


def or_zero(part: str, whole: str) -> str:
    """Return PromQL: ``part``, or 0 where ``whole`` exists without it: a counter that never counted may be absent."""
    return f"({part} or 0 * {whole})"


def share_of(part: str, whole: str) -> str:
    """Return PromQL: ``part`` over ``whole``; no sample where ``whole`` is 0, instead of NaN."""
    return f"{part} / ({whole} > 0)"


def quantile_of(histogram: str, quantile: float, window: str, by: str = "service", where: str = "") -> str:
    """Return PromQL: a quantile interpolated within the buckets of a histogram, s; no sample without requests."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({quantile}, {rate_of(f'{histogram}_bucket', window, labels, where)}) >= 0"


def exact_queueing_rate(window: str) -> str:
    """Return PromQL: seconds of queueing delay per second, negative delays subtracted.

    The histogram has negative delays in its lowest bucket and not in its sum, because a sum that decreases is read as
    a restart.
    """
    delays = rate_of(f"{QUEUEING}_sum", window)
    return f"{delays} - {or_zero(rate_of(NEGATIVE_SECONDS, window), delays)}"


def workers(by: str = "service", where: str = "") -> str:
    """Return PromQL: workers, each backend's counted once however many exporters count it."""
    return f"sum{_by(by)} (max by (service, upstream) (sojourn_workers{_where(where)}))"


def refused(where: str = "") -> str:
    """Return PromQL: 1 for a service whose signals are refused for some reason by some exporter, else 0."""
    return f"max by (service) (sojourn_signal_refused{_where(where)})"


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""


def _where(matchers: str) -> str:
    return f"{{{matchers}}}" if matchers else ""
