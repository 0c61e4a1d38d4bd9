"""Simulate a queueing system and set theory beside it."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="simulate",
    asks="How long would requests of a given load wait in a given system?",
    needs="nothing: requests are made up",
    example="--arrivals poisson:8 --service exponential:0.1 --requests 20000",
)
