"""Explained: which routes caused the waiting, wasted work, and the load against capacity."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from sojourn_dashboards.explain_queries import (
    AGAINST_CAPACITY,
    BLAME_OVER_TIME,
    CULPRITS,
    HELD_OVER_TIME,
    PAIRS,
    SATURATION,
    SHARE_OF_CAPACITY,
    THROUGHPUT_BY_CONCURRENCY,
    UNKNOWN_WORK,
    WAIT_BY_UTILISATION,
    WASTED_OVER_TIME,
    WASTED_ROUTES,
)
from sojourn_dashboards.filters import box, rollup_variables
from sojourn_dashboards.frame import add_row, dashboard
from sojourn_dashboards.panels import against, columns, lines, number, to_requests

NOT_EXPLAINED = "no waiting in this range, or it is not explained yet: run sojourn store explain"
NOT_HELD = "no minute of this range is explained yet: run sojourn store explain"
NO_CAPACITY = "no capacity is known: enter one above, or store it with sojourn store capacity"
NOTHING_WASTED = "no request with a span was given up in this range"
DISTRIBUTIONS = "/d/sojourn-distributions/distributions?${__url_time_range}&${service:queryparam}"


def explain() -> Dashboard:
    """Return the dashboard with uid ``sojourn-explain``."""
    capacity = box(
        "capacity",
        "Capacity, requests/s",
        "Requests/s at which a service's objective breaks, as from sojourn capacity. Empty: the value in the store.",
    )
    board = dashboard(
        "sojourn-explain",
        "Explained",
        "Which routes caused the waiting, how much work was wasted, and how close the load is to capacity.",
        [*rollup_variables(), capacity],
    )
    _blame(board)
    _wasted(board)
    _saturation(board)
    return board


def _blame(board: Dashboard) -> None:
    add_row(
        board,
        "Causes of waiting",
        lines(
            BLAME_OVER_TIME,
            "Waiting by cause",
            "Seconds waited in the interval, by the route that held the workers; the ten with most. "
            "(imbalance): another backend had a free worker. (dispatch): its own backend had one. The sum is the "
            "measured queueing of the waits that ended in the interval. The route filter selects waiting requests.",
            "s",
            empty=NOT_EXPLAINED,
            links={"": to_requests()},
            bars=True,
        ),
        lines(
            HELD_OVER_TIME,
            "Workers held by phase",
            "Seconds for which workers were held in the interval: reading the request, service until the headers, "
            "sending the body, work after the answer. (at least): more may have held them than the log shows. Of "
            "all routes.",
            "s",
            empty=NOT_HELD,
            bars=True,
        ),
        columns(
            CULPRITS,
            "Culprits",
            "Seconds of waiting caused by each route, its share of all waiting, and its share of the requests. A "
            "large share of waiting with a small share of requests is a candidate for workers of its own.",
            "none",
            empty=NOT_EXPLAINED,
            height=9,
            units={"seconds": "s", "share of waiting": "percentunit", "share of requests": "percentunit"},
        ),
        columns(
            PAIRS,
            "Victims and culprits",
            "Seconds of waiting by the route that waited and the route that caused it, the most first.",
            "none",
            empty=NOT_EXPLAINED,
            height=9,
            units={"seconds": "s", "share of waiting": "percentunit"},
        ),
    )


def _wasted(board: Dashboard) -> None:
    add_row(
        board,
        "Wasted work",
        lines(
            WASTED_OVER_TIME,
            "Share of work wasted",
            "Worker time spent on requests after nginx (504) or the client (499) gave up, as a share of all "
            "worker time, by the time of giving up. Only requests with a span: see Unknown.",
            "percentunit",
            empty=NOTHING_WASTED,
        ),
        columns(
            WASTED_ROUTES,
            "Wasted, by route",
            "Requests that workers processed after they were given up, and the worker time spent on them.",
            "none",
            empty=NOTHING_WASTED,
            width=9,
            units={"given up on": "locale", "seconds wasted": "s", "longest": "s"},
            links={"route": ("Distributions of this route", DISTRIBUTIONS + "&var-route=${__value.raw:percentencode}")},
        ),
        number(
            UNKNOWN_WORK,
            "Unknown",
            "Share of the given-up requests without a span: their work may be wasted as well.",
            "percentunit",
            empty="no request was given up in this range",
            width=3,
            height=8,
        ),
    )


def _saturation(board: Dashboard) -> None:
    add_row(
        board,
        "Load against capacity",
        lines(
            AGAINST_CAPACITY,
            "Throughput against capacity",
            "Requests that ended per second, of all chosen services, and their capacity where it is known: the box "
            "above, or the value from sojourn store capacity.",
            "reqps",
            links={"": to_requests()},
        ),
        lines(
            SHARE_OF_CAPACITY,
            "Share of capacity",
            "Requests per second of each service over the rate at which its objective breaks. Above 0.8 there is "
            "no room for a lost instance or a burst.",
            "percentunit",
            empty=NO_CAPACITY,
        ),
        against(
            WAIT_BY_UTILISATION,
            "utilisation",
            "Waiting by utilisation",
            "Mean queueing delay of the minutes with each utilisation of a backend's workers, in steps of 5 %: "
            "shows how steeply queueing grows, and where this system is on the curve. Only minutes in which it is "
            "known what held the workers.",
            "s",
            empty=NOT_HELD,
            units={"utilisation": "percentunit"},
        ),
        against(
            THROUGHPUT_BY_CONCURRENCY,
            "requests in system",
            "Throughput by concurrency",
            "Requests answered per second, by requests in system per minute: where throughput no longer rises with "
            "concurrency, the system is saturated; where it falls, requests slow each other down.",
            "reqps",
            units={"requests in system": "short"},
        ),
        columns(
            SATURATION,
            "Saturation of backends",
            "Each backend in the minutes in which it worked, the busiest first: workers, how many of them were "
            "busy on average, and in the busiest minute. Busy is: held; held at least, where more may hold the "
            "workers than the log shows; service only, where sojourn store explain has not computed it.",
            "none",
            width=24,
            height=9,
            units={
                "rate": "reqps",
                "workers": "locale",
                "busy workers": "short",
                "utilisation": "percentunit",
                "busiest minute": "percentunit",
                "mean queueing": "s",
            },
        ),
    )
