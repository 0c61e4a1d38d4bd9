"""What the exporter counts of a log: the same as the split of that log says."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from clock_support import lines_of, requests_through
from export_support import exported, histograms_of, samples_of, value_of
from live_scene import Scene, lasting, poisson
from pool_simulator import PoolSettings, as_lines, simulated_pool, span_lines
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from sojourn.export.histograms import Histograms
from sojourn.export.listener import MetricsServer
from sojourn.export.metrics import BUCKETS, METRICS
from sojourn.model.frame import HALF_MICROSECOND
from sojourn.model.objective import objective_of
from watch_support import EPOCH, given_up, record

SHOP = Path(__file__).parents[3] / "docs" / "examples" / "shop.jsonl.gz"
GROUP = ("service", "route", "upstream", "status_class")


@pytest.fixture(scope="module")
def shop() -> pl.DataFrame:
    """The rows of the example's split."""
    rows = sojourn.split(SHOP).rows.collect()
    return rows.with_columns(status_class=(pl.col("status") // 100).cast(pl.String) + "xx")


@pytest.mark.parametrize(
    ("name", "column", "tolerance"),
    [
        ("sojourn_response_time_seconds", "request_time", 0.0),
        ("sojourn_queueing_delay_seconds", "queueing_delay", 1e-5),  # clock offsets are estimated from other requests
        ("sojourn_service_time_seconds", "service_time", 0.0),
    ],
)
def test_histograms_agree_with_the_split(shop: pl.DataFrame, name: str, column: str, tolerance: float) -> None:
    with exported([SHOP]) as exporter:
        histograms = {labels: each for metric, labels, each in histograms_of(exporter) if metric == name}
    bounds = sorted({*BUCKETS, 0.1})
    groups = shop.filter(pl.col(column).is_not_null()).partition_by(GROUP, as_dict=True)
    assert histograms.keys() == groups.keys()
    for group, rows in groups.items():
        values = rows[column].to_numpy()
        steps = (HALF_MICROSECOND - tolerance, HALF_MICROSECOND + tolerance)
        low, high = ([int((values <= bound + step).sum()) for bound in bounds] for step in steps)
        counted = histograms[group].counts.cumsum()
        assert counted[-1] == len(values)
        assert all(least <= count <= most for least, count, most in zip(low, counted, high, strict=False))
        assert histograms[group].sum == pytest.approx(values.clip(0).sum(), abs=len(values) * tolerance + 1e-9)


def test_counters_agree_with_the_split(shop: pl.DataFrame) -> None:
    with exported([SHOP], objectives=["queueing_delay:p95=0.1", "response_time:p99=1"]) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_requests_total") == len(shop)
    assert value_of(samples, "sojourn_requests_total", status="504") == shop.filter(pl.col("status") == 504).height
    unanswered = shop.filter(~pl.col("answered"))
    assert value_of(samples, "sojourn_abandoned_requests_total") == len(unanswered)
    held = unanswered.select(pl.col("unattributed").sum() + pl.col("connect").fill_null(0).sum()).item()
    assert value_of(samples, "sojourn_abandoned_seconds_total") == pytest.approx(held)
    met = shop.filter(pl.col("queueing_delay") <= 0.1 + HALF_MICROSECOND).height
    objective = {"objective": "queueing_delay:p95=0.1"}
    assert value_of(samples, "sojourn_objective_met_total", **objective) == met
    assert value_of(samples, "sojourn_objective_requests_total", **objective) == len(shop)  # abandoned ones miss it
    fast = shop.filter(pl.col("request_time") <= 1).height
    assert value_of(samples, "sojourn_objective_met_total", objective="response_time:p99=1") == fast
    assert value_of(samples, "sojourn_objective_ratio", objective="response_time:p99=1") == 0.99


def test_every_metric_of_the_table_is_exported(tmp_path: Path) -> None:
    """A log with everything: retries, abandoned requests, refused lines, negative delays, spans."""
    settings = PoolSettings(requests=3_000, timeout=1.0, rate=24.0)
    records, truth = simulated_pool(settings)
    log, spans = tmp_path / "access.jsonl", tmp_path / "spans.jsonl"
    end = max(float(each["time"]) for each in records)
    odd = [
        record(end, queueing_delay="-0.300000", request_id="negative"),
        record(end, upstream_addr="10.9.0.1:80, 10.9.0.2:80", upstream_status="502, 200", request_id="retried",
               upstream_connect_time="0.001, 0.001", upstream_header_time="0.020, 0.011",
               upstream_response_time="0.020, 0.011", request_time="0.040", request_start=f"{end - 0.04:.3f}"),
        b"no record\n",
    ]  # fmt: skip
    log.write_bytes(b"".join([*as_lines(records), *odd]))
    spans.write_bytes(b"".join(span_lines(truth)))
    # The routes of the two odd records are more than the limit.
    with exported([log], spans=[spans], limits={"route": 3}) as exporter:
        samples = samples_of(exporter)
        histograms = {name for name, _, _ in histograms_of(exporter)}
    # The work of abandoned requests holds workers, and the log does not show for how long.
    assert value_of(samples, "sojourn_signal_refused", reason="waits_not_reproduced") == 1
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(b"".join(as_lines(simulated_pool(PoolSettings(requests=1_000))[0])))
    with exported([plain]) as exporter:
        signals = {sample.name for sample in samples_of(exporter)}
    live = {key[0] for key in Scene([lasting(poisson(20.0, 0.0, 20.0), 0.1)]).run(20.0)}
    assert {sample.name for sample in samples} | histograms | signals | live == {metric.name for metric in METRICS}
    assert value_of(samples, "sojourn_log_refused_lines_total", reason="invalid_json") == 1
    assert value_of(samples, "sojourn_negative_queueing_delays_total") >= 1
    assert value_of(samples, "sojourn_retries_total") == 1
    assert value_of(samples, "sojourn_retry_seconds_total") == pytest.approx(0.020)
    assert value_of(samples, "sojourn_other_label_total", label="route") == 2
    abandoned = [each for each in truth.requests if each.status == 504]
    assert value_of(samples, "sojourn_abandoned_requests_total") == len(abandoned)
    wasted = sum(each.free - each.begun for each in abandoned)
    assert value_of(samples, "sojourn_wasted_seconds_total") == pytest.approx(wasted, rel=1e-3)


def test_negative_delays_do_not_decrease_the_sum(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    # An exact clock: the answer to the second record leaves no room for another offset.
    log.write_bytes(record(EPOCH, 0.2) + record(EPOCH + 1, 0.0, queueing_delay="-0.300000"))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
        delays = {labels: each for name, labels, each in histograms_of(exporter) if "queueing" in name}
    (histogram,) = delays.values()
    negative = value_of(samples, "sojourn_negative_queueing_delay_seconds_total")
    exact = sojourn.split(log).rows.collect()["queueing_delay"].sum()
    assert negative > 0
    assert histogram.sum - negative == pytest.approx(exact)
    assert histogram.counts[0] == 1


@pytest.mark.parametrize(("skew", "corrected"), [(0.0, False), (0.0004, False), (-0.0004, False), (0.137, True)])
def test_clocks_within_their_uncertainty_are_one_clock_and_no_delay_is_negative(
    tmp_path: Path, skew: float, corrected: bool
) -> None:
    """An app on nginx's machine: instants cut to a millisecond, hardly any queue."""
    log = tmp_path / "access.jsonl"
    log.write_bytes(lines_of(list(requests_through(lambda _: skew, requests=3000, rate=5, service=0.002))))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_negative_queueing_delays_total") == 0
    result = sojourn.split(log)
    assert "queue" not in result.audit.negative
    assert sojourn.blame(log).negative == 0
    (offset,) = result.rows.select(pl.col("clock_offset").unique()).collect()["clock_offset"]
    assert offset == (pytest.approx(skew, abs=1e-3) if corrected else 0.0)
    (pair,) = result.clock.to_dicts()
    assert pair["offset"] == pytest.approx(skew, abs=1e-3)
    assert pair["correction"] == offset


def test_switched_protocols_are_in_no_histogram(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(record(EPOCH) + record(EPOCH + 1, 0.0, 900.0, status="101"))
    with exported([log]) as exporter:
        assert value_of(samples_of(exporter), "sojourn_requests_total", status="101") == 1
        assert sum(each.count for name, _, each in histograms_of(exporter) if "response" in name) == 1


def test_labels_beyond_their_limit_are_other(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(record(EPOCH + n, route=f"/{n // 2}") for n in range(10)))
    with exported([log], limits={"route": 2}) as exporter:
        counts = {labels[1]: each.count for name, labels, each in histograms_of(exporter) if "response" in name}
        assert value_of(samples_of(exporter), "sojourn_other_label_total", label="route") == 6
    assert counts == {"/0": 2, "/1": 2, "other": 6}


def test_omitted_labels_are_empty(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(record(EPOCH + n, route=f"/{n}") for n in range(4)))
    with exported([log], labels=("service",)) as exporter:
        labels = [labels for name, labels, _ in histograms_of(exporter) if "response" in name]
    assert labels == [("shop", "", "", "")]


def test_too_many_combinations_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.export.labels.MOST_GROUPS", 3)
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(record(EPOCH + n, route=f"/{n}") for n in range(8)))
    with exported([log]) as exporter:
        routes = {labels[1]: each.count for name, labels, each in histograms_of(exporter) if "response" in name}
        assert value_of(samples_of(exporter), "sojourn_other_label_total", label="group") == 5
    assert len(routes) == 4
    assert routes["other"] == 5


def test_abandoned_request_misses_the_objective_only_if_it_waited_that_long(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(record(EPOCH) + given_up(EPOCH + 1, 0.05, "499") + given_up(EPOCH + 2, 3.0))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_objective_requests_total") == 3
    assert value_of(samples, "sojourn_objective_met_total") == 2


def test_repeated_record_counts_once(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(2 * record(EPOCH, request_id="a") + record(EPOCH, request_id="b"))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_requests_total") == 2
    assert value_of(samples, "sojourn_log_repeated_records_total") == 1
    assert value_of(samples, "sojourn_log_lines_total") == 3


def _answer(url: str, accept: str) -> tuple[str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def test_openmetrics_has_exemplars_and_parses(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    trace = "0123456789abcdef0123456789abcdef"
    log.write_bytes(record(EPOCH, 0.02) + record(EPOCH + 1, 0.02, trace_id=trace, route='/"\\\n'))
    with exported([log]) as exporter:
        server = MetricsServer(exporter, "127.0.0.1", 0)
        try:
            text, kind = _answer(server.url, "application/openmetrics-text; version=1.0.0")
            plain, plain_kind = _answer(server.url, "text/plain")
        finally:
            server.close()
    assert kind.startswith("application/openmetrics-text")
    assert plain_kind.startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    delay = families["sojourn_queueing_delay_seconds"]
    assert '/"\\\n' in {sample.labels["route"] for sample in delay.samples}
    exemplars = [(s.labels["le"], s.exemplar) for s in delay.samples if s.exemplar]
    assert [(bound, each.labels) for bound, each in exemplars] == [("0.025", {"trace_id": trace})]
    assert exemplars[0][1].value == pytest.approx(0.02, abs=0.002)
    assert float(exemplars[0][1].timestamp) == pytest.approx(EPOCH + 1, abs=0.001)
    assert "# {" not in plain
    assert not re.search(r"^sojourn_queueing_delay_seconds\{", plain, re.MULTILINE)


def test_native_histograms_in_openmetrics_2(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(record(EPOCH + n, 0.001 * n**2) for n in range(50)))
    with exported([log]) as exporter:
        server = MetricsServer(exporter, "127.0.0.1", 0)
        try:
            text, _ = _answer(server.url, "application/openmetrics-text; version=2.0.0")
        finally:
            server.close()
    natives = [
        sample.native_histogram
        for family in text_string_to_metric_families(text)
        if family.name == "sojourn_queueing_delay_seconds"
        for sample in family.samples
        if sample.native_histogram
    ]
    (native,) = natives
    delays = sojourn.split(log).rows.collect()["queueing_delay"].to_numpy()
    assert native.count_value == 50
    assert native.sum_value == pytest.approx(delays.clip(0).sum())
    counts: dict[int, int] = {}
    index, count, deltas = 0, 0, iter(native.pos_deltas)
    # The client library's parser does not read spans that begin below 1 s.
    (spans,) = re.findall(r"sojourn_queueing_delay_seconds\{.*positive_spans:\[([^]]*)", text)
    for offset, length in (map(int, span.split(":")) for span in spans.split(",")):
        index += offset
        for _ in range(length):
            count += next(deltas)
            counts[index] = count
            index += 1
    expected = np.ceil(np.log2(delays[delays > native.zero_threshold]) * 8).astype(int)
    assert counts == dict(zip(*(each.tolist() for each in np.unique(expected, return_counts=True)), strict=True))


def _quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> tuple[float, float]:
    """Return the bucket that holds a quantile."""
    place = int(np.searchsorted(np.cumsum(counts), share * sum(counts)))
    return (0.0, *bounds, np.inf)[place], (*bounds, np.inf)[place]


def test_histograms_of_random_values_hold_their_quantiles() -> None:
    rng = np.random.default_rng(5)
    values = rng.lognormal(-3, 1.5, 20_000)
    group = rng.integers(0, 4, len(values))
    histograms = Histograms(BUCKETS)
    for part in np.array_split(np.arange(len(values)), 7):
        histograms.add(group[part], values[part], ["t"] * len(part), np.zeros(len(part)))
    for number, histogram in histograms.each():
        own = values[group == number]
        for share in (0.5, 0.9, 0.99):
            low, high = _quantile(BUCKETS, histogram.counts.tolist(), share)
            assert low < np.quantile(own, share, method="inverted_cdf") <= high
        assert histogram.count == len(own)
        assert sum(histogram.positive.values()) + histogram.zero == len(own)


@pytest.mark.parametrize(
    ("text", "written", "share"),
    [
        ("p95=0.1", "queueing_delay:p95=0.1", 0.95),
        ("response_time:p999=2", "response_time:p999=2", 0.999),
        ("p99.9=0.1", "queueing_delay:p999=0.1", 0.999),
        ("p9=0.1", "queueing_delay:p9=0.1", 0.09),
    ],
)
def test_objective_reads_as_written(text: str, written: str, share: float) -> None:
    objective = objective_of(text)
    assert objective.text == written
    assert objective.share == pytest.approx(share)
    assert objective_of(written) == objective


@pytest.mark.parametrize("text", ["p95", "p0=1", "p9.5=1", "p95.=1", "x:p95=1", "p95=0", "p95=-1", "95=1", "p95=nan"])
def test_objective_refuses(text: str) -> None:
    with pytest.raises(sojourn.SojournError, match=re.escape(repr(text))):
        objective_of(text)
