"""The signals: requests in flight from nginx, and what `sojourn export` publishes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from itertools import pairwise
from urllib.parse import urlsplit

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from sojourn_lab.errors import LabError

STATUS_PATH = "/lab-status"
STATUS_LOCATION = f"""
        location = {STATUS_PATH} {{
            stub_status;
            access_log off;
        }}
"""
"""nginx's own counters, for the server block."""

DELAY, NEEDED = "sojourn_queueing_delay_seconds", "sojourn_workers_needed"
AS_OF, REFUSED = "sojourn_state_timestamp_seconds", "sojourn_live_refused"
IN_PROGRESS = "sojourn_requests_in_progress"
METHOD, LIVE_METHOD = "replay", "live"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

TIMEOUT = 1.0
"""Seconds that one request for a signal may take; without an answer the look has no value."""


@dataclass(frozen=True)
class Scrape:
    """What one scrape of the exporter holds of the case.

    Attributes:
        delays: cumulative counts of the queueing delay's histogram, by upper bound, s.
        needed: workers needed, by the replay of the log; None: no value yet.
        as_of: the instant that it is as of, unix s; None: no value yet.
        live: workers needed, by the count of the requests that have arrived; None: it is absent.
        refused: why it is absent; empty: no reason is published.
        in_progress: requests in progress, from which it is computed; None: it is absent.
    """

    delays: Mapping[float, float]
    needed: float | None
    as_of: float | None = None
    live: float | None = None
    refused: str = ""
    in_progress: float | None = None


def fetched(url: str) -> str | None:
    """Return the text at a URL; None without an answer."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT)
    try:
        connection.request("GET", parts.path, headers={"Accept": OPENMETRICS})
        answer = connection.getresponse()
        text = answer.read().decode()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    return text if answer.status == 200 else None


def requests_in_flight(status: str) -> int:
    """Return the requests in nginx by the text of `stub_status`, without the one that reads it.

    Raises:
        LabError: the text is not that of `stub_status`.
    """
    match = re.search(r"Writing: (\d+)", status)
    if match is None:
        raise LabError(f"stub_status of nginx does not show the requests in flight: {status[:80]!r}")
    return max(0, int(match[1]) - 1)


def scrape_of(text: str, service: str) -> Scrape:
    """Return what an exposition (OpenMetrics) holds of one service.

    Raises:
        LabError: the text is no exposition.
    """
    delays: dict[float, float] = {}
    needed = as_of = live = in_progress = None
    refused = ""
    try:
        for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
            if family.name not in (DELAY, NEEDED, AS_OF, REFUSED, IN_PROGRESS):
                continue
            for sample in family.samples:
                if sample.labels.get("service") != service:
                    continue
                if sample.name == f"{DELAY}_bucket":
                    bound = float(sample.labels["le"])
                    delays[bound] = delays.get(bound, 0.0) + sample.value
                elif sample.name == NEEDED and sample.labels.get("method") == METHOD:
                    needed = sample.value
                elif sample.name == NEEDED and sample.labels.get("method") == LIVE_METHOD:
                    live = sample.value
                elif sample.name == IN_PROGRESS:
                    in_progress = sample.value
                elif sample.name == REFUSED and sample.value == 1.0:
                    refused = sample.labels.get("reason", "")
                elif sample.name == AS_OF:
                    as_of = sample.value
    except ValueError as error:
        raise LabError(f"the exporter's metrics cannot be read: {error}") from None
    return Scrape(delays, needed, as_of, live, refused, in_progress)


def quantile_between(before: Mapping[float, float], after: Mapping[float, float], share: float) -> float | None:
    """Return a quantile of what was counted between two scrapes of a histogram, in its unit; None if nothing was.

    Linear within the bucket; in the last one its lower bound, as Prometheus's `histogram_quantile` does.
    """
    bounds = sorted(after)
    counts = [after[bound] - before.get(bound, 0.0) for bound in bounds]
    if not counts or counts[-1] <= 0.0:
        return None
    rank = share * counts[-1]
    return _at_rank(bounds, counts, rank)


def _at_rank(bounds: Sequence[float], counts: Sequence[float], rank: float) -> float:
    """Return the value at a rank of cumulative counts."""
    if counts[0] >= rank:
        return bounds[0] * rank / counts[0]
    for (low, below), (high, count) in pairwise(zip(bounds, counts, strict=True)):
        if count >= rank:
            return low if math.isinf(high) else low + (high - low) * (rank - below) / (count - below)
    return bounds[-1]
