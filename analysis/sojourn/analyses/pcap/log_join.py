"""Join exchanges on the wire with nginx's log records of the same requests.

On the backend's side the request id, which nginx sends and logs, identifies a request; without it, the stamp with the
backend's address, then address, method, path and time. The client's side has no such key: nginx's number of the
connection (``connection``) and of the request on it (``connection_requests``) show which records share a connection, so
whole connections are compared, by client, method, path and times. If the request is already joined on the backend's
side, the times there bound those on the client's side to the microsecond. With TLS only times are known.

Two records that match two requests in both ways are ambiguous and remain unjoined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sojourn.analyses.pcap.pairs import paired
from sojourn.analyses.pcap.stamps import nanoseconds

TOLERANCE = 0.005  # s: nginx updates its clock once per turn of its event loop, to whole milliseconds
ONE_CLOCK = 0.005  # s: below this offset, the capturing machine's clock counts as nginx's
SHARED = 10  # records with one id: an id with more records is ignored
Pass = tuple[tuple[str, ...], pl.Expr, pl.Expr]
"""Columns that must be equal, and which exchanges and records are compared."""
EXCHANGE_PAIR = {"log_row": pl.Int64(), "exchange": pl.Int64()}
# Columns of a log, in addition to those of the split.
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
        ambiguous: positions of records that match several exchanges, or share their id with another record.
        clock_offset: the capturing machine's clock minus nginx's, s; None: unknown.
    """

    attempts: pl.DataFrame
    others: pl.Series
    ambiguous: pl.Series
    clock_offset: float | None


def log_table(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the columns of split rows for the join, ``log_row`` being the position; missing columns are null.

    Times are in ns since 1970: ``start_ns``, ``time_ns``, ``proxy_start_ns``, ``request_start_ns``.
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
        # nginx writes an IPv4 address this way on a dual-stack socket (RFC 4291, section 2.5.5.2).
        pl.col("remote_addr").str.replace(r"^::ffff:(\d+\.\d+\.\d+\.\d+)$", "$1"),
        *((pl.col(name).cast(epoch).dt.epoch("us") * 1_000).alias(f"{name}_ns") for name in instants),
    ).drop(instants)  # fmt: skip


def backend_join(backend: pl.DataFrame, log: pl.DataFrame, tolerance: float) -> BackendJoin:
    """Join exchanges of backends with records.

    Args:
        backend: exchanges with ``endpoint``, ``begun`` (ns: the connection's SYN where the request is its first, else
            its first byte), ``ended`` (ns, last byte of the answer) and ``stamp_us``.
        log: columns of ``log_table``.
        tolerance: s.
    """
    backend = backend.select(
        "exchange", "request_id", "endpoint", "method", "path", "stamp_us", "begun", "answered", "ended"
    )  # fmt: skip
    by_id, ambiguous = _by_id(backend, log, tolerance)
    offset = capture_offset(by_id, backend, log)
    last = _attempts(by_id, backend, log)
    others = by_id.join(last, on="exchange", how="anti")["exchange"]
    shift = round((offset or 0.0) * 1e9)
    spent = nanoseconds(pl.col("retries").fill_null(0.0))
    turned = pl.coalesce("proxy_start_ns", "request_start_ns") + spent + shift
    records = (
        log.filter(pl.col("attempts").fill_null(1) > 0, pl.col("upstream").is_not_null())
        .join(last, on="log_row", how="anti")
        .with_columns(
            begin=turned, end=turned + nanoseconds(pl.col("response")),
            stamp_us=pl.col("request_start_ns") // 1_000, path="uri", endpoint="upstream",
        )
    )  # fmt: skip
    left = backend.join(by_id, on="exchange", how="anti").with_columns(begin="begun", end="ended")
    passes = []
    for by in (("endpoint", "stamp_us", "method", "path"), ("endpoint", "stamp_us"), ("endpoint", "method", "path")):
        complete = pl.all_horizontal(pl.col(by).is_not_null())
        passes.append((by, complete if "stamp_us" in by else complete & pl.col("stamp_us").is_null(), complete))
    pairs, unsure = _pairs_of_passes(left, records, passes, tolerance)
    pairs = pairs.with_columns(attempts=pl.lit(1, pl.Int32), by=pl.lit("tuple"))
    attempts = pl.concat([last, pairs.select(last.columns)])
    unsure = pl.concat([ambiguous, unsure]).unique()
    unsure = unsure.filter(~unsure.is_in(attempts["log_row"].implode()))
    return BackendJoin(attempts, others, unsure, offset)


def _by_id(exchanges: pl.DataFrame, log: pl.DataFrame, tolerance: float) -> tuple[pl.DataFrame, pl.Series]:
    """Return (log_row, exchange) of equal request ids, and records that share their id."""
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
        # Time distinguishes requests with the same id (a client's or a balancer's own, kept by nginx).
        slack = round(tolerance * 1e9)
        within = (pl.col("begun") >= pl.col("start_ns") - slack) & (pl.col("begun") <= pl.col("time_ns") + slack)
        pairs = pairs.filter(~several | within).filter(~several)
    lost = shared.select("log_row").unique().join(pairs, on="log_row", how="anti")["log_row"]
    return pairs.select("log_row", "exchange"), lost


def _attempts(pairs: pl.DataFrame, backend: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return the last attempt of each record. Subrequests share its id, but are not sent to its ``upstream_addr``."""
    attempts = pairs.join(backend.select("exchange", "endpoint", "begun"), on="exchange").join(
        log.select("log_row", "upstream_addr"), on="log_row"
    )
    if attempts["log_row"].n_unique() == len(attempts):
        return attempts.select("log_row", "exchange", attempts=pl.lit(1, pl.Int32), by=pl.lit("request_id"))
    to_upstream = pl.col("upstream_addr").str.contains(pl.col("endpoint"), literal=True).fill_null(value=False)
    return (
        attempts.with_columns(to_upstream=to_upstream)
        .filter(pl.col("to_upstream") | ~pl.col("to_upstream").any().over("log_row"))
        .sort("begun", "exchange")
        .group_by("log_row", maintain_order=True)
        .agg(pl.col("exchange").last(), attempts=pl.len().cast(pl.Int32))
        .with_columns(by=pl.lit("request_id"))
    )


def capture_offset(pairs: pl.DataFrame, backend: pl.DataFrame, log: pl.DataFrame) -> float | None:
    """Return the capturing machine's clock minus nginx's, s; None without requests with an id.

    nginx contacts the backend at once after it writes the stamp, and its clock is truncated: the smallest of many
    differences is between the offset and a millisecond above it. A request lies between its ``start`` and its ``time``,
    which bounds the offset, too, and detects stamps with another meaning. An offset below ``ONE_CLOCK`` is that of a
    capture on nginx's own machine; the result is then 0.
    """
    joined = pairs.join(backend.select("exchange", "begun", "answered"), on="exchange").join(
        log.select("log_row", "start_ns", "time_ns", "header", "attempts", "proxy_start_ns"), on="log_row"
    )
    ended = pl.when(pl.col("header").is_not_null()).then("answered")
    stamp = pl.when(pl.col("attempts").fill_null(1) == 1).then("proxy_start_ns")
    least, most, stamped = joined.select(
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
    client: pl.DataFrame, log: pl.DataFrame, backend_times: pl.DataFrame, offset: float, tolerance: float
) -> tuple[pl.DataFrame, pl.Series]:
    """Join exchanges of the client's side with records: (log_row, exchange, by), and ambiguous records.

    Args:
        client: exchanges with ``client`` (address), ``complete`` (whether the connection's SYN is in the capture) and,
            in ns, ``begun`` (first byte of the request), ``request_ended`` (its last byte), ``answered`` (first byte of
            the answer) and ``ended`` (its last byte).
        log: columns of ``log_table``.
        backend_times: log_row, begun and answered (ns) of the requests joined on the backend's side.
        offset: the capturing machine's clock minus nginx's, s.
        tolerance: s.
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
    records = moved.join(backend_times, on="log_row", how="left", maintain_order="left").with_columns(
        begin="start_ns", end="time_ns", client="remote_addr", path="uri", after="begun", until="answered"
    )
    left = client.with_columns(begin="begun", end="ended", after="request_ended", until="answered")
    if not records["connection"].null_count() and not records["connection_requests"].null_count():
        records = records.with_columns(group="connection", number="connection_requests")
        left = left.with_columns(group="connection")
    clients = client["client"].unique().to_list()
    # A balancer gave nginx another address (real_ip_header), or the log has none.
    hidden = ~pl.col("client").is_in(clients).fill_null(value=False)
    passes: tuple[Pass, ...] = (
        (("client", "method", "path"), pl.col("method").is_not_null(), pl.lit(value=True)),
        (("client",), pl.col("method").is_null(), pl.lit(value=True)),
        (("method", "path"), pl.col("method").is_not_null(), hidden),
    )
    pairs, unsure = _pairs_of_passes(
        left.join(by_id, on="exchange", how="anti"), records.join(by_id, on="log_row", how="anti"), passes, tolerance
    )
    joined = pl.concat([by_id.with_columns(by=pl.lit("request_id")), pairs.with_columns(by=pl.lit("tuple"))])
    unsure = pl.concat([ambiguous, unsure]).unique()
    return joined, unsure.filter(~unsure.is_in(joined["log_row"].implode()))


def sides_join(client: pl.DataFrame, backend: pl.DataFrame, tolerance: float) -> pl.DataFrame:
    """Return (exchange, backend_exchange) of both sides without a log: by request id, else by path and time.

    nginx contacts the backend after it has read the request, and answers the client when the backend answers.
    """
    ids = [
        side.filter(pl.col("request_id").is_not_null()).filter(pl.len().over("request_id") == 1)
        for side in (client, backend)
    ]
    by_id = ids[0].select("exchange", "request_id").join(
        ids[1].select("request_id", backend_exchange="exchange"), on="request_id"
    ).select("exchange", "backend_exchange")  # fmt: skip
    one = client.join(by_id, on="exchange", how="anti").with_columns(begin="request_ended", end="answered")
    two = backend.join(by_id, left_on="exchange", right_on="backend_exchange", how="anti").select(
        "method", "path", begin="begun", end="answered", log_row="exchange"
    )
    passes: tuple[Pass, ...] = (
        (("method", "path"), pl.col("method").is_not_null(), pl.lit(value=True)),
        ((), pl.col("method").is_null(), pl.lit(value=True)),
    )
    pairs, _ = _pairs_of_passes(one, two, passes, tolerance)
    return pl.concat([by_id, pairs.select("exchange", backend_exchange="log_row")])


def _pairs_of_passes(
    wire: pl.DataFrame, log: pl.DataFrame, passes: Sequence[Pass], tolerance: float
) -> tuple[pl.DataFrame, pl.Series]:
    """Return the ``_pairs`` of all passes, each of the exchanges and records that those before it left."""
    matches, several = [], []
    for by, of_wire, of_log in passes:
        pairs, unsure = _pairs(wire.filter(of_wire), log.filter(of_log), by, tolerance)
        matches.append(pairs)
        several.append(unsure)
        wire, log = wire.join(pairs, on="exchange", how="anti"), log.join(pairs, on="log_row", how="anti")
    return pl.concat(matches), pl.concat(several).unique()


def _pairs(
    wire: pl.DataFrame, log: pl.DataFrame, by: tuple[str, ...], tolerance: float
) -> tuple[pl.DataFrame, pl.Series]:
    """Return (log_row, exchange) of exchanges and records with equal ``by``, and records that match several."""
    if not len(wire) or not len(log):
        return pl.DataFrame(schema=EXCHANGE_PAIR), pl.Series("log_row", [], pl.Int64)
    text = [pl.col(name).cast(pl.Int64 if name == "stamp_us" else pl.String) for name in by]
    # One number, equal where all columns are.
    key = pl.struct(text).hash(7) if by else pl.lit(0, pl.UInt64)
    # Without nginx's connection numbers every request is its own group.
    alone = "group" not in wire.columns
    names = ("after", "until") if alone else ("after", "until", "complete")
    sides = []
    for frame, own in ((wire, "exchange"), (log, "log_row")):
        group = pl.col(own) if alone else pl.col("group")
        number = pl.lit(0) if alone else pl.col("number")
        extra = [pl.col(name) for name in names if name in frame.columns]
        sides.append(frame.select(key.alias("key"), "begin", "end", *extra, group=group, number=number.cast(pl.Int64)))
    pairs, unsure = paired(sides[0], sides[1], round(tolerance * 1e9))
    joined = pl.DataFrame(
        {"log_row": log["log_row"].gather(pairs["second"]), "exchange": wire["exchange"].gather(pairs["first"])}
    )
    return joined, log["log_row"].gather(unsure["second"].unique())
