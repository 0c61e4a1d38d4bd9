"""Select the trees that are requests, join a log, and divide the seconds of their responses among accounts."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.analyses.tiers.forest import Forest
from sojourn.analyses.tiers.hops import Hops
from sojourn.model.errors import SojournError

ACCOUNTS = ("queueing", "self", "network", "unknown")


def with_log(spans: pl.DataFrame, forest: Forest, log: pl.LazyFrame | None) -> tuple[pl.DataFrame, int]:
    """Add the columns of a log: ``request_time`` (s, null: not in it) and, if it has one, ``queueing_delay``.

    A row of the log matches the span that names it as its parent, in the same trace; without such a span, the first
    span of a tree with its request id. If several match, they are attempts, and the last one answered.

    Returns:
        The spans, and the number of proxied rows of the log without a span.
    """
    if log is None:
        return spans.with_columns(request_time=pl.lit(None, pl.Float64)), 0
    rows = (
        log.filter("proxied")
        .select("trace_id", "span_id", "request_id", "request_time", waited="queueing_delay")
        .collect(engine="streaming")
        .unique(maintain_order=True)
        .with_row_index("row")
    )
    entries = spans.with_row_index("index").filter(pl.Series(forest.entry)).sort("start")
    roots = entries.filter(pl.Series(forest.answers)[entries["index"]] < 0)
    with_span = rows.filter(_present("trace_id") & _present("span_id"))
    by_parent = entries.join(
        with_span, left_on=["trace_id", "parent_span_id"], right_on=["trace_id", "span_id"], how="inner", suffix="_log"
    )
    by_id = roots.join(rows.filter(_present("request_id")), on="request_id", how="inner", suffix="_log")
    columns = ("row", "index", "start", "request_time", "waited")
    matches = (
        pl.concat([by_parent.select(*columns, way=pl.lit(1)), by_id.select(*columns, way=pl.lit(0))])
        .sort("way", "start")
        .unique("row", keep="last", maintain_order=True)
        .unique("index", keep="last", maintain_order=True)
    )
    joined = (
        spans.with_row_index("index")
        .join(matches.select("index", "request_time", "waited"), on="index", how="left", maintain_order="left")
        .with_columns(pl.coalesce("waited", "queueing_delay").alias("queueing_delay"))
        .drop("index", "waited")
    )
    return joined, len(rows) - len(matches)


def _present(column: str) -> pl.Expr:
    return pl.col(column).is_not_null() & ~pl.col(column).is_in(["", "-"])


def requests_of(visits: pl.DataFrame, *, logged: bool) -> pl.DataFrame:
    """Return the visits that are requests: ``visit`` (row of visits), ``trace_id``, ``service``, and their times.

    A request is the root of a tree. With a log: every root in it. Without: one root per trace: the one that names no
    parent; else a SERVER span whose parent exports nothing, such as a proxy; of several, the one that began first. The
    request of the other roots is unknown. The times (s) are ``response`` and ``elsewhere``.
    """
    roots = visits.with_row_index("visit").filter(pl.col("call").is_null() & (pl.col("kind") != "consumer"))
    inside = pl.col("queueing").fill_null(0.0) + pl.col("seconds")
    if logged:
        chosen = roots.filter(pl.col("request_time").is_not_null())
        chosen = chosen.with_columns(response=pl.col("request_time"), elsewhere=pl.col("request_time") - inside)
    else:
        second = ~(pl.col("lost") & (pl.col("kind") == "server"))
        chosen = roots.sort("child", second, "start", "visit").unique("trace_id", keep="first", maintain_order=True)
        chosen = chosen.with_columns(response=inside, elsewhere=pl.lit(0.0))
    return chosen.sort("visit").select("visit", "trace_id", "service", "kind", "response", "elsewhere")


def accounts_of(hops: Hops, requests: pl.DataFrame) -> tuple[pl.DataFrame, dict[tuple[str, bool], dict[str, float]]]:
    """Assign every second of the requests' responses to one account of one service, by the identity in hops.py.

    Returns:
        One row per request: ``trace_id``, ``service``, ``response``, and its parts: ``ACCOUNTS`` and ``elsewhere``; and
        (service, opaque) -> account -> seconds of all requests. The network of a call counts for its callee.
    """
    visits, calls = hops.visits, hops.calls
    counted = np.zeros(len(visits))
    counted[requests["visit"].to_numpy()] = 1.0
    root = visits["root"].to_numpy()
    weight = visits["share"].to_numpy() * counted[root]
    waited = np.nan_to_num(visits["queueing"].to_numpy()) * weight
    own = visits["own"].to_numpy() * weight
    caller = calls["caller"].to_numpy()
    seconds = calls["seconds"].to_numpy()
    ratio = np.divide(calls["share"].to_numpy(), seconds, out=np.zeros(len(calls)), where=seconds > 0) * weight[caller]
    opaque, unknown = calls["opaque"].to_numpy(), calls["queueing"].is_null().to_numpy()
    between = np.nan_to_num(calls["network"].to_numpy()) * ratio
    parts = {
        "queueing": [(root, waited)],
        "self": [(root, own), (root[caller], np.where(opaque, seconds * ratio, 0.0))],
        "network": [(root[caller], np.where(unknown, 0.0, between))],
        "unknown": [(root[caller], np.where(unknown & ~opaque, between, 0.0))],
    }
    at = requests["visit"].to_numpy()
    per_request = requests.select("trace_id", "service", "response", "elsewhere")
    for name, pieces in parts.items():
        summed = np.sum([np.bincount(to, what, len(visits)) for to, what in pieces], axis=0)
        per_request = per_request.with_columns(pl.Series(name, summed[at]))
    of_visits = visits.select("service", pl.lit(value=False).alias("opaque")).with_columns(
        pl.Series("queueing", waited), pl.Series("self", own)
    )
    of_calls = calls.select(pl.col("callee").alias("service"), "opaque").with_columns(
        pl.Series("self", parts["self"][1][1]),
        pl.Series("network", parts["network"][0][1]),
        pl.Series("unknown", parts["unknown"][0][1]),
    )
    together = (
        pl.concat([of_visits, of_calls], how="diagonal").group_by("service", "opaque").agg(pl.col(ACCOUNTS).sum())
    )
    spent = {
        (row["service"], row["opaque"]): {name: row[name] for name in ACCOUNTS}
        for row in together.iter_rows(named=True)
    }
    return per_request, spent


def first_service(hops: Hops, requests: pl.DataFrame) -> str:
    """Return the first service of most requests; a client is not a service.

    Raises:
        SojournError: only clients recorded spans.
    """
    clients = requests.filter(pl.col("kind") == "client")["visit"]
    called = hops.calls.with_row_index("call").filter(pl.col("caller").is_in(clients.implode()))["call"]
    first = pl.concat(
        [
            requests.filter(pl.col("kind") != "client")["service"],
            hops.visits.filter(pl.col("call").is_in(called.cast(pl.Int64).implode()))["service"],
        ]
    )
    if not len(first):
        raise SojournError("no service: all spans are those of a client; add the spans of the services it called")
    return str(first.value_counts(sort=True).sort("count", "service", descending=[True, False])["service"][0])
