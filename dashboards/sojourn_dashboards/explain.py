"""Explained: who waited for whom, work for nobody, and how far the load is from what can be borne."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from sojourn_dashboards.explain_queries import (
    AGAINST_CAPACITY,
    BLAME_OVER_TIME,
    CULPRITS,
    PAIRS,
    SATURATION,
    SHARE_OF_CAPACITY,
    THROUGHPUT_BY_CONCURRENCY,
    UNTOLD,
    WAIT_BY_UTILISATION,
    WASTED_OVER_TIME,
    WASTED_ROUTES,
)
from sojourn_dashboards.filters import box, rollup_variables
from sojourn_dashboards.frame import dashboard
from sojourn_dashboards.panels import Shown, against, columns, lines, number, to_requests

NOT_EXPLAINED = "nobody waited in this range, or it is not explained yet: sojourn store explain does it"
NO_CAPACITY = "no capacity is known: type one above, or note it by sojourn store capacity"
NOTHING_WASTED = "nobody gave up on a request in this range whose work a span tells of"
HERE = "/d/sojourn-distributions/distributions?${__url_time_range}&${service:queryparam}"


def explain() -> Dashboard:
    """The dashboard with uid ``sojourn-explain``."""
    capacity = box(
        "capacity",
        "Capacity, requests/s",
        "What a service bears before its objective breaks, as sojourn capacity finds it. Empty: what the store has.",
    )
    board = dashboard(
        "sojourn-explain",
        "Explained",
        "Who waited for whom, how much work was done for nobody, and how far the load is from the cliff.",
        [*rollup_variables(), capacity],
    )
    _blame(board)
    _wasted(board)
    _saturation(board)
    return board


def _blame(board: Dashboard) -> None:
    board.with_row(Row("Who waited for whom"))
    board.with_panel(
        lines(
            Shown(
                "Waiting, by who was waited for",
                "Seconds waited in the interval, by the route that held the workers meanwhile; the ten with most. "
                "(imbalance): another backend had a free worker. (dispatch): its own had. They add up to the measured "
                "queueing of the waits that ended in the interval. The route chosen above is the one that waited.",
                "s",
                NOT_EXPLAINED,
                width=24,
                links={"": to_requests()},
            ),
            BLAME_OVER_TIME,
            bars=True,
        )
    )
    board.with_panel(
        columns(
            Shown(
                "Waited for",
                "Seconds others waited for each route, its share of all waiting, and its share of the requests: much "
                "of the one and little of the other is what to take out of the way.",
                "none",
                NOT_EXPLAINED,
                height=9,
                units={"seconds": "s", "share of waiting": "percentunit", "share of requests": "percentunit"},
            ),
            CULPRITS,
        )
    )
    board.with_panel(
        columns(
            Shown(
                "Who waited for whom",
                "Seconds of waiting by the route that waited and the route it waited for, the most first.",
                "none",
                NOT_EXPLAINED,
                height=9,
                units={"seconds": "s", "share of waiting": "percentunit"},
            ),
            PAIRS,
        )
    )


def _wasted(board: Dashboard) -> None:
    board.with_row(Row("Work for nobody"))
    board.with_panel(
        lines(
            Shown(
                "Share of work wasted",
                "Worker time that went to requests nginx (504) or the client (499) had given up on, as a share of all "
                "worker time, by when they were given up on. Only what a span tells of: see Untold.",
                "percentunit",
                NOTHING_WASTED,
            ),
            WASTED_OVER_TIME,
        )
    )
    board.with_panel(
        columns(
            Shown(
                "Wasted, by route",
                "Requests that were given up on and worked on all the same, and the worker time that went to them.",
                "none",
                NOTHING_WASTED,
                width=9,
                units={"given up on": "locale", "seconds wasted": "s", "longest": "s"},
                links={"route": ("Distributions of this route", HERE + "&var-route=${__value.raw:percentencode}")},
            ),
            WASTED_ROUTES,
        )
    )
    board.with_panel(
        number(
            Shown(
                "Untold",
                "Of the requests given up on, the share of which no span tells what became of their work: it may "
                "be wasted as well.",
                "percentunit",
                "nobody gave up in this range",
                width=3,
                height=8,
            ),
            UNTOLD,
        )
    )


def _saturation(board: Dashboard) -> None:
    board.with_row(Row("Load against what can be borne"))
    board.with_panel(
        lines(
            Shown(
                "Throughput against capacity",
                "Requests that ended per second, of all services chosen, and what those of them bear whose capacity "
                "is known: the box above, or what sojourn store capacity noted.",
                "reqps",
                links={"": to_requests()},
            ),
            AGAINST_CAPACITY,
        )
    )
    board.with_panel(
        lines(
            Shown(
                "Share of capacity",
                "Requests per second of each service over the rate at which its objective breaks. Above 0.8 there is "
                "no room for a lost instance or a burst.",
                "percentunit",
                NO_CAPACITY,
            ),
            SHARE_OF_CAPACITY,
        )
    )
    board.with_panel(
        against(
            Shown(
                "Waiting by utilisation",
                "Mean queueing delay of the minutes in which so much of a backend's workers was busy, in steps of 5 %: "
                "how steep the cliff is, and where this system stands on it.",
                "s",
                units={"utilisation": "percentunit"},
            ),
            WAIT_BY_UTILISATION,
            "utilisation",
        )
    )
    board.with_panel(
        against(
            Shown(
                "Throughput by concurrency",
                "Requests answered per second in the minutes with so many requests in the house: where more of "
                "them no longer bring more answers, the system is saturated; where it falls, they are in each "
                "other's way.",
                "reqps",
                units={"requests in the house": "short"},
            ),
            THROUGHPUT_BY_CONCURRENCY,
            "requests in the house",
        )
    )
    board.with_panel(
        columns(
            Shown(
                "Saturation of backends",
                "Each backend in the minutes it answered, the busiest first: workers seen in a minute, how many of "
                "them were at work on average, and in the busiest minute.",
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
            SATURATION,
        )
    )
