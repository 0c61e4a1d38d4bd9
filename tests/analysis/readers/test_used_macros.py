"""``used_macros``: an engine gets the macros that its query uses, itself or through others, and no others."""

from __future__ import annotations

from sojourn.readers.blocks import used_macros
from sojourn.readers.record import MACROS

MACRO = "CREATE OR REPLACE TEMP MACRO "
ONE, TWO, OF_TWO, UNUSED = (
    f"{MACRO}{text}" for text in ("one(x) AS (x)", "two(x) AS (one(x))", "of_two(x) AS (two(x) + 1)", "lone(x) AS (x)")
)


def test_macros_behind_a_macro_come_along_in_their_order() -> None:
    assert used_macros("SELECT of_two(a) FROM block", [ONE, TWO, UNUSED, OF_TWO]) == [ONE, TWO, OF_TWO]


def test_a_macro_that_replaces_another_remains_behind_it() -> None:
    again = f"{MACRO}one(x) AS (lone(x))"
    assert used_macros("SELECT one(a)", [ONE, UNUSED, again]) == [ONE, again, UNUSED]


def test_a_part_of_a_name_is_no_use() -> None:
    assert used_macros("SELECT at_one(a), one, one_more(a)", [ONE]) == []


def test_a_query_of_nothing_needs_none() -> None:
    assert used_macros("SELECT 1", MACROS) == []
