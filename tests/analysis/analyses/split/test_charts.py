"""The tables behind the charts: each figure against the same thing counted the plain way."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
import sojourn
from built_visits import built_visits, drawn_visits
from hypothesis import given, settings
from hypothesis import strategies as st
from shop_example import EXAMPLES
from sojourn.analyses.blame.analysis import blame_of
from sojourn.analyses.blame.charts_flow import blame_flow, flow_table
from sojourn.analyses.depth.charts_sequence import sequence_chart
from sojourn.analyses.depth.charts_workers import ABANDONED, WAITING, WORKING, Block, blocks_of
from sojourn.analyses.split.charts_curves import percentile_curve, percentile_table
from sojourn.analyses.split.charts_heatmap import Heat, heat, heatmap
from sojourn.analyses.split.charts_hexbin import hexbin, service_against_queueing
from sojourn.analyses.split.charts_ridgeline import ridge_table, ridgeline, ridges
from sojourn.analyses.split.charts_tail import tail_composition, tail_table
from sojourn.analyses.split.readings import heat as heat_reading
from sojourn.analyses.split.result import SplitResult
from sojourn.model.components import COMPONENTS
from sojourn.model.frame import INSTANT
from sojourn.model.measures import Hexagons, LogBins
from sojourn.present.drawing import specification
from sojourn.sources import frame_bins as binned
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.timeline.busiest_excerpt import Scene, scene_of
from sojourn.timeline.concurrency import bins_by_concurrency
from sojourn.timeline.visits import Visits, visits

BASE_US = 1_767_225_600_000_000


@pytest.fixture(scope="module")
def shop() -> SplitResult:
    columns = ("request_id", "uri", "header", "service", "tenant")
    return sojourn.split(EXAMPLES / "shop.jsonl.gz", spans=[EXAMPLES / "shop-spans.jsonl.gz"], columns=columns)


Request = tuple[int, float | None, float | None, int]
REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 30_000_000),  # arrival, us
        st.one_of(st.none(), st.floats(-0.01, 20)),  # queueing delay
        st.one_of(st.none(), st.floats(0, 20)),  # service time
        st.integers(0, 3),  # route
    ),
    min_size=1,
    max_size=40,
)


def split_frame(requests: list[Request]) -> pl.LazyFrame:
    """Rows as the measures see them, of (arrival, queueing delay, service time, route)."""
    table = pl.DataFrame(
        {
            "start": [BASE_US + each[0] for each in requests],
            "queueing_delay": [each[1] for each in requests],
            "service_time": [each[2] for each in requests],
            "request_time": [max(each[1] or 0, 0) + (each[2] or 0) + 0.001 for each in requests],
            "route": [None if each[3] == 3 else f"/{each[3]}" for each in requests],
        },
        schema={
            "start": pl.Int64, "queueing_delay": pl.Float64, "service_time": pl.Float64, "request_time": pl.Float64,
            "route": pl.String,
        },
    )  # fmt: skip
    return table.with_columns(pl.from_epoch("start", time_unit="us").cast(INSTANT)).lazy()


def naive_bin(value: float, bins: LogBins) -> int:
    return min(max(math.floor(math.log(max(value, bins.low) / bins.low) / bins.width), 0), bins.count - 1)


BINS = LogBins(0.002, 0.3, 25)


@settings(max_examples=40, deadline=None)
@given(REQUESTS)
def test_counts_over_time_are_those_of_counting(requests: list[Request]) -> None:
    width, table = binned.counts_over_time(split_frame(requests), "queueing_delay", 7, BINS)
    first, last = min(each[0] for each in requests), max(each[0] for each in requests)
    wide = max(-(-(last - first) // 7), 1)
    assert width == timedelta(microseconds=wide)
    expected = Counter(
        (BASE_US + first + (arrival - first) // wide * wide, naive_bin(waited, BINS))
        for arrival, waited, _, _ in requests
        if waited is not None
    )
    values = {(at, number): count for at, number, count in table.with_columns(pl.col("arrived").dt.epoch("us")).rows()}
    assert values == expected


@settings(max_examples=40, deadline=None)
@given(REQUESTS, st.integers(1, 4))
def test_bins_by_group_are_those_of_counting(requests: list[Request], limit: int) -> None:
    frame = split_frame(requests)
    table = binned.bins_by(frame, "route", limit, "request_time", BINS)
    rows = frame.collect().to_dicts()
    seconds: Counter[str] = Counter()
    for row in rows:
        seconds[row["route"] or "–"] += row["request_time"]
    # Groups of as good as the same seconds may come in either order.
    groups = table["group"].unique(maintain_order=True).to_list()
    assert len(groups) == min(limit, len(seconds))
    assert sorted((seconds[name] for name in groups), reverse=True) == pytest.approx(
        [value for _, value in seconds.most_common(limit)]
    )
    expected = Counter((row["route"] or "–", naive_bin(row["request_time"], BINS)) for row in rows)
    assert {(row["group"], row["bin"]): row["requests"] for row in table.to_dicts()} == {
        key: count for key, count in expected.items() if key[0] in groups
    }
    waits = sum(row["queueing_delay"] or 0 for row in rows if (row["route"] or "–") in groups)
    assert float(table["queueing delay"].sum()) == pytest.approx(waits)


@settings(max_examples=40, deadline=None)
@given(REQUESTS)
def test_a_request_belongs_to_the_nearest_hexagon(requests: list[Request]) -> None:
    lattice = Hexagons(0.001, 0.4, 0.9)
    table = binned.hexagons(split_frame(requests), lattice)
    pairs = [(served, waited) for _, waited, served, _ in requests if waited is not None and served is not None]
    assert table["requests"].sum() == len(pairs)
    assert ((table["across"] + table["up"]) % 2 == 0).all()
    for served, waited in pairs:
        x, y = (math.log(max(value, lattice.low) / lattice.low) for value in (served, waited))
        u, w = x / lattice.across * 2, y / lattice.up * 2
        near = [
            ((i - u) ** 2 + 3 * (j - w) ** 2, i, j)
            for i in range(math.floor(u) - 2, math.floor(u) + 4)
            for j in range(math.floor(w) - 2, math.floor(w) + 4)
            if (i + j) % 2 == 0
        ]
        least = min(near)[0]
        best = {(i, j) for distance, i, j in near if distance < least + 1e-9}
        assert best & set(table.select("across", "up").rows())


@settings(max_examples=30, deadline=None)
@given(REQUESTS)
def test_quantiles_are_linear_between_order_statistics(requests: list[Request]) -> None:
    frame = split_frame(requests)
    levels = [0.0, 0.25, 0.5, 0.99, 1.0]
    values = [each[1] for each in requests if each[1] is not None]
    expected = list(np.quantile(values, levels)) if values else [None] * len(levels)
    assert binned.quantiles(frame, "queueing_delay", levels) == pytest.approx(expected)


def test_the_percentile_curve_passes_through_the_figures(shop: SplitResult) -> None:
    table = percentile_table(shop.measures, shop.requests)
    for part, figures in (
        ("response time", shop.response_time),
        ("queueing delay", shop.components["queueing_delay"]),
        ("service time", shop.components["service_time"]),
    ):
        curve = table.filter(pl.col("part") == part)
        assert curve["seconds"].is_sorted()
        for name, one_in in (("p50", 2), ("p90", 10), ("p99", 100), ("p999", 1000)):
            (value,) = curve.filter(pl.col("one_in") == one_in)["seconds"]
            assert value == pytest.approx(figures[name])
    assert table["one_in"].max() == shop.requests
    labels = str(percentile_curve(table).to_dict()["encoding"]["x"])
    assert "99.9 %" in labels
    assert "[2, 10, 100, 1000]" in labels


def test_the_tail_is_divided_as_its_means_are(shop: SplitResult) -> None:
    table = tail_table(shop)
    rows = shop.served.collect()
    for (level,), part in table.group_by("level"):
        at_least = 0.0 if level == "all" else shop.response_time[str(level)]
        slow = rows.filter(pl.col("request_time") >= at_least)
        mean = float(slow["request_time"].mean())  # type: ignore[arg-type]
        assert part["requests"].unique().to_list() == [len(slow)]
        assert float(part["seconds"].sum()) == pytest.approx(mean)
        assert float(part["share"].sum()) == pytest.approx(1)
        queued = sum(float(slow[name].fill_null(0).mean()) for name in COMPONENTS if name in ("connect", "queue"))  # type: ignore[arg-type]
        assert part.filter(pl.col("cause") == "queueing")["seconds"].item() == pytest.approx(queued)
        assert part["end"].max() == pytest.approx(1)
    assert table["level"].unique(maintain_order=True).to_list() == ["all", "p50", "p90", "p99", "p999"]
    assert tail_composition(table).to_dict()


def test_a_level_of_the_same_requests_is_shown_once() -> None:
    result = sojourn.split(EXAMPLES / "shop.jsonl.gz", until=1_767_225_600.3)
    assert result.requests < 20
    counts = tail_table(result).group_by("level").agg(pl.col("requests").first())["requests"].to_list()
    assert len(set(counts)) == len(counts)


def test_every_request_is_in_the_heatmap_and_in_the_hexagons(shop: SplitResult) -> None:
    served = shop.served.collect()
    for column in ("request_time", "queueing_delay", "service_time"):
        result = heat(shop.measures, column)
        assert result.table["requests"].sum() == served[column].count()
        assert result.table["high"].max() == pytest.approx(served[column].max(), rel=1e-6)
    both = served.filter(pl.col("queueing_delay").is_not_null() & pl.col("service_time").is_not_null())
    assert hexbin(shop.measures).table["requests"].sum() == len(both)


def test_heatmap_finding_is_the_shortest_run_with_half_of_the_slow_requests() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    def reading_cells(*cells: tuple[int, float, int]) -> Heat:
        """Of (minute, seconds, requests)."""
        rows = [(begin + timedelta(minutes=at), low, 2 * low, count) for at, low, count in cells]
        table = pl.DataFrame(rows, schema=["arrived", "low", "high", "requests"], orient="row")
        return Heat("queueing_delay", table, timedelta(minutes=1))

    # Two windows an hour apart are no shorter a run than three in a row.
    apart = heat_reading(reading_cells((0, 4.0, 3), (60, 4.0, 3), (61, 4.0, 2), (62, 4.0, 2), (63, 4.0, 2)))
    assert "12 of 12 requests had a queueing delay of 4.0 s or more" in apart
    assert "arrived within 3 min, from 01:00:00 UTC on, of 1 h 4 min in all." in apart
    # Times in the lowest row may be 0.
    none = heat_reading(reading_cells((0, 0.001, 50), (1, 0.001, 50)))
    assert none == "None of 100 requests had a queueing delay above 2.00 ms."
    assert heat_reading(reading_cells((0, 0.001, 99), (1, 1.0, 1))).startswith(
        "1 of 100 requests had a queueing delay of 1.0 s"
    )


def test_ridges_hold_every_request_and_are_as_high_as_a_row(shop: SplitResult) -> None:
    result = ridges(shop.measures, "route")
    assert result.table["requests"].sum() == shop.requests
    table = ridge_table(result)
    heights = table.group_by("group").agg((pl.col("top").max() - pl.col("bottom").min()).alias("high"))
    assert heights["high"].to_list() == pytest.approx([0.88] * 3)
    assert table["group"].unique(maintain_order=True).to_list()[0] == result.table["group"][0]


def test_ridges_by_concurrency_count_who_was_there() -> None:
    # One worker, 1 s each; four come at once: they find 0, 1, 2 and 3 there.
    visits = built_visits(*((0, 0.0, float(n), float(n), n + 1.0, "/") for n in range(4)))
    frame = visits.frame.with_columns(
        request_time=pl.Series([n + 1.0 for n in range(4)]), queueing_delay=pl.Series([float(n) for n in range(4)]),
        service_time=pl.lit(1.0),
    )  # fmt: skip
    table = bins_by_concurrency(replace(visits, rows=frame), BINS)
    assert table.group_by("group", maintain_order=True).agg(pl.col("requests").sum()).rows() == [
        ("0", 1), ("1", 1), ("2–3", 2),
    ]  # fmt: skip
    assert float(table["total"].sum()) == 10


def test_every_second_of_waiting_flows_from_a_cause_to_a_victim(shop: SplitResult) -> None:
    result = blame_of(visits(shop.rows, columns=("header",)))
    table = flow_table(result)
    assert float(table["seconds"].sum()) == pytest.approx(result.waited, rel=1e-6)
    causes = dict(table.group_by("cause").agg(pl.col("seconds").sum()).rows())
    assert causes["imbalance"] == pytest.approx(result.imbalance)
    assert causes["/export"] == pytest.approx(result.culprits.row(0, named=True)["seconds"])
    victims = dict(table.group_by("victim").agg(pl.col("seconds").sum()).rows())
    assert victims == pytest.approx({row["victim"]: row["waited"] for row in result.victims.to_dicts()})
    assert blame_flow(result).to_dict()


def test_a_cause_has_one_colour_however_long_its_name_is() -> None:
    long = "/" + "a" * 200
    visits = built_visits((0, 0.0, 0.0, 0.0, 2.0, long), (0, 1.0, 2.0, 2.0, 3.0, "/b"))
    spec = blame_flow(blame_of(visits)).to_dict()
    domain = spec["layer"][0]["encoding"]["color"]["scale"]["domain"]
    drawn = {row["cause"] for rows in spec["datasets"].values() for row in rows if row.get("cause")}
    assert drawn <= set(domain)
    assert any(name.startswith("/aaa") for name in drawn)


@pytest.fixture(scope="module")
def scene(shop: SplitResult) -> Scene:
    return scene_of(visits(shop.rows, columns=("header", "service")), 300)


def test_a_scene_is_around_the_deepest_queue(scene: Scene) -> None:
    table = scene.timelines.table
    assert len(table) == 300
    assert scene.requests == 3087
    assert not scene.whole
    # The queue was deepest at 76 s of the log.
    assert scene.begin.second < 16 < scene.end.second
    assert table["number"].is_sorted()
    assert table["number"].is_unique().all()


def test_a_scene_of_one_backend_has_only_its_requests(shop: SplitResult) -> None:
    one = scene_of(visits(shop.rows, columns=("header", "service")), 24, one_backend=True)
    assert one.timelines.table["backend"].unique().to_list() == ["10.0.0.2:8080"]
    assert len(one.timelines.table) == 24
    chart = sequence_chart(one.timelines.table).to_dict()
    lanes = [row["lane"] for rows in chart["datasets"].values() for row in rows if row.get("what") == "waiting"]
    assert lanes
    assert all(1 < lane < 2 for lane in lanes)  # between nginx and the worker, however many wait


def test_few_requests_are_all_in_the_scene() -> None:
    visits = built_visits((0, 0.0, 0.0, 0.0, 2.0, "/"), (0, 1.0, 2.0, 2.0, 3.0, "/"), (0, 1.5, 3.0, 3.0, 4.0, "/"))
    ends = pl.Series([BASE_US + round(end * 1e6) for end in (2.0, 3.0, 4.0)])
    frame = visits.frame.with_columns(
        time=pl.from_epoch(ends, time_unit="us").cast(INSTANT), worker=pl.lit("7"), status=pl.lit(200)
    )
    scene = scene_of(replace(visits, rows=frame), 300)
    assert scene.whole
    (block,) = blocks_of(scene)
    assert bars(block, WORKING) == pytest.approx([2.0, 1.0, 1.0])
    assert bars(block, WAITING) == pytest.approx([1.0, 1.5])
    assert bars(block, ABANDONED) == []
    # Two wait at one time: the second stands behind the first.
    assert [place for place, _ in block.waiting] == [0, 1]


def test_a_worker_without_a_name_is_not_taken_for_one_with() -> None:
    visits = built_visits(*((0, 0.0, 0.0, 0.0, 2.0, "/") for _ in range(4)))
    ends = pl.Series([BASE_US + 2_000_000] * 4)
    names = ["1", "checkout-7f9c5d6b8-abcde", "checkout-7f9c5d6b8-fghij", None]
    frame = visits.frame.with_columns(
        time=pl.from_epoch(ends, time_unit="us").cast(INSTANT), worker=pl.Series(names), status=pl.lit(200)
    )
    (block,) = blocks_of(scene_of(replace(visits, rows=frame), 300))
    assert sorted(block.lanes) == sorted([*names[:3], "–"])
    assert bars(block, WORKING) == pytest.approx([2.0] * 4)
    (block,) = blocks_of(scene_of(replace(visits, rows=frame.with_columns(worker=pl.lit(None, pl.String))), 300))
    assert sorted(block.lanes) == ["1", "2", "3", "4"]


def bars(block: Block, what: str) -> list[float]:
    every = [bar for _, bar in block.waiting] + [bar for lane in block.lanes.values() for bar in lane]
    return [bar["to"] - bar["from"] for bar in every if bar["what"] == what]


def test_workers_hold_one_request_at_a_time_and_lanes_are_theirs(scene: Scene) -> None:
    blocks = blocks_of(scene)
    assert [block.name for block in blocks] == ["10.0.0.1:8080", "10.0.0.2:8080"]
    for block in blocks:
        assert len(block.lanes) == 2  # two workers each; requests without a worker get a place in their lanes
        for lane in block.lanes.values():
            ordered = sorted(lane, key=lambda bar: bar["from"])
            assert all(one["to"] <= two["from"] + 0.005 for one, two in itertools.pairwise(ordered))
    assert sum(bars(blocks[1], ABANDONED)) > 10  # the workers of the second served disconnected clients
    assert sum(bars(blocks[0], ABANDONED)) < 0.01


def test_a_chart_of_everything_there_can_be_is_bounded() -> None:
    """Times over five decades, evenly, of more routes than are drawn: as many cells and bars as there are."""
    rng = np.random.default_rng(1)
    count = 60_000
    waited, served = (np.exp(rng.uniform(math.log(1e-3), math.log(60), count)) for _ in range(2))
    routes = [f"/a/long/name/of/a/route/{n}/with/a/tail" for n in range(12)]
    rows = zip(rng.integers(0, 3_600_000_000, count).tolist(), waited.tolist(), served.tolist(), strict=True)
    frame = split_frame([(*row, n % 3) for n, row in enumerate(rows)])
    measures = FrameMeasures(
        frame.with_columns(route=pl.Series(rng.choice(routes, count)), status=pl.lit(200)).collect().lazy()
    )
    for chart in (
        heatmap(heat(measures)),
        service_against_queueing(hexbin(measures)),
        ridgeline(ridges(measures, "route")),
        percentile_curve(percentile_table(measures, count)),
    ):
        size = len(json.dumps(specification(chart), separators=(",", ":")))
        assert 15_000 < size < 150_000


@settings(max_examples=30, deadline=None)
@given(drawn_visits(), st.integers(1, 12), st.booleans())
def test_a_scene_of_any_visits_can_be_laid_out(visits: Visits, most: int, one_backend: bool) -> None:
    if not len(visits):
        return
    ends = pl.Series([BASE_US + round(max(end, 0) * 1e6) for end in visits.wait_end.tolist()])
    frame = visits.frame.with_columns(
        time=pl.from_epoch(ends, time_unit="us").cast(INSTANT),
        worker=pl.when(pl.int_range(pl.len()) % 3 > 0).then(pl.lit("7")),
        status=pl.when(pl.int_range(pl.len()) % 4 == 0).then(504).otherwise(200),
    )
    scene = scene_of(replace(visits, rows=frame), most, one_backend=one_backend)
    table = scene.timelines.table
    assert 1 <= len(table) <= most
    assert table["number"].is_sorted()
    assert table["number"].n_unique() == len(table)
    if one_backend:
        assert table["backend"].n_unique() == 1
    until = (scene.end - scene.begin).total_seconds()
    for block in blocks_of(scene):
        for bar in [*(bar for _, bar in block.waiting), *(bar for lane in block.lanes.values() for bar in lane)]:
            assert 0 <= bar["from"] <= bar["to"] <= until + 1e-3
