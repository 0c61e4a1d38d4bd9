"""Counts of requests that lack a stamp, a time, a worker or an id, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sojourn.components.expressions import seconds_between
from sojourn.model.components import LATE_STEPS, STAMP_TICK, SWITCHING_PROTOCOLS
from sojourn.readers.record import INSTEAD_OF_ID

EARLY = -0.002  # s: a wait below 0 by more than two clocks of a millisecond round
STREAMED = 0.1  # s after the headers, from which on an answer counts as streamed, if it is also most of its time
EXAMPLES = 3
MOST_BACKENDS = 1_000


@dataclass
class Facts:
    """Counts of requests.

    Attributes:
        requests: all but upgraded connections.
        proxied: handed to an app.
        answered: answered by the app.
        unstamped: proxied, and no stamp in the log.
        unstamped_routes: the busiest routes of these.
        no_worker: answered with a service time, and no worker named.
        no_id: without a request id.
        no_identity: of these, without the proxy, connection and number on it that identify a lean record.
        gone: proxied and not answered (504, 499, 502), and no span shows their outcome.
        streamed: answers that went on for most of their time after their headers.
        early: waits below 0, by more than clocks round.
        compared: proxied, with a stamp, and under way at the app for longer than clocks round.
        late: of these, the stamp lies after the begin of the upstream request.
        ended: of these, it is the time at which the request ended.
        late_routes: the routes with most of these.
        backends: (backend, answered, silent: without the app's delay and service time, both), busiest first.
        silent_routes: (backend, route, silent), most silent first.
        connects: backend -> answers, mean connect time, s.
        refused: why stamps of trusted peers were refused -> requests.
        routes: number of routes.
        route_names: the busiest routes.
        single: number of routes with one request.
    """

    requests: int = 0
    proxied: int = 0
    answered: int = 0
    unstamped: int = 0
    no_worker: int = 0
    no_id: int = 0
    no_identity: int = 0
    gone: int = 0
    streamed: int = 0
    early: int = 0
    compared: int = 0
    late: int = 0
    ended: int = 0
    backends: list[tuple[str, int, int]] = field(default_factory=list)
    silent_routes: list[tuple[str, str, int]] = field(default_factory=list)
    connects: dict[str, tuple[int, float]] = field(default_factory=dict)
    unstamped_routes: list[str] = field(default_factory=list)
    late_routes: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    routes: int = 0
    single: int = 0
    route_names: list[str] = field(default_factory=list)


def facts_of_rows(rows: pl.LazyFrame) -> Facts:
    """Return the facts of a split's rows (``SplitResult.rows`` with ``request_id``)."""
    served = rows.filter(pl.col("status") != SWITCHING_PROTOCOLS)
    proxied, answered = pl.col("proxied"), pl.col("answered")
    silent = answered & pl.col("app_service_time").is_null() & pl.col("app_queueing_delay").is_null()
    unstamped = proxied & pl.col("request_start").is_null()
    streamed = (pl.col("transfer") > STREAMED) & (pl.col("transfer") > 0.5 * pl.col("response"))
    step = pl.max_horizontal("time_step", STAMP_TICK / 1e6)
    stamped = proxied & pl.col("request_start").is_not_null()
    late = stamped & pl.col("late_stamp")
    ended = late & (seconds_between("request_start", "time").abs() <= step)
    no_id = pl.col("request_id").is_null() | pl.col("request_id").is_in(["", "-"])
    no_identity = no_id & pl.any_horizontal(pl.col(*INSTEAD_OF_ID).is_null())
    counts = served.select(
        requests=pl.len(),
        proxied=proxied.sum(),
        answered=answered.sum(),
        unstamped=unstamped.sum(),
        no_worker=(answered & pl.col("app_service_time").is_not_null() & pl.col("worker").is_null()).sum(),
        no_id=no_id.sum(),
        no_identity=no_identity.sum(),
        gone=(proxied & ~answered & pl.col("app_service").is_null()).sum(),
        streamed=streamed.sum(),
        early=(pl.col("queueing_delay") < EARLY).sum(),
        compared=(late | stamped & (pl.col("response") > LATE_STEPS * step)).sum(),
        late=late.sum(),
        ended=ended.sum(),
    )
    pairs = (
        served.filter(answered)
        .group_by("upstream", "route")
        .agg(answered=pl.len(), silent=silent.sum(), connect=pl.col("connect").sum())
        .sort("silent", "upstream", "route", descending=[True, False, False])
    )
    routes = served.group_by("route").agg(requests=pl.len(), unstamped=unstamped.sum(), late=late.sum())
    refused = served.filter(pl.col("stamp").str.starts_with("refused:")).group_by("stamp").agg(count=pl.len())
    frames = pl.collect_all(
        [
            counts,
            pairs.group_by("upstream")
            .agg(pl.col("answered").sum(), pl.col("silent").sum(), pl.col("connect").sum())
            .sort("answered", "upstream", descending=[True, False])
            .head(MOST_BACKENDS),
            pairs.filter(pl.col("silent") > 0).select("upstream", "route", "silent").head(MOST_BACKENDS),
            routes.filter(pl.col("unstamped") > 0).sort("unstamped", "route", descending=[True, False]).head(EXAMPLES),
            routes.filter(pl.col("late") > 0).sort("late", "route", descending=[True, False]).head(EXAMPLES),
            refused,
            routes.select(n=pl.len(), single=(pl.col("requests") == 1).sum()),
            routes.sort("requests", "route", descending=[True, False]).head(MOST_BACKENDS),
        ]
    )
    one, backends, silent_routes, bare, late_routes, stamps, number, names = frames
    return Facts(
        **{name: int(value or 0) for name, value in one.row(0, named=True).items()},
        backends=[(_text(name), count, quiet) for name, count, quiet, _ in backends.iter_rows()],
        connects={_text(name): (count, connect / count) for name, count, _, connect in backends.iter_rows()},
        silent_routes=[(_text(a), _text(b), count) for a, b, count in silent_routes.iter_rows()],
        unstamped_routes=[_text(name) for name in bare["route"]],
        late_routes=[_text(name) for name in late_routes["route"]],
        refused={str(name).removeprefix("refused:"): count for name, count in stamps.iter_rows()},
        routes=number["n"][0],
        single=int(number["single"][0] or 0),
        route_names=[_text(name) for name in names["route"]],
    )


def _text(value: Any) -> str:
    return "–" if value is None else str(value)
