"""Read the queues before accept() off captured packets, joined to the log."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="wire",
    asks="What do packets show of the queues before accept()?",
    needs="a capture",
    example="docs/examples/wire.pcap.gz --log docs/examples/wire.jsonl.gz",
    title="What the packets show",
    command="pcap",
)
