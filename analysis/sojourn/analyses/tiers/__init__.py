"""Follow requests across services: queueing, own work and waiting for calls at each."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="tiers",
    asks="At which service do requests that pass several spend their time?",
    needs="spans of several services",
    example="docs/examples/checkout-spans.jsonl.gz",
    title="Tiers: response time by service",
    columns=("trace_id", "span_id"),
)
