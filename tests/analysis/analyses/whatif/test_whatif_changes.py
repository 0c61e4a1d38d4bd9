"""What-if in the difficult cases: streaming and time-outs, least connections, many clients in a closed loop."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from pool_simulator import PoolSettings, Route, as_lines, simulated_pool, span_lines
from sojourn.analyses.blame.section import blame_section
from sojourn.analyses.queue_source import QueueSource
from sojourn.analyses.whatif.analysis import whatif
from sojourn.analyses.whatif.closed_loop import closed_loop_of
from sojourn.analyses.whatif.workload import workload_of
from sojourn.model.errors import SojournError

STREAMING = PoolSettings(
    requests=8_000, rate=16.0, timeout=3.0, streams={"/product": 0.05, "/export": 2.0}, seed=3,
    routes={"/product": Route(0.60, 0.03), "/search": Route(0.35, 0.06), "/export": Route(0.05, 0.6)},
)  # fmt: skip
LEAST = PoolSettings(requests=12_000, balancer="least_conn", seed=3)
IN_TURN = PoolSettings(requests=12_000, rate=20.0, seed=3)


def rows_of(folder: Path, settings: PoolSettings) -> pl.LazyFrame:
    records, truth = simulated_pool(settings)
    (folder / "access.jsonl").write_bytes(b"".join(as_lines(records)))
    (folder / "spans.jsonl").write_bytes(b"".join(span_lines(truth)))
    columns = ("request_id", "remote_addr", "connection")
    return sojourn.split(folder / "access.jsonl", spans=[folder / "spans.jsonl"], columns=columns).rows


def responses(settings: PoolSettings, **change: object) -> np.ndarray:
    return np.array(simulated_pool(dataclasses.replace(settings, **change))[1].responses)  # type: ignore[arg-type]


def test_answers_that_have_begun_stream_beyond_the_timeout(tmp_path: Path) -> None:
    result = whatif(rows_of(tmp_path, STREAMING), [{"workers": 3}])
    recorded = simulated_pool(STREAMING)[1]
    late = sum(request.status == 504 for request in recorded.requests)
    assert late > 100
    assert len(recorded.responses) == result.requests
    assert max(recorded.responses) > 2 * 3.0  # answers that streamed beyond the time-out
    assert result.refused is None
    assert result.system["timeouts"] == pytest.approx(late, rel=0.03)
    assert all(abs(error) < 0.02 for error in result.error.values()), result.error
    truth = responses(STREAMING, workers=3)
    response = result.variants[0].response_time
    assert response["mean"] == pytest.approx(truth.mean(), rel=0.05)
    assert response["p99"] == pytest.approx(np.quantile(truth, 0.99), rel=0.05)


@pytest.mark.thorough
def test_least_connections_choose_other_backends_with_more_workers(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, LEAST)
    assert workload_of(rows).balancers == ("least_conn",)
    result = whatif(rows, [{"workers": "+1"}, {"balancer": "given", "workers": "+1"}, {"workers": "2"}])
    rebalanced, recorded, same = (
        next(v for v in result.variants if v.settings == one)
        for one in ({"workers": "+1"}, {"balancer": "given", "workers": "+1"}, {"workers": "2"})
    )
    truth = responses(LEAST, workers=3)
    assert rebalanced.response_time["mean"] == pytest.approx(truth.mean(), rel=0.02)
    assert rebalanced.response_time["p99"] == pytest.approx(np.quantile(truth, 0.99), rel=0.02)
    assert (recorded.response_time["mean"] or 0) > 1.03 * truth.mean()
    assert same.change["p99"] == 0.0
    assert any("least connections" in note for note in result.notes)


@pytest.mark.thorough
def test_round_robin_predictions_match_the_simulator(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, IN_TURN)
    assert workload_of(rows).balancers == ("round_robin",)
    result = whatif(rows, [{"load": 1.2}, {"backends": "+1"}])
    by = {next(iter(variant.settings)): variant.response_time for variant in result.variants}
    for name, truth in (("load", responses(IN_TURN, rate=24.0)), ("backends", responses(IN_TURN, backends=3))):
        assert by[name]["mean"] == pytest.approx(truth.mean(), rel=0.05)
        assert by[name]["p99"] == pytest.approx(np.quantile(truth, 0.99), rel=0.05)
    assert any("round robin" in note for note in result.notes)


def test_closed_loop_links_requests_of_the_same_client(tmp_path: Path) -> None:
    workload = workload_of(rows_of(tmp_path, dataclasses.replace(IN_TURN, requests=3_000)))
    loop = closed_loop_of(workload)
    client = workload.visits.frame["remote_addr"].to_numpy()
    follows = np.flatnonzero(loop.previous >= 0)
    assert len(follows) > 2_000
    assert (client[follows] == client[loop.previous[follows]]).all()


def test_default_pool_of_a_route_carries_its_load(tmp_path: Path) -> None:
    result = whatif(rows_of(tmp_path, IN_TURN))
    (own,) = [v for v in result.variants if "pool:/export" in v.settings]
    offered = 0.05 * IN_TURN.rate * 1.2
    assert int(own.settings["pool:/export"]) > offered


@pytest.mark.parametrize("pinned", [True, False])
def test_other_balancers_are_refused_where_clients_keep_to_one_backend(tmp_path: Path, pinned: bool) -> None:
    rows = rows_of(tmp_path, dataclasses.replace(IN_TURN, requests=3_000))
    group = pl.col("upstream").rank("dense") if pinned else pl.lit(0)
    address = pl.format("10.1.{}.{}", group.cast(pl.Int64), pl.int_range(pl.len()) % 7)
    rows = rows.with_columns(remote_addr=address)
    usual = [variant.settings for variant in whatif(rows).variants]
    assert ({"balancer": "least_conn"} in usual) == (not pinned)
    assert any("workers" in settings for settings in usual)
    assert whatif(rows, [{"balancer": "pinned"}]).variants
    if pinned:
        with pytest.raises(SojournError, match="balancer=pinned"):
            whatif(rows, [{"balancer": "shared_queue"}])


def test_queue_that_is_a_lower_bound_predicts_nothing(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, dataclasses.replace(IN_TURN, requests=2_000))
    assert whatif(rows, [{"workers": "+1"}]).refused is None
    refused = whatif(rows, [{"workers": "+1"}], queue_source=QueueSource(bounds=("10.0.0.1:8080",))).refused
    assert refused is not None
    assert "lower bound" in refused
    blamed = sojourn.blame(rows)
    assert blame_section(blamed).failures == ()
    bounded = dataclasses.replace(blamed, queue_source=QueueSource(bounds=("10.0.0.1:8080",)))
    assert "at least" in blame_section(bounded).failures[0]
