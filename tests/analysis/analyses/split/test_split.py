"""The split of whole logs: against an exact simulator's truth, and what it says about odd ones."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
import sojourn
from analysis_support import BASE, line
from simulator import BAD_LINES, EPOCH, Settings, Truth, as_lines, simulated_log
from sojourn.components.split import checked_split


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    records, truth = simulated_log(Settings(requests=8_000))
    lines = as_lines(records)
    rng = random.Random(11)
    for raw, _ in BAD_LINES:
        lines.insert(rng.randrange(len(lines)), raw)
    log = tmp_path_factory.mktemp("simulated") / "access.jsonl"
    log.write_bytes(b"".join(lines))
    return log, truth


def test_every_mean_is_the_truth_within_a_millisecond(simulated: tuple[Path, Truth]) -> None:
    log, truth = simulated
    result = sojourn.split(log)
    assert (result.records.accepted, result.records.rejected) == (8_000, len(BAD_LINES))
    for name in ("upload", "retries", "connect", "queue", "service_time", "transfer", "send"):
        assert result.means[name] == pytest.approx(truth.mean(name), abs=1e-3), name
        assert result.components[name]["mean"] == pytest.approx(truth.mean(name), abs=1e-3), name
    assert result.response_time["mean"] == pytest.approx(truth.mean("response"), abs=1e-3)
    offsets = dict(result.clock.select("upstream", "offset").iter_rows())
    assert offsets == pytest.approx(truth.skews, abs=1e-3)
    assert result.audit.identity_max_error < 1e-6
    assert result.audit.little_ratio == pytest.approx(1, abs=0.03)


def test_the_json_has_the_contracts_shape(simulated: tuple[Path, Truth]) -> None:
    result = sojourn.split(simulated[0], by=("route", "upstream", "worker", "status", "service")).to_dict()
    assert set(result) >= {
        "records", "window", "clock", "response_time", "components", "queueing_share", "tail", "audit", "verdict", "by",
    }  # fmt: skip
    figures = {"mean", "p50", "p90", "p99", "p999", "max"}
    assert set(result["response_time"]) == figures
    assert set(result["components"]) == {
        "queueing_delay", "service_time", "upload", "proxy_queue", "retries", "connect", "queue", "network", "transfer",
        "redirected", "send", "unattributed",
    }  # fmt: skip
    assert all(set(summary) == figures for summary in result["components"].values())
    assert set(result["window"]) == {"from", "to", "seconds"}
    assert datetime.fromisoformat(result["window"]["from"]).tzinfo is not None
    assert {"upstream", "offset", "uncertainty", "requests"} <= set(result["clock"][0])
    assert {"identity_max_error", "negative_queue", "little", "stationary"} <= set(result["audit"])
    assert {"arrival_rate", "mean_in_system", "ratio"} <= set(result["audit"]["little"])
    assert set(result["by"]) == {"route", "upstream", "worker", "status", "service"}
    (route,) = result["by"]["route"]
    assert route["route"] == "/orders/:id"
    assert route["requests"] == 8_000
    assert set(route["response_time"]) == set(route["queueing_delay"]) == set(route["service_time"]) == figures
    assert sum(row["requests"] for row in result["by"]["upstream"]) == 8_000


def test_means_and_tail_add_up_to_the_response_time(simulated: tuple[Path, Truth]) -> None:
    result = sojourn.split(simulated[0])
    assert sum(result.means.values()) == pytest.approx(result.response_time["mean"], abs=1e-9)
    slow = result.served.filter(pl.col("request_time") >= result.response_time["p99"]).collect()
    tail = result.tail["p99"]
    assert tail["requests"] == len(slow)
    assert sum(tail["components"].values()) == pytest.approx(slow["request_time"].mean(), abs=1e-9)


def test_parquet_of_a_split_splits_the_same(simulated: tuple[Path, Truth], tmp_path: Path) -> None:
    first = sojourn.split(simulated[0], all_columns=True)
    first.write_parquet(tmp_path / "r.parquet")
    again = sojourn.split(tmp_path / "r.parquet").to_dict()
    expected = first.to_dict()
    for key in ("response_time", "components", "means", "clock", "tail", "verdict", "by"):
        assert again[key] == expected[key]
    stored = pl.read_parquet(tmp_path / "r.parquet")
    assert {"queueing_delay", "queue_source", "uri", "request_id"} <= set(stored.columns)
    assert not (tmp_path / "r.parquet.partial").exists()


def test_since_until_and_where_select_by_arrival(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(
        b"".join(line(time=f"{BASE + i}.500", request_time="0.500", service=f"s{i % 2}") for i in range(10))
    )
    begin = datetime.fromtimestamp(BASE + 2, UTC)
    assert sojourn.split(log, since=begin, until=BASE + 5).requests == 3
    assert sojourn.split(log, where={"service": "s1"}).requests == 5
    assert sojourn.split(log, where={"uri": "/"}).requests == 10
    with pytest.raises(sojourn.SojournError, match="no column 'colour'"):
        sojourn.split(log, where={"colour": "red"})
    with pytest.raises(sojourn.SojournError, match="cannot group by 'uri'"):
        sojourn.split(log, by=["uri"])


def app_silent(count: int) -> bytes:
    return b"".join(
        line(
            time=f"{BASE + i}.500", request_time="0.500", request_start=f"{BASE + i}.100", upstream_addr="a:80",
            upstream_connect_time="0.001", upstream_header_time="0.350", upstream_response_time="0.380",
        )
        for i in range(count)
    )  # fmt: skip


def test_an_app_without_headers_still_gets_what_can_be_known_and_how_to_add_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(app_silent(20))
    result = sojourn.split(log)
    assert result.components["connect"]["mean"] == pytest.approx(0.001)
    assert result.components["upload"]["mean"] == pytest.approx(0.1)
    assert result.components["send"]["mean"] == pytest.approx(0.02)
    assert result.components["unattributed"]["mean"] == pytest.approx(0.349)
    assert result.components["queue"]["mean"] is None
    assert result.verdict.cause == "unknown"
    assert any("X-Queueing-Delay" in note and "sojourn doctor" in note for note in result.notes)


def test_an_upgraded_connection_is_counted_but_does_not_stretch_the_distribution(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(app_silent(20) + line(time=f"{BASE + 7200}.000", request_time="7000.000", status="101"))
    result = sojourn.split(log)
    assert (result.requests, result.audit.upgraded) == (21, 1)
    assert result.response_time["max"] == 0.5


@pytest.mark.parametrize("content", [b"", b"bad\n"])
def test_nothing_to_split(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(content)
    result = sojourn.split(log)
    shape = result.to_dict()
    assert (shape["requests"], shape["window"], shape["queueing_share"]) == (0, None, None)
    assert shape["response_time"]["p99"] is None
    assert "nothing to judge" in result.verdict.sentence


def test_one_request(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(line())
    result = sojourn.split(log)
    assert result.response_time["p99"] == 0.1
    assert result.audit.little_ratio is None
    assert result.audit.stationary is None


def test_a_frame_of_ones_own(tmp_path: Path) -> None:
    table = pl.DataFrame({"time": [datetime.fromtimestamp(EPOCH, UTC)], "status": [200], "request_time": [1.5]})
    assert checked_split(table)["send"].to_list() == [1.5]
