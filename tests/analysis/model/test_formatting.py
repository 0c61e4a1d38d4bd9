"""Numbers and foreign text as people read them."""

from __future__ import annotations

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from sojourn.model.formatting import (
    counted,
    duration,
    formatted,
    is_route,
    milliseconds,
    percent,
    printable,
    share_of_time,
    shortened,
    tally,
    time_in_ms,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0"),
        (-0.0000001, "0"),
        (0.00031, "0.31"),
        (0.0998, "99.8"),
        (0.09996, "100"),
        (1.2041, "1,204"),
    ],
)
def test_milliseconds(seconds: float | None, text: str) -> None:
    assert milliseconds(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(None, "–"), (0.0, "0 %"), (0.0123, "1.2 %"), (0.753, "75 %"), (1, "100 %")]
)
def test_percent(share: float | None, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "inf s"),
        (-math.inf, "-inf s"),
        (0, "0 ms"),
        (0.01, "10.0 ms"),
        (-1e-9, "0 ms"),
        (-0.25, "-250 ms"),
        (0.9996, "1.0 s"),
        (8.04, "8.0 s"),
        (59.97, "1 min"),
        (-70, "-1 min 10 s"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (11_400, "3 h 10 min"),
        (352_800, "4 d 2 h"),
    ],
)
def test_duration_has_a_unit_of_its_size(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("form", ["+.1%", "+.0f", ",.2f", ".3g", "+,.1f"])
@given(value=st.floats(-1e-5, 1e-5) | st.floats(-1e6, 1e6))
def test_a_formatted_zero_has_no_minus_sign(form: str, value: float) -> None:
    text = formatted(value, form)
    assert not text.startswith("-") or any(digit in text for digit in "123456789")
    assert float(text.rstrip("%").replace(",", "")) == float(format(value, form).rstrip("%").replace(",", ""))


@given(st.floats(-1e-4, 1e-4))
def test_no_time_and_no_share_is_a_negative_zero(value: float) -> None:
    for text in (milliseconds(value), percent(value), duration(value)):
        assert not text.startswith("-") or any(digit in text for digit in "123456789")


@pytest.mark.parametrize(
    ("seconds", "uncertainty", "text"),
    [(-0.0002, 0.001, "0"), (-0.0011, 0.001, "-1.10"), (-0.02, 0.03, "0"), (0.0002, 0.001, "0.20"), (None, 0.001, "–")],
)
def test_negative_time_within_the_uncertainty_is_zero(seconds: float | None, uncertainty: float, text: str) -> None:
    assert time_in_ms(seconds, uncertainty) == text
    share = None if seconds is None else math.copysign(0.5, seconds)
    assert share_of_time(share, seconds, uncertainty) == {"0": "0 %", "-1.10": "-50 %", "0.20": "50 %", "–": "–"}[text]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 lines were"), (1, "1 line was"), (2, "2 lines were"), (2000, "2,000 lines were")]
)
def test_a_number_agrees_with_its_noun_and_verb(number: int, text: str) -> None:
    assert counted(number, "line was", "lines were") == text
    assert counted(number, "line") == text.rpartition(" ")[0]


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs"} for c in printable(text))
    assert len(printable(text, 20)) <= 20


def test_an_escape_sequence_is_shown() -> None:
    assert printable("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"


def test_a_tally_lists_names_safely_and_in_order() -> None:
    shown = printable("bad\x1b[2J")
    assert "\x1b" not in shown
    assert tally({"missing_time": 2_000, "bad\x1b[2J": 1}) == f"{shown} 1, missing_time 2,000"
    assert tally({}) == ""


@pytest.mark.parametrize(
    ("path", "limit", "label"),
    [
        ("/api/v1/customers/orders/items", 24, "/api/v1/…/items"),
        ("/api/v1/customers/orders/items", 40, "/api/v1/customers/orders/items"),
        ("/customers/12345678901234567890/invoices", 28, "/customers/…/invoices"),
    ],
)
def test_a_long_path_loses_whole_segments(path: str, limit: int, label: str) -> None:
    assert printable(path, limit) == shortened(path, limit) == label


@pytest.mark.parametrize(
    ("route", "width", "label"),
    [
        ("shop.localhost /reports/monthly", 31, "shop.localhost /reports/monthly"),
        ("shop.localhost /reports/monthly", 28, "shop.…lhost /reports/monthly"),
        ("shop /api/v1/customers/orders/items", 24, "shop /api/v1/…/items"),
        ("shop /a", 2, "/"),
    ],
)
def test_a_long_route_of_a_service_keeps_the_last_segment(route: str, width: int, label: str) -> None:
    assert shortened(route, width) == label
    assert cell_len(label) <= width


@pytest.mark.parametrize(("text", "expected"), [("/a b", True), ("shop /a", True), ("shop", False), ("a b /c", False)])
def test_route_is_a_path_with_at_most_a_service(text: str, expected: bool) -> None:
    assert is_route(text) is expected


@pytest.mark.parametrize("name", ["/averyveryveryverylongsegmentwithoutslashes", "backend-0123456789.internal"])
def test_a_long_name_loses_its_middle(name: str) -> None:
    for text in (printable(name, 20), shortened(name, 20)):
        begin, _, end = text.partition("…")
        assert len(text) == 20
        assert name.startswith(begin)
        assert name.endswith(end)
