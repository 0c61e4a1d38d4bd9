"""What the packets of a request mean: the waits that are known, and the bounds of the others."""

from __future__ import annotations

import polars as pl
import pytest
from sojourn.analyses.pcap.frames import CONNECTIONS, EXCHANGES, TIMELINE
from sojourn.analyses.pcap.result import PROXY_COLUMNS
from sojourn.analyses.pcap.timeline import Timelines, timeline
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.components.split import split_rows
from wire_simulator import Wire, WireSettings, simulated_wire

MS = 1e-3


def with_truth(wire: Wire, timelines: Timelines) -> pl.DataFrame:
    truth = wire.truth.rename({"accept_wait": "true_wait", "syn_dropped": "true_dropped"})
    return timelines.frame.join(truth.drop("client_exchange"), on="backend_exchange")


def joined(wire: Wire) -> pl.DataFrame:
    rows = split_rows(wire.rows.lazy()).rows
    return with_truth(wire, timeline(wire.tracked, rows))


def test_the_frame_has_the_columns_it_promises_also_of_nothing() -> None:
    nothing = TrackingResult(pl.DataFrame(schema=CONNECTIONS), pl.DataFrame(schema=EXCHANGES))
    for result in (timeline(nothing), timeline(simulated_wire(WireSettings(requests=50)).tracked)):
        assert dict(result.frame.schema) == {**TIMELINE, **PROXY_COLUMNS}
    wire = simulated_wire(WireSettings(requests=50))
    rows = split_rows(wire.rows.lazy()).rows
    result = timeline(nothing, rows)
    assert len(result.frame) == 0
    assert result.joined.requests == 0


@pytest.mark.parametrize("log", [True, False], ids=["log", "wire alone"])
@pytest.mark.parametrize("skew", [0.0, 0.25, -0.1])
def test_wait_for_accept_with_any_offset_of_the_app_s_clock(log: bool, skew: float) -> None:
    wire = simulated_wire(WireSettings(skew=skew))
    rows = joined(wire) if log else with_truth(wire, timeline(wire.tracked))
    assert len(rows) == 2_000
    # The offset of the clocks is known to within the way there and back of an idle backend.
    assert (rows["accept_wait"] - rows["true_wait"]).abs().max() < 0.2 * MS
    assert (rows["syn_dropped"] - rows["true_dropped"]).abs().max() < 1e-6


def test_the_wait_lies_between_its_bounds() -> None:
    rows = joined(simulated_wire(WireSettings(ack_dropped=0.05, loopback=True)))
    bounded = rows.filter(pl.col("first"))
    assert (bounded["accept_wait_lower"] <= bounded["true_wait"] + 1e-6).all()
    assert (bounded["accept_wait_upper"] >= bounded["true_wait"] - 1e-6).all()
    # A final ACK that was dropped proves a second that was not spent in the accept queue.
    proven = bounded.filter(pl.col("accept_wait_lower") > 0)
    assert 50 < len(proven) < 150
    assert proven["accept_wait_lower"].to_list() == pytest.approx([1.0] * len(proven))
    assert (proven["syn_queue"] > 1).all()


def test_a_dropped_syn_is_no_part_of_the_wait_for_accept() -> None:
    rows = joined(simulated_wire(WireSettings(syn_dropped=0.2, loopback=True)))
    dropped = rows.filter(pl.col("syn_dropped") > 0.5)
    assert len(dropped) > 300
    assert (dropped["accept_wait"] - dropped["true_wait"]).abs().max() < 0.2 * MS
    assert dropped["syn_queue"].max() < MS


def test_only_the_first_request_of_a_connection_has_a_handshake() -> None:
    rows = joined(simulated_wire(WireSettings(keepalive=4, syn_dropped=0.0)))
    later = rows.filter(~pl.col("first"))
    waits = ("syn_dropped", "syn_queue", "accept_wait_lower", "accept_wait_upper", "accept_wait", "backend_syn")
    assert len(later) == 1_500
    assert all(later[name].is_null().all() for name in waits)
    assert later["app_start"].is_not_null().all()
    assert rows.filter("first")["accept_wait"].is_not_null().all()


def test_without_a_service_time_the_upper_bound_holds_it() -> None:
    wire = simulated_wire(WireSettings(answers=False))
    result = timeline(wire.tracked)
    assert result.frame["accept_wait"].is_null().all()
    assert result.joined.without_service == 2_000
    rows = with_truth(wire, result)
    service = wire.rows["response"].mean()
    assert isinstance(service, float)
    assert (rows["accept_wait_upper"] > rows["true_wait"]).all()
    assert timeline(simulated_wire(WireSettings()).tracked).joined.without_service == 0


def test_a_request_that_nginx_reads_late_lay_unread() -> None:
    wire = simulated_wire(WireSettings(proxy_late=0.1))
    rows = joined(wire)
    late = rows.filter(pl.col("proxy_unread_right") > 0)
    assert len(late) > 100
    assert (late["proxy_unread"] - late["proxy_unread_right"]).abs().max() < 1.001 * MS
    others = rows.filter(pl.col("proxy_unread_right") == 0)
    assert others["proxy_unread"].max() < MS


def test_the_bound_of_the_proxy_s_accept_queue_is_one_with_a_log_and_without() -> None:
    wire = simulated_wire(WireSettings(proxy_late=0.1, ids=True))
    rows = joined(wire)
    assert (rows["proxy_accept_wait_upper"] >= rows["proxy_unread_right"]).all()
    bare = timeline(wire.tracked).frame["proxy_accept_wait_upper"].drop_nulls()
    assert len(bare) > 0.9 * len(rows)
    assert (bare.min() >= 0.0, bare.max() >= 30 * MS) == (True, True)


def test_a_clock_that_stands_elsewhere_moves_the_log_not_the_packets() -> None:
    rows = joined(simulated_wire(WireSettings(capture_ahead=0.4)))
    assert (rows["accept_wait"] - rows["true_wait"]).abs().max() < 0.2 * MS
    assert rows["proxy_unread"].abs().max() < 1.2 * MS


def test_legs_from_stamps_log_and_options() -> None:
    def legs(timelines: Timelines) -> dict[str, str]:
        return dict(timelines.connections.select("endpoint", pl.col("leg").cast(pl.String)).unique().iter_rows())

    expected = {"10.0.0.1:80": "client", "10.0.1.1:8080": "backend", "10.0.1.2:8080": "backend"}
    wire = simulated_wire(WireSettings(requests=200))
    assert legs(timeline(wire.tracked)) == expected
    bare = simulated_wire(WireSettings(requests=200, stamps=False))
    assert legs(timeline(bare.tracked)) == dict.fromkeys(expected, "unknown")
    assert legs(timeline(bare.tracked, split_rows(bare.rows.lazy()).rows)) == expected
    assert legs(timeline(bare.tracked, backends=[":8080"])) == expected
    one = timeline(bare.tracked, backends=["10.0.1.1:8080"])
    assert legs(one) == {**expected, "10.0.1.2:8080": "unknown"}


def test_where_nothing_names_a_backend_every_server_has_its_bounds() -> None:
    result = timeline(simulated_wire(WireSettings(requests=200, stamps=False, ids=False)).tracked)
    assert len(result.frame) == 400
    assert result.frame["accept_wait_upper"].is_not_null().all()


def test_addresses_of_the_sixth_version_are_in_brackets() -> None:
    wire = simulated_wire(WireSettings(requests=100))
    six = wire.tracked.connections.with_columns(
        pl.when(pl.col("server_port") == 8080).then(pl.lit("fd00::7")).otherwise("server").alias("server")
    )
    rows = wire.rows.with_columns(upstream=pl.lit("[fd00::7]:8080"), upstream_addr=pl.lit("[fd00::7]:8080"))
    result = timeline(TrackingResult(six, wire.tracked.exchanges), split_rows(rows.lazy()).rows)
    backends = result.connections.filter(pl.col("leg") == "backend")["endpoint"]
    assert backends.unique().to_list() == ["[fd00::7]:8080"]
    assert result.joined.requests == 100


@pytest.mark.parametrize("value", [1e300, -1e300, float("inf"), float("nan"), 4e12, -4e12])
def test_durations_that_are_none_raise_nothing(value: float) -> None:
    wire = simulated_wire(WireSettings(requests=200))
    third = pl.col("exchange") % 3 == 0
    exchanges = wire.tracked.exchanges.with_columns(
        queueing_delay=pl.when(third).then(pl.lit(value)).otherwise("queueing_delay"),
        service_time=pl.when(third).then(pl.lit(value)).otherwise("service_time"),
        stamp=pl.when(third).then(pl.lit("t=9999999999999999")).otherwise("stamp"),
    )
    assert len(timeline(TrackingResult(wire.tracked.connections, exchanges)).frame) == 200


@pytest.mark.parametrize("value", [1e8, -1e8])
def test_absurd_durations_of_the_log_raise_nothing(value: float) -> None:
    wire = simulated_wire(WireSettings(requests=200))
    long = pl.lit(abs(value))
    rows = split_rows(wire.rows.with_columns(app_queueing_delay=pl.lit(value), header=long, response=long).lazy()).rows
    assert len(timeline(wire.tracked, rows).frame) == 200
    bare = wire.tracked.exchanges.with_columns(request_id=pl.lit(None, pl.String))
    assert len(timeline(TrackingResult(wire.tracked.connections, bare), rows).frame) >= 200
