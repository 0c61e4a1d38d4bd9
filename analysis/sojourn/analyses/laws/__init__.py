"""Set the laws of queueing theory beside the measured wait."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="laws",
    asks="What does queueing theory say of this load?",
    needs="queueing delay and service time of the requests",
    example="docs/examples/shop.jsonl.gz --spans docs/examples/shop-spans.jsonl.gz",
    title="Queueing laws and the measured wait",
    places=True,
)
