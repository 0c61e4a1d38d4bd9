"""Read the kernel's own figures about the queues before accept(): depth, overflows, refusals."""

from __future__ import annotations

from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="kernel",
    asks="How full are the kernel's queues before accept()?",
    needs="Linux, or a recording",
    example="docs/examples/kernel.jsonl.gz",
    exports={"kernel_queues": "run"},
)
