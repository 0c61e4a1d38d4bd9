"""Queueing delay from the metrics of ``sojourn export``: objectives, composition, load, routes, the measurement."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.builders.dashboard import Dashboard

from sojourn_dashboards import prometheus_queries as queries
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import heat, joined, lines, to_requests
from sojourn_dashboards.prometheus import group_variables
from sojourn_dashboards.prometheus_measurement_panels import measurement_panels
from sojourn_dashboards.promql import QUEUEING, RESPONSE, SERVICE

ITSELF = "/d/sojourn-prometheus/queueing-delay-prometheus"
NO_OBJECTIVE = "no objective is configured, or no request in this range"
NO_WORKERS = "the number of workers is not known: neither --workers nor a worker in the log"
NO_STATUS = "no exporter is configured with --status"
NO_UPSTREAM = "no queueing delay is known in this range"


def prometheus() -> Dashboard:
    """Return the dashboard with uid ``sojourn-prometheus``."""
    board = dashboard(
        "sojourn-prometheus",
        "Queueing delay (Prometheus)",
        "Is it the queue or the code? The metrics of sojourn export, from Prometheus.",
        group_variables(),
    )
    for title, panels in (
        ("Objectives", _objectives()),
        ("Where the time goes", _composition()),
        ("Load and workers", _load()),
        ("Routes and backends", _routes()),
        ("Retries and abandoned requests", _losses()),
        ("The measurement", measurement_panels()),
    ):
        add_row(board, title, *panels)
    return board


def _objectives() -> list[Any]:
    return [
        joined(
            ("service", "objective"),
            queries.OBJECTIVES,
            "Objectives now",
            "Each objective of each service: its threshold, the share of requests that should meet it, the share "
            "that did, and the burn rate. At burn rate 1 the error budget of 30 days lasts 30 days.",
            "none",
            empty=NO_OBJECTIVE,
            width=24,
            height=7,
            units={
                "threshold": "s",
                "wanted": "percentunit",
                "met in 1 h": "percentunit",
                "met in 6 h": "percentunit",
            },
        ),
        lines(
            queries.MET,
            "Objective met",
            "Share of the requests to which an objective applies that met it.",
            "percentunit",
            empty=NO_OBJECTIVE,
        ),
        lines(
            queries.BURN_RATES,
            "Burn rate",
            "Share of requests that missed the objective over the share that may. A page needs 14.4 in 1 h and in "
            "5 min, or 6 in 6 h and in 30 min (The Site Reliability Workbook, 2018, chapter 5).",
            "none",
            empty=NO_OBJECTIVE,
        ),
    ]


def _composition() -> list[Any]:
    definitions = {
        RESPONSE: ("Response time", "from the first byte nginx read to the last it wrote"),
        QUEUEING: ("Queueing delay", "from nginx asking the backend to a worker beginning"),
        SERVICE: ("Service time", "from a worker beginning to its response headers"),
    }
    return [
        lines(
            queries.COMPOSITION,
            "Mean response time, split",
            "By what it went to, averaged over the requests that ended in the interval. The parts add up to the "
            "response time. Everything else is network, transfer, sending, and what the app did not report.",
            "s",
            links={"": to_requests()},
            stacked=True,
        ),
        lines(
            queries.QUEUEING_SHARE,
            "Share over time",
            "Seconds waited for a worker as a share of all seconds of response time, of the requests that ended in "
            "the interval.",
            "percentunit",
            links={"": to_requests()},
        ),
        *(
            lines(
                queries.quantiles(histogram),
                title,
                f"Quantiles, {meaning}; interpolated within the buckets of the histogram. A point is one request: "
                "it links to One request.",
                "s",
                width=8,
                links={"": to_requests()},
            )
            for histogram, (title, meaning) in definitions.items()
        ),
        heat(
            queries.HEATMAP,
            "Oranges",
            "Queueing delay, heatmap",
            "Requests by the time of their end and by the bucket of their queueing delay. Negative delays are in "
            "the lowest bucket.",
            "s",
            width=24,
        ),
    ]


def _load() -> list[Any]:
    return [
        lines(
            queries.CONCURRENCY,
            "Requests and workers",
            "Requests waiting and in service, mean over the exporter's state window, and the workers. By Little's "
            "law: seconds of queueing delay per second, of the requests that ended (Little 1961).",
            "short",
        ),
        lines(
            queries.UTILISATION,
            "Utilisation and saturation",
            "Utilisation: busy workers over workers. Saturation: offered load, arrival rate times mean service "
            "time, over workers; at 1 or more the queue grows without limit (Erlang 1917).",
            "percentunit",
            empty=NO_WORKERS,
        ),
        lines(
            queries.SCALING,
            "Scaling",
            "What an autoscaler gets, and what follows, of all services chosen: offered load, requests in progress, "
            "workers, and workers needed by the method live, the largest over the objectives of each exporter, summed. "
            "On the right, the share of the requests that met the objective; of several objectives the lowest.",
            "short",
            empty=NO_WORKERS,
            units={queries.WITHIN: "percentunit"},
        ),
        lines(
            queries.WORKERS_NEEDED,
            "Workers needed",
            "Smallest number of workers that holds an objective: by arrivals counted when they arrive (live, with "
            "--status), by a replay of the recent requests, by Erlang C (1917), by the square-root rule (Halfin and "
            "Whitt 1981); beside the workers there are and the offered load.",
            "short",
            empty=NO_OBJECTIVE,
        ),
        lines(
            queries.LIVE_REFUSED,
            "Live refused",
            "1 while the exporter refuses the live number of workers needed, by reason. Autoscalers use the queueing "
            "delay then. Only with --status.",
            "none",
            empty=NO_STATUS,
            width=4,
        ),
        lines(
            queries.REFUSED,
            "Signal refused",
            "1 while the exporter refuses workers needed (all methods but live), saturation, offered load and time to "
            "drain, by reason: they would be computed from assumptions that the recent requests contradict. "
            "Utilisation is a lower bound then.",
            "none",
            empty=NO_OBJECTIVE,
            width=4,
        ),
        lines(
            queries.BOTTLENECK,
            "Bottleneck",
            "1 for the resource that saturates first: workers, cores or a dependency that services share, places "
            "of a pool inside the app. More workers help where it is workers.",
            "none",
            empty=NO_WORKERS,
            width=5,
        ),
        lines(
            queries.DRAIN,
            "Seconds to drain",
            "Time until the queue is empty at the recent rate of arrivals, the fluid approximation (Newell 1971). "
            f"Shown up to {queries.LONGEST} s, which also stands for a queue that does not shrink.",
            "s",
            empty=NO_WORKERS,
            width=5,
        ),
        lines(
            queries.FREE_WORKERS,
            "Waiting beside free workers",
            "Share of the last minute's waiting during which another backend, or the request's own, had a free "
            "worker: a matter of the balancer, or of how the backend distributes requests.",
            "percentunit",
            empty=NO_WORKERS,
            width=6,
        ),
    ]


def _routes() -> list[Any]:
    routes = joined(
        ("service", "route"),
        queries.ROUTES,
        "Top routes by queueing",
        "The 20 routes with most seconds of queueing in the range, with their requests, mean queueing delay, and "
        "queueing as a share of their response time.",
        "none",
        width=12,
        height=9,
        units={
            "queueing seconds": "s",
            "requests": "locale",
            "mean queueing": "s",
            "share of queueing": "percentunit",
        },
        links={
            "route": (
                "This route",
                ITSELF + "?${__url_time_range}&${service:queryparam}&var-route=${__value.raw:percentencode}",
            )
        },
    )
    return [
        routes.sort_by([common.TableSortByFieldState().display_name("queueing seconds").desc(True)]),
        lines(
            queries.BACKENDS,
            "Mean queueing delay by backend",
            "Of the requests that ended in the interval. One backend far above the others is an imbalance or a "
            "sick instance, not a lack of workers.",
            "s",
            empty=NO_UPSTREAM,
            height=9,
        ),
    ]


def _losses() -> list[Any]:
    return [
        lines(
            queries.STATUSES,
            "Responses by status",
            "Requests that ended per second. 499: the client disconnected; 504: nginx stopped waiting.",
            "reqps",
            links={"": to_requests()},
            stacked=True,
        ),
        lines(queries.RETRIES, "Retries", "Upstream attempts before the one that answered, per request.", "none"),
        lines(
            queries.ABANDONED,
            "Abandoned requests",
            "Requests per second that nginx (504) or the client (499) abandoned while an upstream had them, and "
            "all requests.",
            "reqps",
        ),
        lines(
            queries.LOST_WORKERS,
            "Time of abandoned requests",
            "Seconds per second, which is a number of requests or workers. Abandoned: they were at the upstream, "
            "waiting or in service. Wasted: workers were busy with them; known with the app's spans only.",
            "short",
            empty="no request was abandoned in this range",
        ),
    ]
