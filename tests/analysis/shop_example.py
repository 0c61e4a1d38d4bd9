"""The example log of the documents: a shop with too many requests for exports for a quarter of a minute.

Run as a program, it writes docs/examples/shop.jsonl.gz and shop-spans.jsonl.gz again.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from pool_simulator import PoolSettings, Surge, as_lines, simulated_pool, span_lines

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SHOP = PoolSettings(
    requests=3_000,
    rate=18.0,
    timeout=4.0,
    client_retries=1,
    backoff=0.5,
    surges=(Surge(60, 75, 3, "/export"),),
    seed=4,
)


def shop_files() -> dict[str, bytes]:
    """Name -> what the file holds, decompressed."""
    records, truth = simulated_pool(SHOP)
    return {"shop.jsonl.gz": b"".join(as_lines(records)), "shop-spans.jsonl.gz": b"".join(span_lines(truth))}


if __name__ == "__main__":
    for name, held in shop_files().items():
        (EXAMPLES / name).write_bytes(gzip.compress(held, 9, mtime=0))
