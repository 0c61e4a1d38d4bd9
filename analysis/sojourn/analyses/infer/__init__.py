"""Infer the queue in front of a backend from a plain log."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="infer",
    asks="How long did requests wait, by the log of a proxy alone?",
    needs="`$msec`, `$request_time` and `$upstream_response_time`, or what other proxies call them",
    example="docs/examples/plain.log.gz",
    title="Inferred queue",
)
