"""Split response time into queueing delay, service time and the rest."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="split",
    asks="Is it slow code, or a queue?",
    needs="request times; the app's answer, spans or durations for the queueing delay",
    example="docs/examples/shop.jsonl.gz --spans docs/examples/shop-spans.jsonl.gz",
    exports={"split": "run", "SplitResult": "result"},
)
