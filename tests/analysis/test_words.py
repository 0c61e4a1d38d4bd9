"""Numbers and foreign text as people read them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sojourn.words import duration, milliseconds, percent, printable


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
    [(8.04, "8.0 s"), (125, "2 min 5 s"), (3600, "1 h"), (11_400, "3 h 10 min"), (352_800, "4 d 2 h")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs"} for c in printable(text))
    assert len(printable(text, 20)) <= 20


def test_an_escape_sequence_is_shown() -> None:
    assert printable("\x1b[31mred\u202e") == "\\x1b[31mred\\u202e"
