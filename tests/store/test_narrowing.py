"""Statements over the canonical rows have the columns they use, and no others."""

from __future__ import annotations

import re

import pytest
from sojourn.model.frame import COLUMNS, Selection
from sojourn.store.schema import narrowed
from sojourn.store.statements import chosen, of_requests, over_chosen, over_steps, rows

EVERYTHING = chosen(Selection())


def columns_of(statement: str) -> list[str]:
    """The columns of its canonical rows."""
    return re.findall(r"^    (?:r\.|text_of\(|toFloat64\(|if\(r\.).* AS (\w+),?$", statement, re.MULTILINE)


def test_steps_have_the_columns_that_they_and_their_end_name() -> None:
    columns = columns_of(over_steps("SELECT sum(queue) FROM split WHERE uri = '/a'", EVERYTHING, with_spans=False))
    assert {"time", "start", "status", "request_time", "uri", "upstream"} <= set(columns)
    assert not {"host", "method", "remote_addr", "upstream_addr", "attempt_addr", "source"} & set(columns)
    assert columns == [name for name in COLUMNS if name in columns]


@pytest.mark.parametrize("column", ["uri", "host", "upstream_addr", "trace_id"])
def test_conditions_have_their_columns(column: str) -> None:
    which = chosen(Selection(where={column: "x"}))
    assert column in columns_of(over_chosen("services", which, taken="1"))
    assert column not in columns_of(over_chosen("services", EVERYTHING, taken="1"))


def test_rows_have_the_columns_that_are_read() -> None:
    assert columns_of(rows(("start", "host"), "1")) == ["time", "start", "host"]
    assert columns_of(rows(COLUMNS, "1")) == list(COLUMNS)


def test_a_count_has_one_column() -> None:
    assert columns_of(of_requests("counted", EVERYTHING, once=False)) == ["time"]


def test_comments_name_no_column() -> None:
    statement = over_steps("-- by host\nSELECT count() FROM split", EVERYTHING, with_spans=False)
    assert "host" not in columns_of(statement)


def test_other_statements_remain() -> None:
    assert narrowed("SELECT time AS time FROM spans") == "SELECT time AS time FROM spans"
