"""The trend test, the slope and Student's t, beside scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau, theilslopes
from scipy.stats import t as scipy_t
from sojourn.model.statistics import slope, student_t, trend


@pytest.mark.parametrize("count", [2, 3, 10, 19, 20])
@pytest.mark.parametrize("kinds", [2, 5, 1_000_000])
@pytest.mark.parametrize("drift", [0.0, 0.3, -2.0])
def test_trend_and_slope_are_scipys(count: int, kinds: int, drift: float) -> None:
    rng = np.random.default_rng(count * kinds)
    positions = np.sort(rng.choice(40, count, replace=False)).astype(float)
    for _ in range(20):
        values = rng.integers(0, kinds, count) + np.round(drift * positions * kinds / 20)
        if values.min() == values.max():
            continue
        assert trend(values) == pytest.approx(kendalltau(positions, values).pvalue, rel=1e-9, abs=1e-12)
        assert slope(positions, values) == pytest.approx(theilslopes(values, positions).slope, rel=1e-12)


def test_the_surest_trend_there_is() -> None:
    values = np.arange(20.0)
    assert trend(values) == pytest.approx(kendalltau(values, values).pvalue, rel=1e-9)
    assert trend(-values) == trend(values)


@pytest.mark.parametrize("freedom", [*range(1, 12), 29, 200, 1001])
def test_quantiles_of_students_t_are_scipys(freedom: int) -> None:
    for share in (0.5, 0.6, 0.9, 0.975, 0.9995):
        assert student_t(share, freedom) == pytest.approx(float(scipy_t.ppf(share, freedom)), rel=1e-10, abs=1e-15)
