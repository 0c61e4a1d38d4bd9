"""Show the offset and the drift of each app's clock over time."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="clock",
    asks="How far is each app's clock from nginx's, over time?",
    needs="stamps and the app's start, or spans",
    example="docs/examples/clocks.jsonl.gz",
    title="The clocks",
)
