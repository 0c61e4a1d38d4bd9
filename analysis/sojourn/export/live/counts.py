"""The counts of requests in an answer of nginx, of another proxy, or of the app: how many began, how many there are.

Sources: ngx_http_stub_status_module; ngx_http_api_module of NGINX Plus, and Angie's; Envoy's statistics of clusters;
the middleware's own gauge; PHP-FPM's status page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from sojourn.host.servers.answers import node_queue, php_fpm_queue

KINDS = (
    "nginx's stub_status, a server zone or http/requests of NGINX Plus, a server zone of Angie, Envoy's stats, "
    "the gauge requests_in_progress of Sojourn's middleware, or PHP-FPM's status in JSON"
)

_STUB = re.compile(
    r"Active connections: \d+ *\s+server accepts handled requests[^\n]*\s+"
    r"\d+ +\d+ +(?P<arrived>\d+)[^\n]*\s+Reading: \d+ +Writing: (?P<writing>\d+) +Waiting: \d+"
)
_ENVOY = re.compile(r"^cluster\..+\.upstream_rq_(?P<kind>active|total|pending_active): (?P<count>\d+)$", re.MULTILINE)
_ENVOY_SERIES = "envoy_cluster_upstream_rq_"
_GAUGES = ("requests_in_progress", "http_server_active_requests")


@dataclass(frozen=True)
class Count:
    """Requests at one instant.

    Attributes:
        arrived: that have begun so far; None: the source does not say it.
        in_progress: that have begun and not ended, without the query.
        has_query: whether the query itself is one of those that have begun.
        has_waiting: whether requests that wait for a worker are counted.
    """

    arrived: int | None
    in_progress: int
    has_query: bool = False
    has_waiting: bool = True


def count_of(text: str) -> Count:
    """Return the counts in an answer.

    Raises:
        ValueError: it is none of ``KINDS``.
    """
    if match := _STUB.search(text):
        return Count(int(match["arrived"]), max(int(match["writing"]) - 1, 0), has_query=True)
    stripped = text.lstrip()
    count = _of_json(stripped) if stripped.startswith("{") else _of_envoy(text) or _of_series(text)
    if count is None:
        raise ValueError("the answer is not one of " + KINDS)
    return count


def _of_json(text: str) -> Count | None:
    try:
        answer = msgspec.json.decode(text.encode(errors="replace"), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    readers = (count for key, count in _BY_KEY.items() if key in answer)
    return next(readers, lambda _answer, _text: None)(answer, text)


def _of_zone(answer: dict[str, Any], _text: str) -> Count | None:
    """Return the counts of a zone: NGINX Plus's has them side by side, Angie's in ``requests``."""
    requests = answer["requests"]
    if isinstance(requests, dict):
        return _counted(requests.get("total"), requests.get("processing"))
    return _counted(requests, answer.get("processing"))


def _of_all(answer: dict[str, Any], _text: str) -> Count | None:
    """Return the counts of NGINX Plus's ``http/requests``, of which the query is one."""
    count = _counted(answer.get("total"), answer["current"])
    return count and Count(count.arrived, max(count.in_progress - 1, 0), has_query=True)


def _of_node(_answer: dict[str, Any], text: str) -> Count:
    return Count(None, node_queue(text).busy or 0, has_waiting=False)


def _of_fpm(_answer: dict[str, Any], text: str) -> Count:
    """Return the counts of PHP-FPM, whose page has a process of its own (``pm.status_listen``)."""
    queue = php_fpm_queue(text)
    return Count(None, (queue.busy or 0) + (queue.waiting or 0), has_waiting=queue.waiting is not None)


_BY_KEY = {"sojourn": _of_node, "listen queue": _of_fpm, "requests": _of_zone, "current": _of_all}


def _counted(arrived: Any, in_progress: Any) -> Count | None:
    if type(arrived) is not int or type(in_progress) is not int or min(arrived, in_progress) < 0:
        return None
    return Count(arrived, in_progress)


def _of_envoy(text: str) -> Count | None:
    kinds: dict[str, int] = {}
    for match in _ENVOY.finditer(text):
        kinds[match["kind"]] = kinds.get(match["kind"], 0) + int(match["count"])
    return _of_clusters(kinds)


def _of_clusters(kinds: dict[str, int]) -> Count | None:
    """Return the counts of Envoy's clusters: a request that waits for a connection is not active yet."""
    if "active" not in kinds:
        return None
    waiting = kinds.get("pending_active", 0)
    return Count(kinds["total"] + waiting if "total" in kinds else None, kinds["active"] + waiting)


def _of_series(text: str) -> Count | None:
    """Return the counts of an exposition of Prometheus, summed over its series."""
    kinds: dict[str, int] = {}
    gauges: dict[str, int] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith(_ENVOY_SERIES):
                    kind = sample.name.removeprefix(_ENVOY_SERIES)
                    kinds[kind] = kinds.get(kind, 0) + int(sample.value)
                elif sample.name.endswith(_GAUGES):
                    gauges[sample.name] = gauges.get(sample.name, 0) + int(sample.value)
    except (ValueError, OverflowError):
        return None
    if (clusters := _of_clusters(kinds)) is not None:
        return clusters
    # Of two names for the same requests, one counts.
    return Count(None, max(*gauges.values(), 0), has_waiting=False) if gauges else None
