"""The stand-in for Grafana's and the plugin's own expansion, against what theirs is documented to give."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from grafana_expand import View, expanded, percent_encoded, provisioned, query_parameters, with_conditional_all

VIEW = View(datetime(2014, 11, 12, 11, 45, 26, 371000, UTC), datetime(2015, 11, 12, 11, 45, 26, 456000, UTC), 20)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("$__fromTime", "toDateTime(1415792726)"),
        ("$__toTime", "toDateTime(1447328726)"),
        ("$__fromTime_ms", "fromUnixTimestamp64Milli(1415792726371)"),
        ("($__toTime_ms)", "(fromUnixTimestamp64Milli(1447328726456))"),
        ("$__timeFilter(c)", "c >= toDateTime(1415792726) AND c <= toDateTime(1447328726)"),
        (
            "$__timeFilter_ms(c)",
            "c >= fromUnixTimestamp64Milli(1415792726371) AND c <= fromUnixTimestamp64Milli(1447328726456)",
        ),
        ("$__dateFilter(d)", "d >= toDate('2014-11-12') AND d <= toDate('2015-11-12')"),
        ("$__timeInterval(c)", "toStartOfInterval(toDateTime(c), INTERVAL 20 second)"),
        ("$__timeInterval_ms(c)", "toStartOfInterval(toDateTime64(c, 3), INTERVAL 20000 millisecond)"),
        ("$__interval_s", "20"),
        ("$__timeInterval($__fromTime)", "toStartOfInterval(toDateTime(toDateTime(1415792726)), INTERVAL 20 second)"),
        ("f(coalesce(a, $__toTime), 1)", "f(coalesce(a, toDateTime(1447328726)), 1)"),
    ],
)
def test_a_macro(written: str, sent: str) -> None:
    assert expanded(written, VIEW) == sent


@pytest.mark.parametrize("wrong", ["$__timeFilter", "$__timeFilter(a, b)", "$__nosuch(a)", "$gone"])
def test_rejects_macros_unknown_to_the_plugin(wrong: str) -> None:
    with pytest.raises(AssertionError):
        expanded(wrong, VIEW)


@pytest.mark.parametrize(
    ("value", "sent"),
    [(["$__all"], "a AND 1=1"), ("", "a AND 1=1"), (["x"], "a AND f(x, y)"), (["x", "$__all"], "a AND f(x, y)")],
)
def test_conditional_all(value: str | list[str], sent: str) -> None:
    assert with_conditional_all("a AND $__conditionalAll(f(x, y), $v)", {"v": value}) == sent


def test_conditional_all_within_another() -> None:
    sql = "$__conditionalAll(a OR $__conditionalAll(b, $w), $v)"
    assert with_conditional_all(sql, {"v": "1", "w": ""}) == "a OR 1=1"


def test_neither_way_in_lets_a_quote_or_a_backslash_through() -> None:
    hostile = "".join(map(chr, range(1, 0x250))) + "☃\U0001f600"
    for sent in (percent_encoded("v", hostile), query_parameters("v", [hostile, hostile])):
        assert not set(sent) & set("'\"\\`()*!+ \n#<>{}[]")
    assert query_parameters("v", ["a b", "c&d"]) == "var-v=a%20b&var-v=c%26d"


def test_provisioning_takes_a_dollar_for_an_environment_variable() -> None:
    assert provisioned({"a": ["$HOME/x", "$$labels", "100 %"]}) == {"a": ["/x", "$labels", "100 %"]}
