"""The example log of the documents is what the simulator makes, and small."""

from __future__ import annotations

import gzip

from shop_example import EXAMPLES, shop_files


def test_the_committed_files_are_what_the_simulator_makes() -> None:
    produced = shop_files()
    for name, content in produced.items():
        assert gzip.decompress((EXAMPLES / name).read_bytes()) == content, name
    assert sum((EXAMPLES / name).stat().st_size for name in produced) <= 150_000
