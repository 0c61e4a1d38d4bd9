"""Compare selected requests with the rest: what distinguishes them, and which requests held their workers."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="contrast",
    asks="What distinguishes the selected requests from the rest, and which requests held the workers meanwhile?",
    needs="any log; for the culprits as `blame`",
    example="docs/examples/shop.jsonl.gz --spans docs/examples/shop-spans.jsonl.gz --column tenant",
)
