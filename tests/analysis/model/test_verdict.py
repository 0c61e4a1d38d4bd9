"""One sentence, and the right one."""

from __future__ import annotations

import pytest
from sojourn.model.components import COMPONENTS
from sojourn.model.verdict import CAUSES, verdict


def judged(tail: dict[str, float] | None = None, p99: float = 1.0, **means: float):
    return verdict(means, tail or means, p99, 1000, slo=0.5)


def test_every_component_belongs_to_exactly_one_cause() -> None:
    parts = [part for group in CAUSES.values() for part in group]
    assert sorted(parts) == sorted(COMPONENTS)


@pytest.mark.parametrize(
    ("means", "cause", "words"),
    [
        ({"queue": 0.9, "service_time": 0.1}, "queueing", "queue, not the code"),
        ({"queue": 0.9, "service_time": 0.1}, "queueing", "went waiting for a worker"),
        ({"connect": 0.9, "service_time": 0.1}, "queueing", "queue, not the code"),
        ({"connect": 0.5, "queue": 0.4, "service_time": 0.1}, "queueing", "most of it for a connection to the app"),
        ({"queue": 0.1, "service_time": 0.9}, "service", "code, not a queue"),
        ({"upload": 0.3, "send": 0.4, "transfer": 0.2, "queue": 0.1}, "client", "client"),
        ({"retries": 0.9, "queue": 0.1}, "retries", "retries"),
        ({"unattributed": 0.9, "queue": 0.1}, "unknown", "Unknown"),
        ({"queue": 0.5, "service_time": 0.5}, "mixed", "No single cause"),
    ],
)
def test_cause(means: dict[str, float], cause: str, words: str) -> None:
    result = judged(**means)
    assert result.cause == cause
    assert words in result.sentence


def test_fast_with_little_queueing_is_healthy() -> None:
    assert judged(p99=0.2, service_time=0.1, queue=0.01).cause == "healthy"
    assert judged(p99=0.2, service_time=0.1, queue=0.2).cause == "queueing"
    assert judged(p99=0.9, service_time=0.1, queue=0.01).cause == "service"


def test_a_tail_with_another_cause_is_reported() -> None:
    result = judged(tail={"queue": 0.1, "send": 0.9}, queue=0.7, service_time=0.3)
    assert (result.cause, result.tail_cause) == ("queueing", "client")
    assert "slowest 1 % are different" in result.sentence
