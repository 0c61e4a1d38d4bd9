"""Find the load at which an objective breaks, fit the scalability law, size for a target rate."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="capacity",
    asks="At which load does an objective break, and how many instances does a rate need?",
    needs="a ramp, or windows of different load",
    example="docs/examples/ramp.jsonl.gz --slo p99=0.5 --target-rate 240",
    title="Capacity under the objective",
    places=True,
)
