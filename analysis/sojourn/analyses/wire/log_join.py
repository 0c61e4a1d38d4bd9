"""Exchanges on the wire and records of nginx's log that are the same requests.

On the backend's side the request id tells, which nginx sends and logs; where it is not to be seen, the stamp with the
backend's address, then address, method, path and time. On the client's side nothing names a request: nginx's number of
the connection (``connection``) and of the request on it (``connection_requests``) say which records share a connection,
and so whole connections are compared, by client, method, path and times. Where the request is known on the backend's
side already, what happened there bounds what happened here to the microsecond. Behind TLS there are times only.

Two records that fit two requests in both ways are ambiguous and stay unjoined; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sojourn.analyses.wire.pairs import Side, keyed, paired
from sojourn.analyses.wire.stamps import nanoseconds

TOLERANCE = 0.005  # s: nginx's clock stands still during a turn of its event loop, and shows whole milliseconds
ONE_CLOCK = 0.005  # s: nearer than this, the capturing machine's clock is taken to be nginx's
SHARED = 10  # records with one id: where there are more, it names nothing
EXCHANGE_PAIR = {"log_row": pl.Int64(), "exchange": pl.Int64()}
# Of a log, besides what the split reads.
READ = (
    "request_id", "method", "uri", "remote_addr", "connection", "connection_requests", "upstream_addr",
)  # fmt: skip
LOG_COLUMNS = (
    "request_id", "start", "time", "status", "method", "uri", "remote_addr", "connection", "connection_requests",
    "upstream_addr", "upstream", "proxy_start", "request_start", "connect", "header", "response", "request_time",
    "retries", "attempts", "app_start", "app_service", "clock_offset", "queue", "queueing_delay",
)  # fmt: skip


@dataclass(frozen=True)
class BackendJoin:
    """Attempts at backends and their records.

    Attributes:
        attempts: log_row, exchange (the last attempt's), attempts (exchanges), by (request_id or tuple).
        others: exchanges of attempts before the last.
        ambiguous: positions of records that fit several exchanges, or share their id with another record.
        clock_offset: the capturing machine's clock less nginx's, s; None: nothing tells.
    """

    attempts: pl.DataFrame
    others: pl.Series
    ambiguous: pl.Series
    clock_offset: float | None


def log_table(rows: pl.LazyFrame) -> pl.DataFrame:
    """What the join needs of split rows, ``log_row`` being the position; columns that were not read are null.

    Instants are ns since 1970, as ``start_ns`` and so on.
    """
    names = rows.collect_schema().names()
    missing = [pl.lit(None).alias(name) for name in LOG_COLUMNS if name not in names]
    text = [pl.col(name).cast(pl.String) for name in ("request_id", "method", "uri", "remote_addr", "upstream_addr")]
    table = rows.with_columns(missing).select(LOG_COLUMNS).with_columns(text).collect(engine="streaming")
    instants = ("start", "time", "proxy_start", "request_start")
    epoch = pl.Datetime("us", "UTC")
    return table.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("log_row"),
        pl.coalesce("upstream_addr", pl.col("upstream").cast(pl.String)).alias("upstream_addr"),
        # On a socket for both versions nginx writes an IPv4 address this way (RFC 4291, section 2.5.5.2).
        pl.col("remote_addr").str.replace(r"^::ffff:(\d+\.\d+\.\d+\.\d+)$", "$1"),
        *((pl.col(name).cast(epoch).dt.epoch("us") * 1_000).alias(f"{name}_ns") for name in instants),
    ).drop(instants)  # fmt: skip


def backend_join(backend: pl.DataFrame, log: pl.DataFrame, tolerance: float = TOLERANCE) -> BackendJoin:
    """Join exchanges of backends to records.

    Args:
        backend: exchanges with ``endpoint``, ``begun`` (ns: the connection's SYN where the request is its first, else
            its first byte), ``ended`` (ns, last byte of the answer) and ``stamp_us``.
        log: as from ``log_table``.
        tolerance: s.
    """
    backend = backend.select(
        "exchange", "request_id", "endpoint", "method", "path", "stamp_us", "begun", "answered", "ended"
    )  # fmt: skip
    by_id, ambiguous = _by_id(backend, log, tolerance)
    offset = capture_offset(by_id, backend, log)
    found = [_attempts(by_id, backend, log)]
    others = by_id.join(found[0], on="exchange", how="anti")["exchange"]
    several = []
    asked = log.filter(pl.col("attempts").fill_null(1) > 0, pl.col("upstream").is_not_null()).join(
        found[0], on="log_row", how="anti"
    )
    left = backend.join(by_id, on="exchange", how="anti")
    shift = round((offset or 0.0) * 1e9)
    spent = nanoseconds(pl.col("retries").fill_null(0.0))
    turned = pl.coalesce("proxy_start_ns", "request_start_ns") + spent + shift
    asked = asked.with_columns(
        begin=turned, end=turned + nanoseconds(pl.col("response")),
        stamp_us=pl.col("request_start_ns") // 1_000, path="uri", endpoint="upstream",
    )  # fmt: skip
    left = left.with_columns(begin="begun", end="ended")
    for by in (("endpoint", "stamp_us", "method", "path"), ("endpoint", "stamp_us"), ("endpoint", "method", "path")):
        if len(found) > 1:
            left = left.join(found[-1], on="exchange", how="anti")
            asked = asked.join(found[-1], on="log_row", how="anti")
        one = left.filter(*(pl.col(name).is_not_null() for name in by))
        if "stamp_us" not in by:
            one = one.filter(pl.col("stamp_us").is_null())
        two = asked.filter(*(pl.col(name).is_not_null() for name in by))
        pairs, unsure = _pairs(one, two, by, tolerance)
        found.append(pairs.with_columns(attempts=pl.lit(1, pl.Int32), by=pl.lit("tuple")))
        several.append(unsure)
    attempts = pl.concat([part.select("log_row", "exchange", "attempts", "by") for part in found])
    unsure = pl.concat([ambiguous, *several]).unique()
    unsure = unsure.filter(~unsure.is_in(attempts["log_row"].implode()))
    return BackendJoin(attempts, others, unsure, offset)


def _by_id(exchanges: pl.DataFrame, log: pl.DataFrame, tolerance: float) -> tuple[pl.DataFrame, pl.Series]:
    """(log_row, exchange) of equal request ids, and records whose id is not theirs alone."""
    ids = log.filter(pl.col("request_id").is_not_null(), pl.col("request_id") != "").select(
        "request_id", "log_row", "start_ns", "time_ns"
    )
    if ids["request_id"].n_unique() < len(ids):
        ids = ids.filter(pl.len().over("request_id") <= SHARED)
    pairs = (
        exchanges.filter(pl.col("request_id").is_not_null())
        .select("exchange", "begun", "request_id")
        .join(ids, on="request_id", how="inner")
        .drop("request_id")
    )
    several = pl.len().over("exchange") > 1
    shared = pairs.filter(several)
    if len(shared):
        # An id that came twice (a client's or a balancer's own, kept by nginx) is told apart by time.
        slack = round(tolerance * 1e9)
        within = (pl.col("begun") >= pl.col("start_ns") - slack) & (pl.col("begun") <= pl.col("time_ns") + slack)
        pairs = pairs.filter(~several | within).filter(~several)
    lost = shared.select("log_row").unique().join(pairs, on="log_row", how="anti")["log_row"]
    return pairs.select("log_row", "exchange"), lost


def _attempts(pairs: pl.DataFrame, backend: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """The last attempt of each record. Subrequests carry its id, too: they go elsewhere than ``upstream_addr`` says."""
    told = pairs.join(backend.select("exchange", "endpoint", "begun"), on="exchange").join(
        log.select("log_row", "upstream_addr"), on="log_row"
    )
    if told["log_row"].n_unique() == len(told):
        return told.select("log_row", "exchange", attempts=pl.lit(1, pl.Int32), by=pl.lit("request_id"))
    named = pl.col("upstream_addr").str.contains(pl.col("endpoint"), literal=True).fill_null(value=False)
    return (
        told.with_columns(named=named)
        .filter(pl.col("named") | ~pl.col("named").any().over("log_row"))
        .sort("begun", "exchange")
        .group_by("log_row", maintain_order=True)
        .agg(pl.col("exchange").last(), attempts=pl.len().cast(pl.Int32))
        .with_columns(by=pl.lit("request_id"))
    )


def capture_offset(pairs: pl.DataFrame, backend: pl.DataFrame, log: pl.DataFrame) -> float | None:
    """The capturing machine's clock less nginx's, s; None where no request with an id tells.

    nginx turns to the backend at once when it has stamped, and its clock is truncated: the smallest difference of many
    lies between the offset and a millisecond above it. A request lies between its ``start`` and its ``time``, which
    bounds the offset, too; a log whose stamps are something else than stamps is found out by that. Less than
    ``ONE_CLOCK`` is what a capture on nginx's own machine shows, and 0 is answered.
    """
    told = pairs.join(backend.select("exchange", "begun", "answered"), on="exchange").join(
        log.select("log_row", "start_ns", "time_ns", "header", "attempts", "proxy_start_ns"), on="log_row"
    )
    ended = pl.when(pl.col("header").is_not_null()).then("answered")
    stamp = pl.when(pl.col("attempts").fill_null(1) == 1).then("proxy_start_ns")
    least, most, stamped = told.select(
        least=(pl.max_horizontal("begun", ended) - pl.col("time_ns")).max(),
        most=(pl.col("begun") - pl.col("start_ns")).min(),
        stamped=(pl.col("begun") - stamp).min(),
    ).row(0)
    if least is None or most is None:
        return None
    slack = ONE_CLOCK * 1e9
    if stamped is not None and least - slack <= stamped <= most + slack:
        offset = stamped
    else:
        offset = 0 if least - slack <= 0 <= most + slack else (least + most) // 2
    return 0.0 if abs(offset) <= slack else float(offset) / 1e9


def client_join(
    client: pl.DataFrame, log: pl.DataFrame, known: pl.DataFrame, offset: float, tolerance: float = TOLERANCE
) -> tuple[pl.DataFrame, pl.Series]:
    """Join exchanges of the client's side to records: (log_row, exchange, by), and records that are ambiguous.

    Args:
        client: exchanges with ``client`` (address), ``complete`` (whether the connection's SYN is in the capture) and,
            in ns, ``begun`` (first byte of the request), ``request_ended`` (its last byte), ``answered`` (first byte of
            the answer) and ``ended`` (its last byte).
        log: as from ``log_table``.
        known: log_row, begun and answered (ns) of what is joined on the backend's side.
        offset: the capturing machine's clock less nginx's, s. tolerance: s.
    """
    shift = round(offset * 1e9)
    client = client.select(
        "exchange", "request_id", "connection", "number", "client", "complete", "method", "path", "begun", "ended",
        "request_ended", "answered",
    )  # fmt: skip
    moved = log.select(
        "log_row", "request_id", "method", "uri", "remote_addr", "connection", "connection_requests",
        pl.col("start_ns", "time_ns") + shift,
    )  # fmt: skip
    by_id, ambiguous = _by_id(client, moved, tolerance)
    by_id = by_id.filter(pl.len().over("log_row") == 1)
    records = moved.join(known, on="log_row", how="left", maintain_order="left").with_columns(
        begin="start_ns", end="time_ns", client="remote_addr", path="uri", after="begun", until="answered"
    )
    left = client.with_columns(begin="begun", end="ended", after="request_ended", until="answered")
    if not records["connection"].null_count() and not records["connection_requests"].null_count():
        records = records.with_columns(group="connection", number="connection_requests")
        left = left.with_columns(group="connection")
    seen = client["client"].unique().to_list()
    # nginx was told of another address by a balancer (real_ip_header), or its log keeps none.
    hidden = ~pl.col("client").is_in(seen).fill_null(value=False)
    found, several = [by_id.with_columns(by=pl.lit("request_id"))], [ambiguous]
    passes: tuple[tuple[tuple[str, ...], pl.Expr, pl.Expr], ...] = (
        (("client", "method", "path"), pl.col("method").is_not_null(), pl.lit(value=True)),
        (("client",), pl.col("method").is_null(), pl.lit(value=True)),
        (("method", "path"), pl.col("method").is_not_null(), hidden),
    )
    for by, of_wire, of_log in passes:
        if not len(left) or not len(records):
            break
        left = left.join(found[-1], on="exchange", how="anti")
        records = records.join(found[-1], on="log_row", how="anti")
        pairs, unsure = _pairs(left.filter(of_wire), records.filter(of_log), by, tolerance)
        found.append(pairs.with_columns(by=pl.lit("tuple")))
        several.append(unsure)
    joined = pl.concat([part.select("log_row", "exchange", "by") for part in found])
    unsure = pl.concat(several).unique()
    return joined, unsure.filter(~unsure.is_in(joined["log_row"].implode()))


def sides_join(client: pl.DataFrame, backend: pl.DataFrame, tolerance: float = TOLERANCE) -> pl.DataFrame:
    """(exchange, backend_exchange) of both sides of the proxy without a log: by request id, else by path and time.

    nginx turns to the backend when it has read the request, and to the client when the answer begins.
    """
    ids = [
        side.filter(pl.col("request_id").is_not_null()).filter(pl.len().over("request_id") == 1)
        for side in (client, backend)
    ]
    by_id = ids[0].select("exchange", "request_id").join(
        ids[1].select("request_id", backend_exchange="exchange"), on="request_id"
    ).select("exchange", "backend_exchange")  # fmt: skip
    one = client.join(by_id, on="exchange", how="anti").with_columns(begin="request_ended", end="answered")
    two = backend.join(by_id, left_on="exchange", right_on="backend_exchange", how="anti").with_columns(
        begin="begun", end="answered"
    )
    found = [by_id]
    for by, of_client in ((("method", "path"), pl.col("method").is_not_null()), ((), pl.col("method").is_null())):
        pairs, _ = _pairs(one.filter(of_client), two.rename({"exchange": "log_row"}), by, tolerance)
        found.append(pairs.rename({"log_row": "backend_exchange"}).select("exchange", "backend_exchange"))
        two = two.join(found[-1], left_on="exchange", right_on="backend_exchange", how="anti")
    return pl.concat(found)


def _pairs(
    wire: pl.DataFrame, log: pl.DataFrame, by: tuple[str, ...], tolerance: float
) -> tuple[pl.DataFrame, pl.Series]:
    """(log_row, exchange) of exchanges and records with equal ``by``, and records that fit several."""
    if not len(wire) or not len(log):
        return pl.DataFrame(schema=EXCHANGE_PAIR), pl.Series("log_row", [], pl.Int64)
    text = [pl.col(name).cast(pl.Int64 if name == "stamp_us" else pl.String) for name in by]
    key = keyed(*text) if by else pl.lit(0, pl.UInt64)
    # Without connections of nginx's every request is a group of its own, whatever its number.
    alone = "group" not in wire.columns
    names = ("after", "until") if alone else ("after", "until", "complete")
    sides = []
    for frame, own in ((wire, "exchange"), (log, "log_row")):
        group = pl.col(own) if alone else pl.col("group")
        number = pl.lit(0) if alone else pl.col("number")
        extra = [pl.col(name) for name in names if name in frame.columns]
        sides.append(
            Side(frame.select(key.alias("key"), "begin", "end", *extra, group=group, number=number.cast(pl.Int64)))
        )
    pairs, unsure = paired(sides[0], sides[1], round(tolerance * 1e9))
    found = pl.DataFrame(
        {"log_row": log["log_row"].gather(pairs["second"]), "exchange": wire["exchange"].gather(pairs["first"])}
    )
    return found, log["log_row"].gather(unsure["second"].unique())
