"""Every query of every panel, variable and alert: it runs, on a full store and an empty one, in types Grafana reads."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache

import pytest
from dashboards_support import (
    BEGIN,
    END,
    HOSTILE,
    LATER,
    NAMED,
    TRACE,
    Boards,
    PanelAnswer,
    boards,
    opened,
    panels,
    queries,
    whole,
)
from grafana_expand import View, expanded
from sojourn_dashboards.alerts import RULES

# What the plugin's converters make a number, a text or an instant of; the rest arrives as JSON or not at all.
READABLE = re.compile(
    r"(Nullable\()?(U?Int(8|16|32|64)|Float(32|64)|Bool|String|DateTime(64\(\d(, 'UTC')?\))?(\('UTC'\))?)\)?"
    r"|LowCardinality\(String\)"
)
TIME_SERIES = 0
CASES = [pytest.param(name, title, sql, id=f"{name}: {title}") for name, title, sql in queries()]


def targets() -> list[tuple[str, dict, dict]]:
    return [
        (name, p, t)
        for name, board in boards().items()
        for p in panels(board)
        for t in p.get("targets") or []
        if "rawSql" in t
    ]


@cache
def answer(store: Boards, name: str, sql: str) -> PanelAnswer:
    """What a store answers a panel's query: several tests look at one answer, and none of them changes the store."""
    view = whole(name)
    if name == "compare":
        view = whole(name, service_a="shop", service_b="shop", start_b=str(int((BEGIN + LATER).timestamp())))
    if name == "request":
        view = whole(name, request_id=NAMED)
    return store.sql(expanded(sql, view))


@pytest.mark.parametrize(("name", "title", "sql"), CASES)
def test_a_panel_has_rows_where_there_is_data(boards_store: Boards, name: str, title: str, sql: str) -> None:
    assert answer(boards_store, name, sql).rows


@pytest.mark.parametrize(("name", "title", "sql"), CASES)
def test_a_panel_says_nothing_where_there_is_nothing(empty_store: Boards, name: str, title: str, sql: str) -> None:
    """No error, and no NaN or 1970 where "no data" belongs."""
    rows = answer(empty_store, name, sql).rows
    assert rows == [] or (len(rows) == 1 and rows[0] == {"value": 0} and title == "Matching requests")


@pytest.mark.parametrize(("name", "title", "sql"), CASES)
def test_types_are_what_the_plugin_reads(boards_store: Boards, name: str, title: str, sql: str) -> None:
    requested = answer(boards_store, name, sql)
    odd = {
        column: kind
        for column, kind in zip(requested.columns, requested.types, strict=True)
        if not READABLE.fullmatch(kind)
    }
    if title == "Span tree":
        assert set(odd) == {"tags", "serviceTags"}  # lists of key and value, as Grafana's trace view takes them
    else:
        assert odd == {}
    assert not any(isinstance(v, float) and v != v for row in requested.rows for v in row.values())  # noqa: PLR0124 - NaN


@pytest.mark.parametrize(
    ("name", "panel", "target"), [pytest.param(n, p, t, id=f"{n}: {p['title']}") for n, p, t in targets()]
)
def test_a_time_series_is_one(boards_store: Boards, name: str, panel: dict, target: dict) -> None:
    """The plugin makes a wide frame of a long one only where the first column is a time, not null, ascending."""
    if target["format"] != TIME_SERIES:
        assert panel["type"] not in {"timeseries", "heatmap"}
        return
    requested = answer(boards_store, name, target["rawSql"])
    assert requested.types[0].startswith("DateTime")
    times = [row[requested.columns[0]] for row in requested.rows]
    assert times == sorted(times)
    texts = [column for column, kind in zip(requested.columns, requested.types, strict=True) if "String" in kind]
    assert len(texts) <= 1
    keys = [(row[requested.columns[0]], *(row[text] for text in texts)) for row in requested.rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("title", ["Split", "Record", "Attempts", "Spans", "Span tree"])
def test_the_id_of_a_trace_shows_its_requests(boards_store: Boards, title: str) -> None:
    """An exemplar of Prometheus has the id of a trace."""
    by_request, by_trace = (
        boards_store.panel("request", title, whole("request", request_id=id_)).rows for id_ in (NAMED, TRACE)
    )
    assert by_trace == by_request != []


def variable_queries() -> list[tuple[str, dict]]:
    return [
        (n, v)
        for n, board in boards().items()
        for v in board["templating"].get("list") or []
        if v["type"] == "query" and "rawSql" in v["query"]
    ]


@pytest.mark.parametrize(
    ("name", "variable"), [pytest.param(n, v, id=f"{n}: {v['name']}") for n, v in variable_queries()]
)
def test_a_variable_lists_what_occurs(
    boards_store: Boards, empty_store: Boards, facts, name: str, variable: dict
) -> None:
    column = variable["name"].removesuffix("_a").removesuffix("_b")
    window = facts.filter(facts["time"] < END.timestamp())
    sql = expanded(variable["query"]["rawSql"], whole(name))
    requested = boards_store.sql(sql)
    assert requested.columns == ["value"]
    assert requested.types == ["String"]
    assert [row["value"] for row in requested.rows] == sorted({str(value) for value in window[column].unique()})
    assert empty_store.sql(sql).rows == []


def test_a_variable_follows_the_one_before_it(boards_store: Boards, facts) -> None:
    [sql] = [v["query"]["rawSql"] for n, v in variable_queries() if (n, v["name"]) == ("verdict", "upstream")]
    requested = boards_store.sql(expanded(sql, whole("verdict", service=["api"])))
    assert [row["value"] for row in requested.rows] == sorted(
        facts.filter(facts["service"] == "api")["upstream"].unique()
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.uid)
def test_an_alert_runs_where_there_is_nothing(empty_store: Boards, rule) -> None:
    requested = empty_store.sql(expanded(rule.query, View(BEGIN, END)))
    assert requested.rows == []


# --- hostile values


@pytest.mark.parametrize("route", HOSTILE)
def test_a_hostile_name_selects_its_own_rows_and_no_others(boards_store: Boards, facts, route: str) -> None:
    """Through each of the two ways in: the rollups and the rows."""
    window = facts.filter((facts["time"] < END.timestamp()) & (facts["route"] == route))
    if "$__" in route:  # the plugin would take it for a macro: an error, not another query
        with pytest.raises(AssertionError, match="takes 1 argument"):
            boards_store.panel("verdict", "Requests", whole("verdict", route=[route]))
        return
    assert boards_store.panel("verdict", "Requests", whole("verdict", route=[route])).rows == [{"value": window.height}]
    result = boards_store.panel("requests", "Matching requests", whole("requests", route=[route, "/nowhere"]))
    assert result.rows == [{"value": window.height}]
    assert window.height > 0


@pytest.mark.parametrize("text", [*HOSTILE, "' OR '1'='1", "\\' OR 1=1 --", "%27%20OR%201%3D1", "x" * 10_000])
def test_typed_text_remains_a_value(boards_store: Boards, text: str) -> None:
    requested = boards_store.panel("request", "Record", whole("request", request_id=text))
    assert requested.rows == []
    for box in ("min_response", "min_queueing", "min_service", "max_service"):
        result = boards_store.panel("requests", "Matching requests", whole("requests", **{box: text}))
        assert result.rows == [{"value": 0}]  # not a number: no request matches, instead of all


@pytest.mark.parametrize("format_", ["raw", "csv", "sqlstring", "singlequote", "text", "glob"])
def test_no_other_way_in_is_taken_for_safe(format_: str) -> None:
    """Neither quoting of Grafana's knows that a backslash escapes in ClickHouse."""
    with pytest.raises(AssertionError, match="percent-encoded"):
        expanded(f"SELECT ${{route:{format_}}}", View(BEGIN, END, 60, {"route": "x"}))


def test_a_name_that_is_not_known_is_a_dash(boards_store: Boards, make_store, tmp_path, facts) -> None:
    from dashboards_support import EPOCH  # noqa: PLC0415
    from sojourn.store import connect, load  # noqa: PLC0415

    log = tmp_path / "log"
    log.write_text(f'{{"time":"{EPOCH + 1:.3f}","request_time":"0.5","status":"400","request_start":"-","uri":"/"}}\n')
    dsn = make_store()
    load(dsn, [str(log)])
    with connect(dsn) as store:
        requested = Boards(store.client).panel("verdict", "Requests", whole("verdict", service=["-"], upstream=["-"]))
    assert requested.rows == [{"value": 1}]
    assert boards_store.panel("verdict", "Requests", whole("verdict", service=["-"])).rows == []


def test_the_opening_view_asks_for_everything() -> None:
    for name in boards():
        for variable, value in opened(name).items():
            assert value in (["$__all"], "", "0.5", "any") or variable.startswith("service_")


def test_a_day_of_the_view_is_utc() -> None:
    assert isinstance(BEGIN, datetime)
    assert BEGIN.utcoffset().total_seconds() == 0
