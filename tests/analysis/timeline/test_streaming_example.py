"""The example log of a streaming export is what the simulator writes."""

from __future__ import annotations

import gzip

from streaming_example import EXAMPLES, streaming_log


def test_the_committed_log_is_what_the_simulator_writes() -> None:
    assert gzip.decompress((EXAMPLES / "streaming.jsonl.gz").read_bytes()) == streaming_log()
