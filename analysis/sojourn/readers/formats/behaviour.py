"""Whether whole numbers without a name behave like durations, or like ports, counters, instants or lengths."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import correlation, median

FEWEST, MANY = 20, 50  # lines from which something follows, and from which the lack of evidence does
NEARLY_ALL = 0.95
PORTS = ((32_768, 60_999), (49_152, 65_535), (1_024, 65_535), (10_000, 65_535))
KOLMOGOROV = 1.63  # times 1/√n: a uniform sample is farther from it once in a hundred
LARGE = 100  # smaller medians are no counters: a count of seconds is 0 and 1 as well
SAME, DISTINCT = 0.9, 20
DAY_S = 86_400
STANDARD_ERRORS = 4.0
SKEW, SPREAD = 2.0, 0.1


@dataclass(frozen=True)
class Context:
    """What else a line has.

    Attributes:
        instant: its stamp, unix s; None: it has none.
        client: the address and the request, with referer and user agent: what the length of a request depends on.
        size: of the response, bytes.
    """

    instant: float | None
    client: str
    size: int


def not_a_duration(values: Sequence[int], lines: Sequence[Context]) -> str:
    """Return what whole numbers are rather than durations, as a clause; empty if they may be durations."""
    if _are_instants(values, lines):
        return "they are instants"
    # The same line over and over says nothing.
    if len(set(zip(values, lines, strict=True))) < FEWEST or not any(values):
        return ""
    if median(values) >= LARGE:
        if _is_counter(values):
            return "they hardly change, or only grow"
        if _are_ports(values):
            return "they are spread as the ports of clients are"
        if _are_lengths(values, lines):
            return "they depend on the client and the request alone"
    return "they depend on nothing that a duration depends on" if depends_on_nothing(values, lines) else ""


def depends_on_nothing(values: Sequence[int], lines: Sequence[Context]) -> bool:
    """Return whether nothing shows that whole numbers are durations, though there are enough of them to show it."""
    distinct = len(set(zip(values, lines, strict=True)))
    return len(values) >= MANY and distinct >= FEWEST and not _has_evidence(values, lines)


def _are_instants(values: Sequence[int], lines: Sequence[Context]) -> bool:
    for scale in (1, 1_000, 1_000_000):
        near = sum(
            line.instant is not None and abs(value / scale - line.instant) < DAY_S
            for value, line in zip(values, lines, strict=True)
        )
        if lines and near > NEARLY_ALL * len(values):
            return True
    return False


def _is_counter(values: Sequence[int]) -> bool:
    steps = [b - a for a, b in pairwise(values)]
    if sum(step >= 0 for step in steps) < NEARLY_ALL * len(steps):
        return False
    by_one = sum(step in (0, 1) for step in steps) >= SAME * len(steps)
    return by_one or max(values) - min(values) <= 0.1 * median(values)


def _are_ports(values: Sequence[int]) -> bool:
    if len(values) < MANY or len(set(values)) < SAME * len(values):
        return False
    ordered = sorted(values)
    count = len(ordered)
    for low, high in PORTS:
        if ordered[0] < low or ordered[-1] > high:
            continue
        shares = [(value - low) / (high - low) for value in ordered]
        farthest = max(max(abs(share - k / count), abs(share - (k + 1) / count)) for k, share in enumerate(shares))
        if farthest < KOLMOGOROV / math.sqrt(count):
            return True
    return False


def _are_lengths(values: Sequence[int], lines: Sequence[Context]) -> bool:
    by_client: dict[str, list[int]] = defaultdict(list)
    for value, line in zip(values, lines, strict=True):
        by_client[line.client].append(value)
    pairs = [(first, other) for first, *others in by_client.values() for other in others]
    same = sum(first == other for first, other in pairs)
    if len(pairs) >= FEWEST and len(set(values)) >= DISTINCT and same >= SAME * len(pairs):
        return True
    lengths = [len(line.client) for line in lines]
    longer = all(value > length for value, length in zip(values, lengths, strict=True))
    return longer and _correlation(values, lengths) > NEARLY_ALL


def _has_evidence(values: Sequence[int], lines: Sequence[Context]) -> bool:
    """Return whether numbers are skewed to the right, nearly constant, or depend on the line before or on the size."""
    ordered = sorted(values)
    low, middle, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.95))
    if high - middle > SKEW * (middle - low) or ordered[-1] > 4 * middle or high - low <= SPREAD * middle:
        return True
    enough = STANDARD_ERRORS / math.sqrt(len(values))
    ranks = _ranks(values)
    return _correlation(ranks[1:], ranks[:-1]) > enough or (
        enough < _correlation(ranks, _ranks([line.size for line in lines])) < NEARLY_ALL
    )


def _ranks(values: Sequence[int]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    for rank, k in enumerate(order):
        ranks[k] = float(rank)
    return ranks


def _correlation(values: Sequence[float], others: Sequence[float]) -> float:
    constant = len(set(values)) < 2 or len(set(others)) < 2
    return 0.0 if constant else correlation(values, others)
