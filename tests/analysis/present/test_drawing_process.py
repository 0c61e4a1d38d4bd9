"""The drawing process: it draws what this process would draw, keeps its order, and leaves nothing behind."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
from sojourn.model.errors import SojournError
from sojourn.present import page_libraries
from sojourn.present.chart_parts import inline
from sojourn.present.drawing import drawable, specification, svg, vega_lite_version
from sojourn.present.drawing_process import DrawingProcess
from sojourn.present.drawing_program import compact
from sojourn.present.pictures import Drawings, with_short_rows
from sojourn.present.section import Picture

VERSION = vega_lite_version()


def picture(name: str = "p", rows: int = 4) -> Picture:
    values = [{"begin": k, "seconds": k / 7, "part": f"{name} <{k % 2}>"} for k in range(rows)]
    chart = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(x=alt.X("begin:Q"), y=alt.Y("seconds:Q"), color=alt.Color("part:N"))
    )
    return Picture(name, name, "Bars.", lambda: chart)


def test_draws_what_this_process_draws() -> None:
    pictures = [picture(name) for name in ("one", "two", "three")]
    with DrawingProcess() as process:
        drawings = Drawings(process)
        drawings.begin(pictures)
        produced = [drawings.of(each) for each in pictures]
    assert produced == [Drawings().of(each) for each in pictures]


def test_large_specifications_do_not_block() -> None:
    pictures = [picture(f"p{k}", rows=3_000) for k in range(3)]  # more than a pipe holds, in both directions
    with DrawingProcess() as process:
        drawings = Drawings(process)
        drawings.begin(pictures)
        assert [drawings.of(each).svg.count("<path") > 3_000 for each in pictures] == [True] * 3


def test_a_chart_that_cannot_be_drawn_is_an_error_and_the_next_one_is_drawn() -> None:
    spec = drawable(specification(picture().chart()))
    with DrawingProcess() as process:
        wrong, right = process.svg({"mark": "unheard-of"}, VERSION), process.svg(spec, VERSION)
        with pytest.raises(SojournError, match="a chart cannot be drawn: "):
            wrong.result(60)
        assert right.result(60) == compact(svg(spec))


def test_an_ended_process_is_an_error() -> None:
    with DrawingProcess() as process:
        process._process.kill()
        with pytest.raises(SojournError, match=r"the drawing process ended unexpectedly \(exit code -9\)"):
            process.svg({}, VERSION).result(60)


def test_the_process_ends_with_the_block() -> None:
    with DrawingProcess() as process:
        process.svg(drawable(specification(picture(rows=3_000).chart())), VERSION)  # is not waited for
    assert process._process.returncode == -9


def test_nothing_of_the_current_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vl_convert", "json", "re"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path))
    with DrawingProcess() as process:
        assert "<svg" in process.svg(drawable(specification(picture().chart())), VERSION).result(60)


def test_compact_svg_has_the_same_marks_at_the_same_places() -> None:
    whole = svg(specification(picture(rows=50).chart()))
    short = compact(whole)
    assert len(short) < 0.7 * len(whole)
    before, after = ([*ElementTree.fromstring(text).iter()] for text in (whole, short))
    empty = [each for each in before if each.get("d") == "" and each.get("display") == "none"]
    assert [each.tag for each in before if each not in empty] == [each.tag for each in after]
    assert [each.text for each in before if each.text] == [each.text for each in after if each.text]
    for name in ("d", "transform"):
        wide, narrow = ([each.get(name) for each in tree if each.get(name)] for tree in (before, after))
        numbers, rounded = ([float(n) for n in re.findall(r"-?[\d.]+", " ".join(each))] for each in (wide, narrow))
        assert rounded == pytest.approx(numbers, abs=0.00501)


def test_compact_changes_no_text() -> None:
    text = '<text role="x">role="graphics" 1.23456 opacity="1" rgb(1, 2, 3)</text>'
    assert compact(text) == text.replace(' role="x"', "", 1)


def test_data_name_their_columns_once() -> None:
    data = {"same": [{"a": 1, "b": None}, {"a": 2, "b": "x"}], "differ": [{"a": 1}, {"b": 2}], "none": []}
    assert with_short_rows({"datasets": data, "mark": "bar"}) == {
        "datasets": {
            "same": {"names": ["a", "b"], "rows": [[1, None], [2, "x"]]},
            "differ": data["differ"],
            "none": [],
        },
        "mark": "bar",
    }


def test_layers_of_a_chart_share_their_data() -> None:
    base = alt.Chart(inline(pl.DataFrame({"a": [1.0, 2.0]}))).encode(x=alt.X("a:Q"))
    layers = alt.layer(base.mark_bar(), base.mark_line()).properties(width=200)
    assert layers.data is base.data
    assert list(layers.to_dict()["datasets"].values()) == [[{"a": 1.0}, {"a": 2.0}]]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    monkeypatch.setattr(page_libraries, "__file__", os.fspath(tmp_path / "package" / "page_libraries.py"))
    return tmp_path


def test_libraries_are_kept_next_to_the_module(folders: Path) -> None:
    assert page_libraries.saved_libraries(VERSION) is None
    page_libraries.save_libraries(VERSION, "vega()")
    assert page_libraries.saved_libraries(VERSION) == "vega()"
    assert page_libraries.saved_libraries("5.8") is None
    (file,) = (folders / "package" / "__pycache__").iterdir()
    file.write_text("veg")  # a file that was cut off
    assert page_libraries.saved_libraries(VERSION) is None


def test_libraries_are_kept_in_the_cache_folder_where_the_package_cannot_be_written(folders: Path) -> None:
    (folders / "package").write_text("no folder")
    page_libraries.save_libraries(VERSION, "vega()")
    assert page_libraries.saved_libraries(VERSION) == "vega()"
    assert len(list((folders / "cache" / "sojourn").iterdir())) == 1


def test_libraries_are_built_where_nothing_can_be_written(folders: Path) -> None:
    for name in ("package", "cache"):
        (folders / name).write_text("no folder")
    with DrawingProcess() as process:
        drawings = Drawings(process)
        drawings.begin([picture()])
        assert "vegaEmbed" in drawings.libraries()
    assert page_libraries.saved_libraries(VERSION) is None
