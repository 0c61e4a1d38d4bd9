"""Format figures with their units, which the last step of the metric's path determines."""

from __future__ import annotations

import re

from sojourn.model.formatting import formatted, percent, three_digits

SECONDS = {
    "mean", "p50", "p90", "p95", "p99", "p999", "max", "predicted", "before", "after", "seconds", "seconds_to_first",
    "service_time", "queueing_delay", "response_time", "imbalance_mean", "identity_max_error", "wasted", "self",
    "queueing", "centred_p99", "queue_p99_apart",
}  # fmt: skip
"""Last steps of paths to durations."""
UNITS = {"µs": 1e6, "ms": 1e3, "s": 1.0}
STATED = re.compile(r"\d (µs|ms|s)\b")
ABSENT = "–"


def metric_text(metric: str, values: list[float | None], name: str = "") -> str:
    """Return the smallest and the largest figure of one metric, in one unit.

    Args:
        metric: path to the figures.
        values: the figures; without any, a dash is returned.
        name: the criterion; a unit in its name is used, such as ms of `mean connect under 2 ms`.
    """
    figures = [value for value in values if value is not None]
    if not figures:
        return ABSENT
    low, high = min(figures), max(figures)
    step = metric.rpartition(".")[2]
    if step.endswith("share") or step == "moved":
        texts, unit = [percent(value).removesuffix(" %") for value in (low, high)], " %"
    elif step in SECONDS:
        stated = STATED.search(name)
        chosen = stated[1] if stated else "s" if max(abs(low), abs(high)) >= 0.9995 else "ms"
        texts, unit = [three_digits(value * UNITS[chosen]) for value in (low, high)], f" {chosen}"
    else:
        texts, unit = [_number(value) for value in (low, high)], ""
    return " to ".join(dict.fromkeys(texts)) + unit


def _number(value: float) -> str:
    """Return a number without an exponent, with four significant digits."""
    return formatted(value, ",.0f") if abs(value) >= 1000 or value == round(value) else formatted(value, ".4g")
