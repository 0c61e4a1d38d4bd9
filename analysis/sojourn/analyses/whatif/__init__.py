"""Replay the recorded requests under a different configuration."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="whatif",
    asks="How would response times change under a different configuration?",
    needs="every request that shares the workers, with queueing delay and service time",
    example="docs/examples/shop.jsonl.gz --spans docs/examples/shop-spans.jsonl.gz --variant workers=+1",
    title="What-if: response times under other configurations",
    columns=("remote_addr", "connection"),
    places=True,
)
