"""Measure work done for clients that had already disconnected."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="goodput",
    asks="How much work was done for clients that had already disconnected?",
    needs="spans, or a log of the app",
    example="docs/examples/shop.jsonl.gz --spans docs/examples/shop-spans.jsonl.gz",
    title="Work for clients already gone",
    columns=("remote_addr", "method", "uri"),
)
