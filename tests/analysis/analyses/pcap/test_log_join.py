"""Requests in a capture are joined with the matching records of the log, and with no others."""

from __future__ import annotations

import polars as pl
import pytest
from sojourn.analyses.pcap.log_join import TOLERANCE, log_table
from sojourn.analyses.pcap.pairs import paired
from sojourn.analyses.pcap.stamps import stamp_us
from sojourn.analyses.pcap.timeline import Timelines, timeline
from sojourn.components.split import split_rows
from wire_simulator import Wire, WireSettings, simulated_wire

MS = 1_000_000


def joined(wire: Wire) -> tuple[Timelines, pl.DataFrame]:
    """What was joined, and of it the rows with a record, beside the truth (…_truth)."""
    rows = split_rows(wire.rows.lazy()).rows
    result = timeline(wire.tracked, rows)
    truth = wire.truth.with_columns(log_row=pl.int_range(pl.len(), dtype=pl.Int64))
    return result, result.frame.join(truth, on="log_row", suffix="_truth")


def wrong(rows: pl.DataFrame, side: str) -> int:
    return int((rows[f"{side}_exchange"] != rows[f"{side}_exchange_truth"]).sum())


SETTINGS = {
    "plain": WireSettings(),
    "without ids": WireSettings(ids=False),
    "without ids and stamps": WireSettings(ids=False, stamps=False),
    "retries": WireSettings(retried=0.1),
    "kept connections": WireSettings(per_connection=5, keepalive=3, syn_dropped=0.0),
    "a late nginx": WireSettings(proxy_late=0.1),
    "TLS": WireSettings(tls=True, clients=200),
    "loopback": WireSettings(loopback=True, clients=1, paths=50, rate=100.0),
    "a capture ahead by 400 ms": WireSettings(capture_ahead=0.4),
    "a capture behind by 3 s": WireSettings(capture_ahead=-3.0, skew=0.2),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_request_is_joined_to_its_own_record(settings: WireSettings) -> None:
    wire = simulated_wire(settings)
    result, rows = joined(wire)
    assert wrong(rows, "client") == wrong(rows, "backend") == 0
    assert rows["backend_exchange"].count() == len(wire.rows)
    assert rows["client_exchange"].count() >= 0.99 * len(wire.rows)
    assert rows["log_row"].n_unique() == len(rows) == result.joined.requests
    by = "request_id" if settings.ids else "tuple"
    assert result.joined.by == {by: len(wire.rows)}
    assert result.joined.unjoined == {}


def test_attempts_are_one_row_and_the_last_is_the_row_s() -> None:
    wire = simulated_wire(WireSettings(retried=0.2))
    result, rows = joined(wire)
    again = wire.rows["attempts"] > 1
    assert rows.sort("log_row")["attempts"].to_list() == wire.rows["attempts"].to_list()
    assert again.sum() > 100
    assert len(result.frame) == len(wire.rows)  # the first attempts have no rows of their own


def test_offset_of_another_machine_s_clock_from_requests_with_an_id() -> None:
    result, _ = joined(simulated_wire(WireSettings(capture_ahead=0.4)))
    assert result.joined.clock_offset == pytest.approx(0.4, abs=0.001)
    assert joined(simulated_wire(WireSettings()))[0].joined.clock_offset == 0.0
    assert joined(simulated_wire(WireSettings(ids=False)))[0].joined.clock_offset is None


def test_stamps_that_are_none_do_not_move_the_clock() -> None:
    wire = simulated_wire(WireSettings())
    late = wire.rows.with_columns(request_start="time", proxy_start="time")  # $msec of the log, not of the request
    bare = wire.rows.with_columns(
        pl.lit(None, wire.rows.schema["time"]).alias(n) for n in ("request_start", "proxy_start")
    )
    for rows in (late, bare):
        result, matched = joined(Wire(wire.tracked, rows, wire.truth, wire.backends))
        assert result.joined.clock_offset == 0.0
        assert wrong(matched, "client") == 0
    ahead = simulated_wire(WireSettings(capture_ahead=5.0))
    bare = ahead.rows.with_columns(
        pl.lit(None, wire.rows.schema["time"]).alias(n) for n in ("request_start", "proxy_start")
    )
    result, _ = joined(Wire(ahead.tracked, bare, ahead.truth, ahead.backends))
    assert result.joined.clock_offset == pytest.approx(5.0, abs=0.002)


def test_equal_requests_are_not_joined_but_counted() -> None:
    # One client, one path, a thousand requests a second: of some nothing tells which is which.
    wire = simulated_wire(
        WireSettings(loopback=True, clients=1, paths=1, rate=1000.0, ids=False, wait=0.0005, service=0.001)
    )
    result, rows = joined(wire)
    assert wrong(rows, "client") + wrong(rows, "backend") <= 0.002 * len(wire.rows)
    assert result.joined.unjoined["ambiguous"] > 0
    assert result.joined.requests + result.joined.unjoined["ambiguous"] <= len(wire.rows)


def test_whole_connections_tell_what_single_requests_do_not() -> None:
    alike = {"loopback": True, "clients": 1, "paths": 1, "rate": 200.0, "wait": 0.0005, "service": 0.001}
    alone, _ = joined(simulated_wire(WireSettings(per_connection=1, **alike)))
    together, rows = joined(simulated_wire(WireSettings(per_connection=20, **alike)))
    assert wrong(rows, "client") == 0
    assert together.joined.both == 2_000 > alone.joined.both


def test_duplicate_id_is_resolved_by_time() -> None:
    wire = simulated_wire(WireSettings(requests=100))
    twice = pl.when(pl.col("request_id").is_in(["r3", "r90"])).then(pl.lit("same")).otherwise("request_id")
    exchanges = wire.tracked.exchanges.with_columns(request_id=twice)
    rows = wire.rows.with_columns(request_id=twice)
    wire = Wire(type(wire.tracked)(wire.tracked.connections, exchanges), rows, wire.truth, wire.backends)
    result, matched = joined(wire)
    assert wrong(matched, "backend") == 0
    assert result.joined.by == {"request_id": 100}


def test_common_id_is_not_an_identity() -> None:
    wire = simulated_wire(WireSettings(requests=2_000, rate=50.0))
    exchanges = wire.tracked.exchanges.with_columns(
        request_id=pl.when(pl.col("request_id").is_not_null()).then(pl.lit("constant"))
    )
    rows = wire.rows.with_columns(request_id=pl.lit("constant"))
    wire = Wire(type(wire.tracked)(wire.tracked.connections, exchanges), rows, wire.truth, wire.backends)
    result, matched = joined(wire)
    assert wrong(matched, "backend") == wrong(matched, "client") == 0
    assert result.joined.by == {"tuple": 2_000}


def test_two_requests_of_one_id_at_the_same_time_are_not_guessed() -> None:
    wire = simulated_wire(WireSettings(requests=200, rate=2_000.0))
    alike = wire.rows.sort("start")["request_id"][100:102].to_list()
    twice = pl.when(pl.col("request_id").is_in(alike)).then(pl.lit("same")).otherwise("request_id")
    stripped = wire.tracked.exchanges.with_columns(twice.alias("request_id"), stamp=pl.lit(None, pl.String))
    wire = Wire(
        type(wire.tracked)(wire.tracked.connections, stripped),
        wire.rows.with_columns(request_id=twice, uri=pl.lit("/"), method=pl.lit("PUT")),
        wire.truth,
        wire.backends,
    )
    result, _ = joined(wire)
    assert result.joined.by["request_id"] == 198
    assert result.joined.unjoined["ambiguous"] == 2


def test_records_outside_the_capture_s_time_are_not_missed() -> None:
    wire = simulated_wire(WireSettings(requests=1_000))
    early = wire.rows.with_columns(pl.col("time", "start", "proxy_start", "request_start") - pl.duration(hours=1))
    early = early.with_columns(request_id=pl.col("request_id") + "-early")
    rows = split_rows(pl.concat([wire.rows, early]).lazy()).rows
    result = timeline(wire.tracked, rows)
    assert result.joined.log == 1_000
    assert result.joined.unjoined == {}
    lost = timeline(
        wire.tracked, split_rows(wire.rows.with_columns(request_id=pl.lit("x"), uri=pl.lit("/no")).lazy()).rows
    )
    assert sum(lost.joined.unjoined.values()) > 0


def test_a_capture_of_backends_alone_is_not_held_to_what_nginx_answered_itself() -> None:
    wire = simulated_wire(WireSettings(requests=500))
    backend = wire.tracked.connections.filter(pl.col("server_port") == 8080)
    exchanges = wire.tracked.exchanges.join(backend.select("connection"), on="connection", how="semi")
    static = wire.rows.with_columns(
        upstream=pl.lit(None, pl.String), upstream_addr=pl.lit(None, pl.String), attempts=pl.lit(0, pl.Int16),
        request_id=pl.col("request_id") + "-static",
    )  # fmt: skip
    rows = split_rows(pl.concat([wire.rows, static]).lazy()).rows
    result = timeline(type(wire.tracked)(backend, exchanges), rows)
    assert result.joined.requests == 500
    assert result.joined.unjoined == {}


def test_an_address_behind_a_balancer_does_not_keep_a_record_from_its_request() -> None:
    wire = simulated_wire(WireSettings())
    hidden = wire.rows.with_columns(remote_addr=pl.lit("203.0.113.7"))
    result, rows = joined(Wire(wire.tracked, hidden, wire.truth, wire.backends))
    assert wrong(rows, "client") == 0
    assert result.joined.both >= 1_990


def test_an_ipv4_address_written_as_ipv6_is_the_same_address() -> None:
    rows = simulated_wire(WireSettings(requests=50)).rows
    mapped = rows.with_columns(remote_addr="::ffff:" + pl.col("remote_addr"))
    plain = split_rows(rows.lazy()).rows
    other = split_rows(mapped.lazy()).rows
    assert log_table(other)["remote_addr"].to_list() == log_table(plain)["remote_addr"].to_list()
    assert log_table(plain)["remote_addr"].str.contains(":").not_().all()


def test_without_a_log_both_sides_are_joined_by_path_and_time() -> None:
    wire = simulated_wire(WireSettings(paths=5))
    result = timeline(wire.tracked)
    both = result.frame.drop_nulls(["client_exchange", "backend_exchange"])
    truth = dict(wire.truth.select("client_exchange", "backend_exchange").iter_rows())
    assert len(both) >= 1_990
    assert all(
        truth[current] == there for current, there in both.select("client_exchange", "backend_exchange").iter_rows()
    )
    assert result.frame["joined_by"].cast(pl.String).unique().to_list() == ["none"]
    assert result.joined.log is None


def side(*rows: tuple[int, int, int, int], key: int = 1) -> pl.DataFrame:
    """(begin, end, group, number) in ms."""
    return pl.DataFrame(
        [(key, b * MS, e * MS, g, n) for b, e, g, n in rows],
        {"key": pl.UInt64, "begin": pl.Int64, "end": pl.Int64, "group": pl.Int64, "number": pl.Int64},
        orient="row",
    )


def pairs(first: pl.DataFrame, second: pl.DataFrame) -> tuple[list[tuple[int, int]], int]:
    result, unsure = paired(first, second, round(TOLERANCE * 1e9))
    return sorted(result.iter_rows()), unsure["second"].n_unique()


def test_joins_unique_matches_first() -> None:
    # The second could be either record, until the first has taken the only one it can be.
    assert pairs(side((0, 100, 1, 1), (4, 104, 2, 1)), side((0, 100, 1, 1), (8, 108, 2, 1))) == ([(0, 0), (1, 1)], 0)


def test_tie_is_not_joined() -> None:
    assert pairs(side((0, 100, 1, 1), (1, 101, 2, 1)), side((0, 101, 1, 1), (1, 100, 2, 1))) == ([], 2)


def test_other_keys_and_far_away_times_are_no_pairs() -> None:
    assert pairs(side((0, 100, 1, 1)), side((0, 100, 1, 1), key=2)) == ([], 0)
    assert pairs(side((0, 100, 1, 1)), side((50, 150, 1, 1))) == ([], 0)
    # A record that begins when the request does but lasts far beyond its answer is another one's.
    assert pairs(side((0, 100, 1, 1)), side((0, 150, 1, 1))) == ([], 0)
    # nginx read the request late: the ends tell.
    assert pairs(side((0, 100, 1, 1)), side((60, 100, 1, 1))) == ([(0, 0)], 0)


def test_stamps_go_by_magnitude() -> None:
    texts = {
        "t=1767225600.123": 1_767_225_600_123_000,
        "1767225600": 1_767_225_600_000_000,
        "t=1767225600123": 1_767_225_600_123_000,
        "t=1767225600123456": 1_767_225_600_123_456,
        "1767225600123456789": 1_767_225_600_123_456,
        "t=1767225600.123, t=1767225600.124": None,
        "t=17672256": None,
        "soon": None,
        "": None,
        "t=1767225600123456.5": None,
    }
    table = stamp_us(pl.Series(list(texts), dtype=pl.String))
    assert table.to_list() == list(texts.values())


def test_a_log_that_is_redacted_joins_as_one_that_is_whole() -> None:
    """nginx logs a path without its query and 127.0.0.0: the packets have both whole."""
    wire = simulated_wire(WireSettings())
    cut = wire.rows.with_columns(
        pl.col("remote_addr").str.replace(r"\.\d+$", ".0"), pl.col("uri").str.replace(r"\?.*", "")
    )
    whole_result, _ = joined(wire)
    result, rows = joined(Wire(wire.tracked, cut, wire.truth, wire.backends))
    assert wrong(rows, "client") == wrong(rows, "backend") == 0
    assert result.joined.both == whole_result.joined.both
    assert not result.frame["path"].str.contains("?", literal=True).any()


def test_a_log_that_keeps_no_address_joins_by_the_rest() -> None:
    wire = simulated_wire(WireSettings())
    none = wire.rows.with_columns(remote_addr=pl.lit(None, pl.String))
    result, rows = joined(Wire(wire.tracked, none, wire.truth, wire.backends))
    assert wrong(rows, "client") == 0
    assert result.joined.both >= 1_990
