"""What the functions read: paths, frames of Polars, pandas and Arrow, instants; and the names that a module lists."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from shop_example import EXAMPLES
from sojourn.model.errors import ArgumentError
from sojourn.model.instants import instant_of

SHOP, SPANS = str(EXAMPLES / "shop.jsonl.gz"), str(EXAMPLES / "shop-spans.jsonl.gz")
INSTANTS = ("time", "start", "request_start", "proxy_start")


@pytest.fixture(scope="module")
def shop() -> sojourn.SplitResult:
    return sojourn.split(SHOP, spans=SPANS, columns=("tenant", "uri", "remote_addr", "method"))


@pytest.fixture(scope="module")
def canonical() -> pl.DataFrame:
    return sojourn.read(SHOP).rows.collect()


@pytest.mark.parametrize("module", [sojourn, sojourn.plots])
def test_a_module_lists_its_public_names_and_no_other(module: Any) -> None:
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in dir(module))
    own = "sojourn.plots" if module is sojourn.plots else "sojourn"
    code = f"import importlib; m = importlib.import_module({own!r}); print(*dir(m))"
    names = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert names == sorted(module.__all__)


def as_pandas(rows: pl.DataFrame) -> Any:
    pytest.importorskip("pandas")
    return rows.to_pandas()


def as_pandas_of_numpy(rows: pl.DataFrame) -> Any:
    """A frame as pandas builds it without PyArrow: texts are objects, missing numbers NaN."""
    pandas = pytest.importorskip("pandas")
    columns = {}
    for series in rows:
        if series.dtype == pl.Datetime("us", "UTC"):
            columns[series.name] = pandas.to_datetime(series.to_list(), utc=True)
        elif series.dtype.is_numeric():
            columns[series.name] = series.to_numpy()
        else:
            columns[series.name] = pandas.Series(series.to_list(), dtype=object)
    return pandas.DataFrame(columns)


FRAMES: list[Callable[[pl.DataFrame], Any]] = [
    lambda rows: rows,
    lambda rows: rows.lazy(),
    as_pandas,
    as_pandas_of_numpy,
    lambda rows: rows.to_arrow(),
]


@pytest.mark.parametrize("frame", FRAMES, ids=["polars", "lazy", "pandas", "pandas-numpy", "arrow"])
def test_a_frame_has_the_same_results_as_the_log(
    shop: sojourn.SplitResult, canonical: pl.DataFrame, frame: Callable[[pl.DataFrame], Any]
) -> None:
    result = sojourn.split(frame(canonical), spans=SPANS)
    assert (result.components, result.response_time) == (shop.components, shop.response_time)
    assert result.verdict == shop.verdict
    assert result.records.accepted == shop.requests
    rows = frame(shop.rows.collect())
    assert sojourn.split(rows).components == shop.components
    assert sojourn.blame(rows, by="tenant").culprits.equals(sojourn.blame(shop, by="tenant").culprits)
    assert sojourn.depth(rows).overall == sojourn.depth(shop).overall
    read = sojourn.read(frame(canonical), columns=("time", "status"), since="2026-01-01T00:01:00Z")
    assert read.rows.collect().equals(
        sojourn.read(SHOP, columns=("time", "status"), since="2026-01-01T00:01:00Z").rows.collect()
    )


def test_a_pandas_frame_is_read_without_pyarrow(
    shop: sojourn.SplitResult, canonical: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = as_pandas_of_numpy(canonical)
    monkeypatch.setattr("sojourn.sources.frames.find_spec", lambda _: None)
    assert sojourn.read(frame).rows.collect().equals(canonical)
    assert sojourn.split(frame, spans=SPANS).components == shop.components


def test_every_function_reads_a_pandas_frame(shop: sojourn.SplitResult, tmp_path: Path) -> None:
    rows = as_pandas(shop.rows.collect())
    functions: list[Callable[..., Any]] = [
        sojourn.split, sojourn.goodput, sojourn.laws, sojourn.clock, sojourn.visits,
    ]  # fmt: skip
    for function in functions:
        assert function(rows)
    plain = EXAMPLES / "plain.log.gz"
    inferred = sojourn.infer(as_pandas(sojourn.read(plain).rows.collect()))
    assert inferred.to_dict()["backends"] == sojourn.infer(plain).to_dict()["backends"]
    assert sojourn.capacity(rows, slo="p99=5")
    assert sojourn.whatif(rows, {"workers": "+1"}).variants
    assert sojourn.compare(rows, at="2026-01-01T00:01:00Z").a.requests
    sojourn.write_report(rows, tmp_path / "r.html")
    sojourn.write_movie({"a": rows}, tmp_path / "m.html", until="2026-01-01T00:00:10Z")


def test_a_split_of_a_split_is_a_part_of_it(shop: sojourn.SplitResult) -> None:
    part = sojourn.split(shop, since="2026-01-01T00:01:00Z", where={"route": "/export"})
    read = sojourn.split(SHOP, spans=SPANS, since="2026-01-01T00:01:00Z", where={"route": "/export"})
    assert 0 < part.requests == read.requests
    assert part.components["queueing_delay"]["max"] == read.components["queueing_delay"]["max"]


@pytest.mark.parametrize(
    "change",
    [
        pl.col(INSTANTS).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"),
        pl.col(INSTANTS).dt.convert_time_zone("Asia/Kolkata").dt.strftime("%Y-%m-%d %H:%M:%S%.6f%:z"),
        pl.col(INSTANTS).dt.epoch("us") / 1e6,
        pl.col(INSTANTS).dt.convert_time_zone("America/St_Johns").dt.cast_time_unit("ns"),
    ],
    ids=["zulu", "offset", "unix", "zone"],
)
def test_instants_of_a_frame_have_every_form(canonical: pl.DataFrame, change: pl.Expr) -> None:
    rows = sojourn.read(canonical.with_columns(change)).rows.collect()
    assert rows.select(INSTANTS).equals(canonical.select(INSTANTS))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.col("time").dt.replace_time_zone(None), r"'time' has no time zone.*replace_time_zone.*tz_localize"),
        (pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S"), r"'time': '2026-01-01T00:00:00' is not an instant.*zone"),
        (pl.lit("soon").alias("start"), "'start': 'soon' is not an instant"),
        (pl.lit(True).alias("time"), "'time' is Boolean"),
    ],
)
def test_refuses_a_frame_with_instants_without_a_zone(canonical: pl.DataFrame, change: pl.Expr, words: str) -> None:
    for function in (sojourn.split, sojourn.depth, sojourn.read):
        with pytest.raises(sojourn.SojournError, match=words):
            function(canonical.with_columns(change))


def test_an_error_about_a_frame_lists_its_columns(canonical: pl.DataFrame, shop: sojourn.SplitResult) -> None:
    words = r"no column 'request_time'; is it requesttime for request_time\? Needed are time, .*; the columns are time,"
    for function in (sojourn.split, sojourn.blame, sojourn.read):
        with pytest.raises(sojourn.SojournError, match=words):
            function(canonical.rename({"request_time": "requesttime"}))
    with pytest.raises(sojourn.SojournError, match=r"no columns 'time', 'status', 'request_time'.*columns are a"):
        sojourn.split(pl.DataFrame({"a": [1]}))
    with pytest.raises(sojourn.SojournError, match=r"no column 'transfer'.* Needed"):
        sojourn.depth(shop.rows.drop("transfer"))
    mixed = as_pandas(canonical).astype({"route": object})
    mixed.loc[3, "route"] = 7
    with pytest.raises(sojourn.SojournError, match="several types"):
        sojourn.split(mixed)
    with pytest.raises(sojourn.SojournError, match="concatenate"):
        sojourn.split([canonical, canonical])  # type: ignore[list-item]
    with pytest.raises(sojourn.SojournError, match="not int"):
        sojourn.split(42)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda shop: sojourn.blame(shop, by="rout"),
        lambda shop: sojourn.blame(shop, where={"rout": "/a"}),
        lambda shop: sojourn.goodput(shop, by="rout"),
        lambda shop: sojourn.compare(shop, shop, by="rout"),
        lambda shop: sojourn.visits(shop, columns=["rout"]),
        lambda shop: sojourn.plots.split_by(shop, by="rout"),
        lambda shop: sojourn.split(shop, columns=["rout"]),
        lambda shop: sojourn.split(SHOP, where={"rout": "/a"}),
        lambda shop: sojourn.write_movie(shop, "m.html", by="rout"),
    ],
)
def test_a_wrong_name_of_a_column_names_the_nearest_and_lists_them(
    shop: sojourn.SplitResult, call: Callable[[sojourn.SplitResult], object]
) -> None:
    with pytest.raises(sojourn.SojournError, match=r"'rout'.*did you mean 'route'\? The columns are time, .*service"):
        call(shop)
    with pytest.raises(sojourn.SojournError, match=r"'rout'; did you mean 'route'\? Choose from route, upstream"):
        sojourn.split(SHOP, by="rout")


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-31T12:00:00Z", "2026-01-31 13:00+01:00", "20260131T120000Z", " 2026-01-31T12:00Z ", NOON,
        NOON.astimezone(timezone(timedelta(hours=-3))), NOON.timestamp(), int(NOON.timestamp()), "1769860800",
    ],
)  # fmt: skip
def test_an_instant_has_several_forms(value: Any) -> None:
    assert instant_of(value) == NOON
    assert instant_of(value).tzinfo is UTC


def test_timestamps_of_pandas_and_ages_are_instants() -> None:
    pandas = pytest.importorskip("pandas")
    assert type(instant_of(pandas.Timestamp("2026-01-31T13:00+01:00"))) is datetime
    assert instant_of(pandas.Timestamp("2026-01-31T13:00+01:00")) == NOON
    assert timedelta(minutes=9) < datetime.now(UTC) - instant_of("10m") < timedelta(minutes=11)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2026-01-31T12:00:00", r"no time zone.*2026-01-31T12:00:00Z for UTC"),
        ("2026-01-31", r"no time zone.*2026-01-31T00:00:00Z"),
        (datetime(2026, 1, 31, 12), r"no time zone.*tzinfo=UTC"),
        (NOON.timestamp() * 1e3, "divided by 1000"),
        ("yesterday", "'yesterday' is not an instant"),
        (float("nan"), "is not an instant"),
        (True, "is not an instant"),
        (NOON.date(), "is not an instant"),
        ("2026-13-45T00:00Z", "is not an instant"),
    ],
)
def test_refuses_an_instant_without_a_zone_and_what_is_none(value: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        instant_of(value)


def test_every_argument_that_is_an_instant_has_the_same_forms(shop: sojourn.SplitResult) -> None:
    window: dict[str, Any] = {"since": "2026-01-01T00:00:20Z", "until": "2026-01-01T01:00:30+01:00"}
    seconds: dict[str, Any] = {"since": 1767225620, "until": datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)}
    functions: tuple[Callable[..., Any], ...] = (sojourn.split, sojourn.depth, sojourn.goodput)
    for function in functions:
        assert 0 < function(shop, **window).requests == function(SHOP, spans=SPANS, **seconds).requests
    divided = sojourn.compare(shop, at="2026-01-01T00:01:00Z")
    assert divided.a.requests == sojourn.split(shop, until=1767225660).requests
    naive = datetime(2026, 1, 1)
    for argument in ("since", "until"):
        for function in (*functions, sojourn.laws, sojourn.read):
            with pytest.raises(sojourn.SojournError, match=f"^{argument}: .*no time zone"):
                function(SHOP, **{argument: naive})
    with pytest.raises(sojourn.SojournError, match=r"^at: .*no time zone"):
        sojourn.compare(shop, at=naive)
    first = shop.rows.select("time").collect().item(5, 0)
    assert sojourn.split(shop, where={"time": first.isoformat()}).requests == 1
    with pytest.raises(sojourn.SojournError, match=r"^time: .*no time zone"):
        sojourn.split(shop, where={"time": naive})
