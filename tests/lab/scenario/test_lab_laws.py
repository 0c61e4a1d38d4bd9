"""The operational law of a closed loop, and where there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.laws import closed_loop_law, law_of
from sojourn_lab.scenario.load import ClosedLoad, PoissonLoad, Route
from sojourn_lab.scenario.topology import Topology


@pytest.mark.parametrize(
    ("users", "service", "response", "queueing"),
    [
        (1, 0.1, 0.1, 0.0),
        (4, 0.1, 0.2, 0.1),
        (8, 0.1, 0.4, 0.3),
        (1, 0.3, 0.3, 0.0),
        (4, 0.3, 0.6, 0.3),
        (8, 0.3, 1.2, 0.9),
    ],
)
def test_the_benchmark_s_cases(users: int, service: float, response: float, queueing: float) -> None:
    law = closed_loop_law(users, service, workers=2)
    assert law.response_time == pytest.approx(response)
    assert law.queueing_delay == pytest.approx(queueing)


@given(st.integers(1, 200), st.floats(0.001, 10.0), st.integers(1, 32), st.floats(0.0, 10.0))
def test_the_laws_agree_with_each_other(users: int, service: float, workers: int, think: float) -> None:
    law = closed_loop_law(users, service, workers, think)
    assert law.response_time >= service
    assert law.queueing_delay == pytest.approx(law.response_time - service)
    # Little's law over the whole loop, and no more work than the workers can do.
    assert law.throughput * (law.response_time + think) == pytest.approx(users)
    assert law.throughput * service / workers <= 1.0 + 1e-9


def test_an_open_load_has_no_operational_law() -> None:
    topology = Topology(backends=2, workers=3)
    assert law_of(Case("x", PoissonLoad(3.0), service_time=0.1), topology) is None
    law = law_of(Case("x", ClosedLoad(12, 0.2), service_time=0.6), topology)
    assert law is not None
    assert law.response_time == pytest.approx(12 * 0.6 / 6 - 0.2)
    assert "Z" in law.formula


def test_services_of_processor_time_have_no_operational_law() -> None:
    computing = Case("x", ClosedLoad(12), routes=[Route("/page", 1.0, 0.1, cpu=True)])
    assert law_of(computing, Topology(backends=2, workers=3)) is None
