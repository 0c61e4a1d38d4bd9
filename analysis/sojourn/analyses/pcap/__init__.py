"""Measure the queues before accept() in captured packets, joined with the log."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="pcap",
    asks="What do packets show about the queues before accept()?",
    needs="a capture",
    example="docs/examples/wire.pcap.gz --log docs/examples/wire.jsonl.gz",
    title="Packets and the queues before accept()",
)
