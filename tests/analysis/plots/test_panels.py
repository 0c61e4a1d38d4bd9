"""Charts by a column, of several logs, with bands, and with limits of their axes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from shop_example import EXAMPLES
from sojourn import plots
from sojourn.analyses.split.result import SplitResult
from sojourn.cli import app
from sojourn.present import drawing
from typer.testing import CliRunner
from wide_tables import one_of

SHOP, SPANS, RAMP = EXAMPLES / "shop.jsonl.gz", EXAMPLES / "shop-spans.jsonl.gz", EXAMPLES / "ramp.jsonl.gz"
DIVIDED = [kind for kind, each in plots.KINDS.items() if each.panels]
SEVERAL = [kind for kind, each in plots.KINDS.items() if each.logs]
BANDED = [kind for kind, each in plots.KINDS.items() if each.band]


@pytest.fixture(scope="module")
def shop() -> SplitResult:
    return sojourn.split(SHOP, spans=SPANS, columns=["tenant"])


@pytest.fixture(scope="module")
def ramp() -> SplitResult:
    return sojourn.split(RAMP)


def spec_of(requests: Any, kind: str, **options: Any) -> dict[str, Any]:
    return drawing.specification(plots.picture(requests, kind, **options).chart())


def tables(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a specification or of a part of it."""
    every = spec["datasets"]
    return [row for rows in every.values() for row in rows]


def rows_of(part: dict[str, Any], every: dict[str, Any]) -> list[dict[str, Any]]:
    names = [each["data"]["name"] for each in (part, *part.get("layer", ())) if "data" in each]
    return [row for name in names for row in every[name]]


def test_every_distribution_can_be_divided_and_show_several_logs() -> None:
    assert {"distribution", "ccdf", "percentiles", "tail", "heatmap", "hexbin", "over_time"} == set(DIVIDED)
    assert set(SEVERAL) == {*DIVIDED, "ridgeline", "split_by"}
    assert BANDED == ["ccdf", "percentiles"]


@pytest.mark.parametrize(("kind", "by"), one_of(3, DIVIDED, ["route", "tenant", "status"]))
def test_has_a_panel_for_each_value_of_a_column(shop: SplitResult, kind: str, by: str, tmp_path: Path) -> None:
    values = shop.rows.group_by(pl.col(by).cast(pl.String)).agg(pl.col("request_time").sum()).collect()
    expected = values.sort("request_time", descending=True)[by].to_list()
    picture = plots.picture(shop, kind, by=by)
    spec = drawing.specification(picture.chart())
    assert [part["title"]["text"] for part in spec["concat"]] == expected
    assert by in picture.title
    assert all(f"{value}: " in picture.reading for value in expected)
    plots.save(picture, tmp_path / "chart.svg", width=500, height=300)
    drawn = (tmp_path / "chart.svg").read_text()
    assert all(value in drawn for value in expected)


def test_a_panel_counts_the_requests_of_its_value(shop: SplitResult) -> None:
    counts = dict(shop.rows.group_by("route").agg(pl.len()).collect().iter_rows())
    spec = spec_of(shop, "distribution", by="route")
    for part in spec["concat"]:
        bars = {(row["low"], row["requests"]) for row in rows_of(part, spec["datasets"])}
        assert sum(requests for _, requests in bars) == counts[part["title"]["text"]]
    for part in spec_of(shop, "heatmap", by="route")["concat"]:
        every = spec_of(shop, "heatmap", by="route")["datasets"]
        assert sum(row["requests"] for row in rows_of(part, every)) == counts[part["title"]["text"]]


def test_the_curves_of_a_panel_are_those_of_its_requests(shop: SplitResult) -> None:
    spec = spec_of(shop, "percentiles", by="tenant")
    for part in spec["concat"]:
        tenant = part["title"]["text"]
        own = sojourn.quantile(shop.rows.filter(pl.col("tenant") == tenant), 0.9)
        (row,) = [
            row for row in rows_of(part, spec["datasets"]) if row["part"] == "response time" and row["one_in"] == 10
        ]
        assert row["seconds"] == pytest.approx(own, rel=1e-5)
    domains = {json.dumps(part["encoding"]["x"]["scale"]["domain"]) for part in spec["concat"]}
    assert len(domains) == 1
    assert spec["resolve"]["scale"] == {"x": "shared", "y": "shared", "color": "shared"}


def test_panels_of_many_values_are_the_largest(tmp_path: Path) -> None:
    rows = sojourn.read(SHOP).rows.collect()
    many = rows.with_columns(route=pl.format("/r{}", pl.int_range(pl.len()) % 30))
    picture = plots.picture(many, "ccdf", by="route")
    assert len(drawing.specification(picture.chart())["concat"]) == 8
    assert "22 further values" in picture.caption
    nothing = rows.with_columns(route=pl.lit(None, pl.String))
    (part,) = spec_of(nothing, "ccdf", by="route")["concat"]
    assert part["title"]["text"] == "route –"


@pytest.mark.parametrize("kind", SEVERAL)
def test_two_logs_are_in_one_chart(shop: SplitResult, ramp: SplitResult, kind: str, tmp_path: Path) -> None:
    picture = plots.picture({"busy": shop, "calm": ramp}, kind)
    spec = drawing.specification(picture.chart())
    if kind in BANDED:
        rows = tables(spec)
        assert {row["part"] for row in rows} == {"busy", "calm"}
        assert spec["encoding"]["color"]["scale"]["domain"] == ["busy", "calm"]
        colours, dashes = (spec["encoding"][name]["scale"]["range"] for name in ("color", "strokeDash"))
        assert len(set(colours)) == 2
        assert dashes[0] != dashes[1]
    else:
        assert [part["title"]["text"] for part in spec["concat"]] == ["busy", "calm"]
    assert "busy: " in picture.reading
    assert "calm: " in picture.reading
    plots.save(picture, tmp_path / "chart.png", scale=0.5)
    assert (tmp_path / "chart.png").stat().st_size > 2_000


def test_lines_of_logs_are_of_the_chosen_time(shop: SplitResult, ramp: SplitResult) -> None:
    for of, column in (("response", "request_time"), ("service", "service_time")):
        rows = tables(spec_of({"a": shop, "b": ramp}, "ccdf", of=of))
        longest = max(row["seconds"] for row in rows if row["part"] == "a")
        assert longest == pytest.approx(shop.components.get(column, shop.response_time)["max"], rel=1e-5)
    alone = tables(spec_of(shop, "percentiles", of="queueing"))
    assert {row["part"] for row in alone} == {"queueing delay"}


def test_several_logs_by_a_column(shop: SplitResult, ramp: SplitResult) -> None:
    spec = spec_of({"a": shop, "b": ramp}, "ccdf", by="status")
    assert [part["title"]["text"] for part in spec["concat"]] == ["200", "504"]
    assert {row["part"] for row in rows_of(spec["concat"][0], spec["datasets"])} == {"a", "b"}
    titles = [part["title"]["text"] for part in spec_of({"a": shop, "b": ramp}, "heatmap", by="status")["concat"]]
    assert titles == ["200 · a", "200 · b", "504 · a"]
    chart = plots.ccdf({"a": SHOP, "b": sojourn.read(RAMP).rows.collect()}, by="status")
    assert len(chart.to_dict()["concat"]) == 2


@pytest.mark.parametrize("kind", BANDED)
def test_a_band_is_around_its_line(shop: SplitResult, kind: str) -> None:
    spec = spec_of(shop, kind, band=True)
    band, line = (rows_of(part, spec["datasets"]) for part in spec["layer"])
    assert spec["layer"][0]["mark"]["type"] == "area"
    axis, value = ("seconds", "exceeding") if kind == "ccdf" else ("one_in", "seconds")
    # Of requests with the same time, the first point has the share of those that took as long or longer.
    lines = {(row["part"], row[axis]): row[value] for row in sorted(line, key=lambda row: row[value])}
    assert len({row["part"] for row in band}) == 3
    compared = [row for row in band if (row["part"], row[axis]) in lines]
    assert len(compared) > 100
    for row in compared:
        assert row["low"] <= lines[row["part"], row[axis]] * 1.02 + 1e-4
        assert row["high"] >= lines[row["part"], row[axis]] * 0.98 - 1e-4
    assert "95 %" in plots.picture(shop, kind, band=True).caption
    assert "95 %" not in plots.picture(shop, kind).caption


def domains(spec: dict[str, Any], channel: str) -> list[tuple[Any, Any]]:
    """Ends of all scales of an axis, of every part."""
    parts = [spec]
    ends = []
    while parts:
        part = parts.pop()
        parts += [each for name in ("layer", "concat", "vconcat", "hconcat") for each in part.get(name, ())]
        scale = part.get("encoding", {}).get(channel, {}).get("scale")
        if scale:
            ends.append((scale.get("domainMin"), scale.get("domainMax")))
    return ends


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ccdf", {}), ("ccdf", {"band": True}), ("ccdf", {"by": "route"}), ("percentiles", {"by": "route"}),
        ("hexbin", {}), ("hexbin", {"by": "tenant"}), ("distribution", {}), ("throughput", {}),
    ],
)  # fmt: skip
def test_axes_end_at_their_limits(shop: SplitResult, kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    picture = plots.picture(shop, kind, xlim=(0.01, 2), ylim=(0.02, None), **options)
    spec = drawing.specification(picture.chart())
    assert set(domains(spec, "x")) == {(0.01, 2)}
    assert set(domains(spec, "y")) == {(0.02, None)}
    assert '"clip": true' in json.dumps(spec)
    plots.save(picture, tmp_path / "chart.svg")
    assert set(domains(spec_of(shop, kind, **options), "x")) <= {(None, None)}


def test_limits_of_a_time_axis_are_instants(shop: SplitResult) -> None:
    spec = spec_of(shop, "heatmap", xlim=("2026-01-01T00:01:00Z", None), by="route")
    assert set(domains(spec, "x")) == {(1767225660000.0, None)}
    assert set(domains(spec_of(shop, "over_time", xlim=(None, 1767225660)), "x")) == {(None, 1767225660000.0)}
    assert plots.depth(shop, ylim=(0, 10)).to_dict()


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("ccdf", {"xlim": (0, 1)}, "xlim: the axis is logarithmic"),
        ("ccdf", {"xlim": (2, 1)}, "xlim: 2 is not below 1"),
        ("ccdf", {"ylim": ("a", 1)}, "ylim: 'a' is not a number"),
        ("hexbin", {"ylim": (-1, 1)}, "ylim: the axis is logarithmic"),
        ("tail", {"ylim": (0, 1)}, "ylim: the vertical axis of this chart has names"),
        ("depth_on_arrival", {"ylim": (0, 1)}, "vertical axes of several quantities"),
        ("over_time", {"xlim": ("2026-01-01T00:01:00", None)}, "xlim: .* no time zone"),
        ("workers", {"by": "route"}, "by: workers cannot be divided"),
        ("tail", {"band": True}, "band: tail cannot have a confidence band"),
        ("tail", {"of": "service"}, "of: tail cannot be drawn of one time"),
        ("ccdf", {"by": "rout"}, "'rout'.*did you mean 'route'"),
        ("ccdff", {}, "'ccdff' is not a chart; did you mean 'ccdf'"),
    ],
)
def test_refuses_options_that_the_chart_does_not_have(
    shop: SplitResult, kind: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(sojourn.SojournError, match=words):
        plots.picture(shop, kind, **options).chart()


def test_refuses_logs_that_cannot_be_compared(shop: SplitResult) -> None:
    with pytest.raises(sojourn.SojournError, match="logs: workers cannot show several logs"):
        plots.picture({"a": shop, "b": shop}, "workers")
    with pytest.raises(sojourn.SojournError, match="7 logs in one chart: it has lines for 6"):
        plots.picture({str(n): shop for n in range(7)}, "ccdf")
    with pytest.raises(sojourn.SojournError, match="concurrency is of one log"):
        plots.picture({"a": shop, "b": shop}, "ridgeline", by="concurrency")
    nothing = sojourn.read(SHOP).rows.collect().clear()
    with pytest.raises(sojourn.SojournError, match="no requests to draw in b"):
        plots.picture({"a": shop, "b": nothing}, "ccdf")


def test_a_chart_is_drawn_of_every_kind_of_requests(shop: SplitResult) -> None:
    expected = tables(plots.ccdf(sojourn.split(SHOP)).to_dict())
    for requests in (SHOP, [str(SHOP)], sojourn.read(SHOP), sojourn.read(SHOP).rows):
        assert tables(plots.ccdf(requests).to_dict()) == expected
    assert plots.blame(shop.rows, by="tenant").to_dict()


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, ["plot", *map(str, arguments)])


def test_the_command_draws_panels_logs_bands_and_limits(tmp_path: Path) -> None:
    out = tmp_path / "chart.json"
    done = run(SHOP, "ccdf", "--by", "tenant", "--out", out)
    assert done.exit_code == 0, done.output
    assert [part["title"]["text"] for part in json.loads(out.read_text())["concat"]] == ["acme", "globex", "initech"]
    done = run(SHOP, "percentiles", "--against", RAMP, "--band", "--xlim", "2,1000", "--ylim", ",1", "--out", out)
    assert done.exit_code == 0, done.output
    spec = json.loads(out.read_text())
    assert set(domains(spec, "x")) == {(2, 1000)}
    assert set(domains(spec, "y")) == {(None, 1)}
    assert {row["part"] for row in tables(spec)} == {"shop.jsonl.gz", "ramp.jsonl.gz"}
    done = run(SHOP, "tail", "--against", RAMP, "--label", "shop", "--label", "ramp", "--json")
    assert json.loads(done.stdout)["reading"].startswith("shop: ")


def test_the_order_kind_source_is_read_with_a_warning(tmp_path: Path) -> None:
    expected = run(SHOP, RAMP, "ccdf", "--json")
    assert expected.stderr == ""
    done = run("ccdf", SHOP, RAMP, "--json")
    assert done.exit_code == 0
    assert done.stdout == expected.stdout
    assert f"sojourn plot {SHOP} {RAMP} ccdf" in " ".join(done.stderr.split())
    dashed = run("split-by", SHOP, "--json")
    assert json.loads(dashed.stdout)["kind"] == "split_by"
    assert "SOURCE… KIND" in dashed.stderr
    assert run("ccdf").exit_code == 2


def test_a_column_in_a_configuration_file_is_for_kinds_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sojourn.toml").write_text('[plot]\nby = "status"\n')
    for kind, panels in (("ccdf", 2), ("depth", 0)):
        done = CliRunner().invoke(app, ["--config", "sojourn.toml", "plot", str(SHOP), kind, "--out", "chart.json"])
        assert done.exit_code == 0, done.output
        assert len(json.loads(Path("chart.json").read_text()).get("concat", ())) == panels
