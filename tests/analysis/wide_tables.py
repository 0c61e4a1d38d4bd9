"""Tables of tests that are too wide to run whole every time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def one_of(share: int, *axes: Iterable[Any]) -> list[Any]:
    """Return all combinations; one of `share`, by the sum of the places on the axes, is in the ordinary tests."""
    combinations = []
    for places in itertools.product(*map(enumerate, axes)):
        thorough = sum(number for number, _ in places) % share > 0
        marks = [pytest.mark.thorough] if thorough else []
        combinations.append(pytest.param(*(each for _, each in places), marks=marks))
    return combinations
