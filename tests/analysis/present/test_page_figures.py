"""The figures of a chart, as a table: what the chart shows, and no more rows than a page can hold."""

from __future__ import annotations

import altair as alt
import pytest
from sojourn.present.picture_tables import ROWS, figures_of
from sojourn.present.pictures import Drawings, with_unique_ids
from sojourn.present.section import Picture


def chart(rows: int = 3) -> alt.Chart:
    values = [{"begin": k, "seconds": k / 7, "part": f"p{k % 2}", "rank": k % 2} for k in range(rows)]
    return (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            x=alt.X("begin:Q", title="arrival (s)"),
            y=alt.Y("seconds:Q", title="time"),
            color=alt.Color("part:N", title=None),
            order=alt.Order("rank:Q"),
            tooltip=[alt.Tooltip("seconds:Q", title="mean (s)")],
        )
    )


def test_columns_are_called_what_the_reader_sees_them_called() -> None:
    (table,) = figures_of(chart().to_dict())
    assert table.headings == ("arrival (s)", "mean (s)", "part")
    assert table.rows[1] == ("1", "0.142857", "p1")
    assert table.numbers == (True, True, False)


def test_many_rows_are_thinned_evenly_and_counted() -> None:
    (table,) = figures_of(chart(1000).to_dict())
    assert table.total == 1000
    assert len(table.rows) == ROWS
    assert (table.rows[0][0], table.rows[-1][0]) == ("0", "999")


def test_layers_and_panels_each_have_theirs_and_shared_data_are_one() -> None:
    line = chart().mark_line()
    assert len(figures_of(alt.layer(chart(), line).to_dict())) == 1
    assert len(figures_of(alt.vconcat(chart(4), chart(5)).to_dict())) == 2


def test_a_rule_beside_the_data_is_no_table_and_alone_it_is_one() -> None:
    rule = alt.Chart(alt.InlineData(values=[{"limit": 4}])).mark_rule().encode(y="limit:Q")
    assert [table.total for table in figures_of((chart() + rule).to_dict())] == [3]
    assert [table.rows for table in figures_of(rule.to_dict())] == [(("4",),)]


def test_where_a_mark_is_put_is_no_figure() -> None:
    drawing = alt.Chart(alt.InlineData(values=[{"x": 3, "what": "SYN"}, {"x": 4, "what": "ACK"}])).mark_text()
    (table,) = figures_of(drawing.encode(x=alt.X("x:Q", axis=None), text="what:N").to_dict())
    assert table.rows == (("SYN",), ("ACK",))


@pytest.mark.parametrize("value", [None, [1, 2], {"a": 1}])
def test_ignores_values_that_are_not_cells(value: object) -> None:
    result = figures_of(alt.Chart(alt.InlineData(values=[{"x": value}])).mark_point().encode(x="x:Q").to_dict())
    assert [table.rows for table in result] == ([(("–",),)] if value is None else [])


def test_ids_of_two_drawings_never_meet() -> None:
    def clipped() -> alt.Chart:
        return chart().mark_line(clip=True)

    first, second = with_unique_ids([Drawings().of(Picture(key, "t", "c", clipped)) for key in ("one", "two")], set())
    assert 'id="one-clip' in first.svg
    assert "url(#two-clip" in second.svg
    assert "one-clip" not in second.svg
    assert "role=" not in first.svg


def test_a_diagram_keeps_its_own_width_and_everything_else_follows_the_page() -> None:
    placed = chart().encode(x=alt.X("begin:Q", axis=None)).properties(width=640)
    assert [
        Drawings().of(Picture("k", "t", "c", lambda built=produced: built)).fits for produced in (chart(), placed)
    ] == [
        True,
        False,
    ]
    assert '"width":"container"' in Drawings().of(Picture("k", "t", "c", chart)).spec
    assert '"fit":true' in Drawings().of(Picture("k", "t", "c", lambda: alt.vconcat(chart(), chart()))).spec


def test_a_description_reads_the_chart_for_those_who_do_not_see_it() -> None:
    produced = Drawings().of(Picture("k", "Over time", "Bars.", chart, "It rose by 3 s."))
    assert produced.label == "Over time. It rose by 3 s."
    assert Drawings().of(Picture("k", "Over time", "Bars.", chart)).label == "Over time. Bars."
