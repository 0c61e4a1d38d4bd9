"""Attribute every second of queueing delay to the requests in service, the balancer or the way to the worker."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="blame",
    asks="Which requests caused the queueing delay?",
    needs="queueing delay and service time of the requests; worker values or --workers",
    example="docs/examples/shop.jsonl.gz --spans docs/examples/shop-spans.jsonl.gz",
    title="Which requests caused the queueing delay",
    columns=("uri",),
    places=True,
)
