"""Count requests in system over time and on arrival, and how busy the workers were."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="depth",
    asks="How many requests waited, over time and on arrival, and how busy were the workers?",
    needs="queueing delay and service time of the requests",
    example="docs/examples/shop.jsonl.gz --spans docs/examples/shop-spans.jsonl.gz",
    title="Queue depth and worker utilisation",
    places=True,
)
