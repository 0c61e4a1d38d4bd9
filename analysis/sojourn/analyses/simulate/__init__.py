"""Simulate a queueing system and compare it with theory."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="simulate",
    asks="How long would requests of a given load wait in a given system?",
    needs="no data: requests are generated",
    example="--arrivals poisson:8 --service exponential:0.1 --requests 20000",
)
