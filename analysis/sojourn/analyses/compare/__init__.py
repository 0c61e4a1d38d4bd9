"""Compare two splits: which component and group changed, and whether chance explains it."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="compare",
    asks="What changed between two windows or runs, and could it be chance?",
    needs="two sets of requests",
    example="docs/examples/shop.jsonl.gz --at 2026-01-01T00:01:00Z",
    title="Change of the response time",
)
