"""Every kind of chart: drawn from a split, read in a sentence, written as a file; and ``sojourn plot``."""

from __future__ import annotations

import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
import sojourn
from analysis_support import BASE, line
from PIL import Image
from shop_example import EXAMPLES
from sojourn import plots
from sojourn.analyses import report_columns
from sojourn.analyses.split.pictures import split_pictures
from sojourn.analyses.split.result import SplitResult
from sojourn.cli import app
from sojourn.model.errors import SojournError
from sojourn.model.formatting import duration
from sojourn.plots.kinds import SPLIT
from sojourn.present import drawing, palette
from sojourn.present.palette import QUEUEING, SERVICE
from sojourn.present.section import Picture
from typer.testing import CliRunner

SHOP = EXAMPLES / "shop.jsonl.gz"
SPANS = EXAMPLES / "shop-spans.jsonl.gz"
HOSTILE = "</script><b>\x1b[31m\x00\u202e'\"\\ datum.x ${x} " + "long" * 60
LARGEST = 150_000  # bytes of a specification: forty of them are a report of a few megabytes


@pytest.fixture(scope="module")
def shop() -> SplitResult:
    return sojourn.split(SHOP, spans=[SPANS], columns=(*report_columns(), "tenant"))


@pytest.fixture(scope="module")
def pictures(shop: SplitResult) -> dict[str, Picture]:
    return {kind: plots.picture(shop, kind) for kind in plots.KINDS}


@pytest.fixture(scope="module")
def hostile() -> SplitResult:
    """Two busy routes of one worker; names as an enemy would choose them."""
    lines = []
    for n in range(60):
        start, served = BASE + n * 0.1, 0.08 if n % 2 else 0.15
        lines.append(
            line(
                time=f"{start + 0.5:.3f}", request_time="0.500", request_start=f"{start:.3f}", request_id=f"r{n}",
                upstream_addr="10.0.0.1:80", upstream_status="200", upstream_connect_time="0.000",
                upstream_header_time="0.500", upstream_response_time="0.500", service_time=f"{served:.6f}",
                queueing_delay=f"{0.5 - served:.6f}", worker=HOSTILE, route=HOSTILE if n % 2 else "/" + HOSTILE,
            )
        )  # fmt: skip
    file = io.BytesIO(b"".join(lines))
    return _split_of(file)


def _split_of(file: io.BytesIO) -> SplitResult:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "access.jsonl"
        log.write_bytes(file.getvalue())
        return sojourn.split(log, columns=report_columns())


def contrast(one: str, other: str) -> float:
    """Contrast of two colours (WCAG 2.2, 1.4.3)."""

    def light(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("kind", plots.KINDS)
def test_every_kind_is_drawn_and_read(pictures: dict[str, Picture], kind: str) -> None:
    picture = pictures[kind]
    assert picture.title
    assert picture.caption
    assert re.search(r"\d", picture.reading), picture.reading
    spec = drawing.specification(picture.chart())
    assert len(json.dumps(spec)) < LARGEST
    assert sum(map(len, drawing.tables_of(spec))) > 2
    svg = drawing.svg(spec)
    ElementTree.fromstring(svg)
    assert len(re.findall("<path|<text", svg)) > 10


@pytest.mark.parametrize("kind", plots.KINDS)
def test_every_kind_is_a_function_of_the_same_name(shop: SplitResult, kind: str) -> None:
    function = getattr(plots, kind)
    assert function.__doc__
    if plots.KINDS[kind].section == SPLIT:
        assert function(shop).to_dict()


def test_there_is_no_other_function() -> None:
    assert set(plots.__all__) - {"KINDS", "OF", "Kind", "picture", "save"} == set(plots.KINDS)
    assert not hasattr(plots, "pie")


@pytest.mark.parametrize("kind", ["workers", "hexbin", "depth_on_arrival"])
def test_the_files_are_what_their_names_say(pictures: dict[str, Picture], kind: str, tmp_path: Path) -> None:
    for suffix in ("svg", "png", "pdf", "json"):
        plots.save(pictures[kind], tmp_path / f"chart.{suffix}", title="A title", theme="dark")
    assert "A title" in (tmp_path / "chart.svg").read_text()
    with Image.open(tmp_path / "chart.png") as image:
        assert image.format == "PNG"
        assert image.getpixel((2, 2))[:3] == (0x15, 0x18, 0x1C)
        usual = image.width
    pdf = (tmp_path / "chart.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert json.loads((tmp_path / "chart.json").read_text())["title"] == "A title"
    plots.save(pictures[kind], tmp_path / "chart.png", scale=1, width=300, height=200)
    with Image.open(tmp_path / "chart.png") as image:
        assert image.width < usual / 2
        assert image.getpixel((2, 2))[:3] == (255, 255, 255)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["chart.json", "chart.pdf", "chart.png", "chart.svg"]


def test_a_size_of_a_chart_of_two_is_that_of_both(pictures: dict[str, Picture], tmp_path: Path) -> None:
    plots.save(pictures["depth_on_arrival"], tmp_path / "c.json", width=300, height=100)
    spec = json.loads((tmp_path / "c.json").read_text())
    assert [(part["width"], part["height"]) for part in spec["vconcat"]] == [(300, 50), (300, 50)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_data_are_seen_on_the_background(theme: str) -> None:
    colours = palette.THEMES[theme]
    assert contrast(colours.text, colours.background) >= 7
    assert contrast(colours.line, colours.background) >= 3
    assert min(contrast(colour, colours.background) for colour in (QUEUEING, SERVICE)) >= 3
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_lines_that_cross_differ_in_more_than_colour(pictures: dict[str, Picture]) -> None:
    for kind in ("ccdf", "percentiles", "whatif_responses", "goodput"):
        encodings = re.findall(
            r'"strokeDash": \{.*?"range": (\[\[.*?\]\])', json.dumps(pictures[kind].chart().to_dict())
        )
        assert encodings, kind
        dashes = json.loads(encodings[0])
        assert len({str(dash) for dash in dashes}) == len(dashes)


# The hostile log is too short for laws and capacity, and has no abandoned request.
DRAWN = [
    kind for kind in plots.KINDS if kind not in ("utilisation", "capacity", "throughput", "whatif", "whatif_responses")
]


@pytest.mark.parametrize("kind", DRAWN)
def test_names_in_a_log_are_text(hostile: SplitResult, kind: str) -> None:
    picture = plots.picture(hostile, kind)
    spec = drawing.specification(picture.chart(), "dark")
    svg = drawing.svg(spec)
    shown = json.dumps(spec, ensure_ascii=False) + picture.reading + picture.title
    for character in ("\x1b", "\x00", "\u202e"):
        assert character not in shown
        assert character not in svg
    assert "<b>" not in svg


def test_the_pictures_of_a_page_take_the_colour_of_its_text(pictures: dict[str, Picture]) -> None:
    svg = drawing.svg(drawing.specification(pictures["ccdf"].chart(), "page"))
    assert 'fill="currentColor"' in svg
    assert "#222222" not in svg


def test_the_report_has_a_picture_of_each_kind_of_the_split(shop: SplitResult) -> None:
    keys = [picture.key for picture in split_pictures(shop)]
    assert keys == [
        "time", "distribution", "tail", "split-by-route", "percentiles", "ccdf", "heatmap", "hexbin",
        "ridgeline-by-route",
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "pie"}, "'pie' is not a chart; choose from distribution"),
        ({"kind": "heatmap", "of": "upload"}, "'upload' is not one of response, queueing, service"),
        ({"kind": "split_by", "by": "nothing_such"}, "column 'nothing_such' was not read"),
        ({"kind": "flow", "by": "nothing_such"}, "column 'nothing_such' was not read"),
    ],
)
def test_rejects_charts_that_cannot_be_drawn(shop: SplitResult, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SojournError, match=re.escape(words)):
        plots.picture(shop, **options)


def test_a_file_of_another_kind_is_refused(pictures: dict[str, Picture], tmp_path: Path) -> None:
    for name, words in (("chart.gif", "not as .gif"), ("chart", r"\.pdf and \.json$")):
        with pytest.raises(SojournError, match=words):
            plots.save(pictures["ccdf"], tmp_path / name)
    with pytest.raises(SojournError, match="'blue' is not light or dark"):
        plots.save(pictures["ccdf"], tmp_path / "a.svg", theme="blue")
    with pytest.raises(SojournError, match="cannot be written"):
        plots.save(pictures["ccdf"], tmp_path / "no" / "a.svg")
    assert list(tmp_path.iterdir()) == []


def test_log_without_queueing_delay() -> None:
    """Without the app's values only the response time is known."""
    rows = [line(time=f"{BASE + n}.500", request_time=f"0.{n + 1}00") for n in range(8)]
    result = _split_of(io.BytesIO(b"".join(rows)))
    for picture in split_pictures(result):
        assert re.search(r"\d", picture.reading), picture.key
        assert drawing.svg(drawing.specification(picture.chart()))
    for kind in ("ccdf", "distribution", "tail"):
        assert "queueing delay is unknown" in plots.picture(result, kind).reading, kind
    for kind in ("over_time", "split_by"):
        assert "queueing" not in plots.picture(result, kind).reading
    assert plots.picture(result, "hexbin").reading == "No request has both a queueing delay and a service time."
    assert drawing.svg(drawing.specification(plots.hexbin(result)))
    with pytest.raises(SojournError, match="nothing to draw as flow"):
        plots.picture(result, "flow")


def test_draws_and_describes_requests_of_zero_duration() -> None:
    row = line(
        time=f"{BASE}.500", request_time="0.000", request_start=f"{BASE}.500", upstream_addr="10.0.0.1:80",
        upstream_status="200", upstream_connect_time="0.000", upstream_header_time="0.000",
        upstream_response_time="0.000", service_time="0.000000", queueing_delay="0.000000", worker="1",
    )  # fmt: skip
    result = _split_of(io.BytesIO(row * 3))
    for kind in (
        *(kind for kind, each in plots.KINDS.items() if each.section == SPLIT),
        "workers",
        "sequence",
        "depth",
    ):
        outcome = plots.picture(result, kind)
        assert re.search(r"\d", outcome.reading), kind
        assert drawing.svg(drawing.specification(outcome.chart())), kind
    assert plots.picture(result, "heatmap").reading == "None of 3 requests had a response time above 1.03 ms."


def test_draws_and_describes_one_request() -> None:
    row = line(
        time=f"{BASE + 1}.000", request_time="0.500", request_start=f"{BASE}.500", upstream_addr="10.0.0.1:80",
        upstream_status="200", upstream_connect_time="0.000", upstream_header_time="0.500",
        upstream_response_time="0.500", service_time="0.500000", queueing_delay="0.000000", worker="1",
    )  # fmt: skip
    result = _split_of(io.BytesIO(row))
    read = {}
    for kind in (
        *(kind for kind, each in plots.KINDS.items() if each.section == SPLIT),
        "workers",
        "sequence",
        "depth",
    ):
        outcome = plots.picture(result, kind)
        read[kind] = outcome.reading
        assert drawing.svg(drawing.specification(outcome.chart())), kind
    assert read["distribution"].startswith("The only request took 500 ms; ")
    assert read["percentiles"] == "There are too few requests for a percentile beyond the median: 1."
    assert "all requests arrived in one window" in read["over_time"]
    assert read["workers"] == "1 request held workers for 500 ms; no request waited."
    assert read["sequence"].startswith("Of 1 request 1 was served; ")
    assert "of 1 worker was busy" in read["depth"]


def test_a_legend_stands_above_and_a_chart_can_be_laid_over_another(shop: SplitResult) -> None:
    over = plots.ccdf(shop) + alt.Chart().mark_rule().encode(x=alt.datum(0.5))
    spec = over.to_dict()
    assert {spec["layer"][0]["encoding"][name]["legend"]["orient"] for name in ("color", "strokeDash")} == {"top"}
    heat = plots.heatmap(shop).to_dict()["encoding"]["color"]["legend"]
    assert (heat["orient"], heat["tickCount"]) == ("top", 3)
    assert "legend" in plots.utilisation(shop).to_dict()["layer"][0]["encoding"]["color"]
    assert plots.flow(shop).to_dict()["layer"][0]["encoding"]["color"]["legend"] is None


def test_readings_say_what_the_figures_are(shop: SplitResult, pictures: dict[str, Picture]) -> None:
    wait = shop.components["queueing_delay"]["p99"]
    assert wait == pytest.approx(4.0, abs=0.01)
    assert "One request in a hundred waited 4.0 s or more" in pictures["ccdf"].reading
    slow = shop.served.filter(pl.col("request_time") >= shop.response_time["p99"]).collect()
    share = float(slow["queueing_delay"].sum()) / float(slow["request_time"].sum())
    assert f"it was {share:.0%}".replace("%", " %") in pictures["tail"].reading
    assert "/export caused 54 %" in pictures["flow"].reading
    assert pictures["percentiles"].reading.startswith("From the median to the 99.9th percentile, queueing delay grows ")
    assert "the most waiting was at 10.0.0.2:8080, 10 min 10 s in all." in pictures["workers"].reading
    assert "64 to 127" not in pictures["depth_on_arrival"].reading


def run(*arguments: str) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["plot", *arguments])


def test_the_command_writes_the_file_and_reads_it(tmp_path: Path) -> None:
    files = [tmp_path / "a.svg", tmp_path / "b.png"]
    result = run(str(SHOP), "split-by", "--by", "tenant", *(f"--out={file}" for file in files), "--theme", "dark")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("tenant ")
    assert files[0].read_text().startswith("<svg")
    with Image.open(files[1]) as image:
        assert image.width > 1200


def test_the_command_answers_with_the_data(tmp_path: Path) -> None:
    result = run(str(SHOP), "ccdf", "--json", "--out", str(tmp_path / "a.svg"))
    document = json.loads(result.stdout)
    assert document["kind"] == "ccdf"
    assert document["files"] == [str(tmp_path / "a.svg")]
    assert document["reading"].startswith("One request in a hundred")
    (rows,) = document["data"]
    assert {row["part"] for row in rows} == {"queueing delay", "service time", "response time"}
    assert all(0 < row["exceeding"] <= 1 for row in rows)


def test_a_window_and_a_condition_are_drawn(tmp_path: Path) -> None:
    document = json.loads(run(str(SHOP), "sequence", "--until", "2026-01-01T00:00:01Z", "--json").stdout)
    assert document["caption"].startswith("All ")
    document = json.loads(run(str(SHOP), "distribution", "--where", "route=/export", "--json").stdout)
    assert "173 requests" in document["reading"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x", "ccdd", "--out", "a.svg"], "did you mean ccdf?"),
        (["x", "ccdf"], "name the file to write"),
        (["x", "ccdf", "--out", "a.gif"], "not as .gif"),
        (["x", "ccdf", "--out", "a.svg", "--theme", "blue"], "light or dark"),
        (["x", "heatmap", "--out", "a.svg", "--of", "upload"], "not one of response"),
        (["x", "ccdf", "--out", "a.png", "--scale", "99"], "--scale"),
        (["x", "flow", "--out", "a.png", "--by", "a b"], "cannot be a column"),
        (
            ["x", "depth", "--out", "a.svg", "--by", "route"],
            "cannot be divided by a column; charts that can are",
        ),
        (["x", "depth", "--out", "a.svg", "--of", "service"], "cannot be drawn of one time; charts that can are ccdf"),
        (["x", "tail", "--out", "a.svg", "--band"], "cannot have a confidence band; charts that can are ccdf, perc"),
        (["x", "flow", "--out", "a.svg", "--against", "y"], "--against: flow cannot show several logs"),
        (["x", "ccdf", "--out", "a.svg", "--against", "y", "--label", "a"], "1 label for 2 logs"),
        (["x", "ccdf", "--out", "a.svg", "--against", "a/x", "--label", "a", "--label", "a"], "the same name"),
        (["x", "ccdf", "--out", "a.svg", "--xlim", "3"], "'3' is not LOW,HIGH"),
        (["x", "ccdf", "--out", "a.svg", "--ylim", ","], "',' is not LOW,HIGH"),
    ],
)
def test_wrong_usage_is_reported_before_sources_are_read(arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_help_names_every_kind() -> None:
    shown = " ".join(run("--help").output.split())
    for kind in plots.KINDS:
        assert kind in shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "–"), (0.0, "0 ms"), (0.00159, "1.59 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (-0.02, "-20.0 ms"),
     (125, "2 min 5 s")],
)  # fmt: skip
def test_a_length_of_time_has_its_unit(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def light(colour: str) -> float:
    """Relative luminance of a colour, roughly: enough to order those of a scale."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("kind", ["heatmap", "hexbin"])
@pytest.mark.parametrize(("theme", "fuller_is_darker"), [("light", True), ("dark", False), ("page", True)])
def test_a_fuller_cell_contrasts_more_with_the_background(
    pictures: dict[str, Picture], kind: str, theme: str, fuller_is_darker: bool
) -> None:
    spec = drawing.specification(pictures[kind].chart(), theme)
    cells = spec["layer"][0] if "layer" in spec else spec
    scale = cells["encoding"]["color"]["scale"]
    few_to_many = [light(colour) for colour in scale["range"]][:: -1 if scale["reverse"] else 1]
    assert few_to_many == sorted(few_to_many, reverse=fuller_is_darker)
    assert (cells.get("name") == "counts") == (theme == "page")
