"""Compute the machines for a rate of requests: measured costs in, the table of docs/scale.md out.

python lab/benchmarks/sizing.py --rate 5000000        prints the table
python lab/benchmarks/sizing.py --write docs/scale.md writes it between the document's markers
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

DAY = 86_400
BEGIN, END = "<!-- sizing: begin -->", "<!-- sizing: end -->"


@dataclass(frozen=True)
class Measured:
    """The cost of one request, measured on two cores shared with other work: CPU seconds, bytes.

    The costs of Vector are of version 0.57.0, a build optimised a little (opt-level 1) and without its own allocator;
    those of the store are of the embedded engine, ClickHouse 26.9. docs/scale.md says how each was taken.
    """

    log_bytes: float = 734.0  # a line of nginx's log, with its newline
    message_bytes: float = 101.0  # a line as a message, zstd
    stored_bytes: float = 31.5  # on disk, all columns, indexes and marks, one copy; the trace id is the request id
    agent_seconds: float = 24.5e-6  # read a line, measure its length, send it to Kafka and see it acknowledged
    aggregator_seconds: float = 18.5e-6  # fetch a message, compress it for the store, see it acknowledged
    insert_seconds: float = 9.9e-6  # from the line to the row, all views, one thread, 100,000 lines a block
    merge_seconds: float = 1.3e-6  # of one row, once; a row is merged about MERGES times
    rollup_seconds: float = 1.6e-6  # a row's part in one refresh of its minute


@dataclass(frozen=True)
class Choices:
    """Choices of the deployment, which are not measured."""

    replicas: int = 2
    copies_in_kafka: int = 3
    cores_per_shard: int = 16
    cores_per_aggregator: int = 4
    busy: float = 0.5  # share of a machine's cores that may be used at the rate sized for
    merges: float = 6.0  # times a row is merged until its part has its final size
    rollups: float = 5.0  # times a minute is refreshed: every 15 s until a minute after its last row
    partition_bytes: float = 5e6  # bytes a second that one Kafka partition may take
    broker_bytes: float = 100e6  # bytes a second written to one broker, copies included
    kafka_days: float = 1.0
    keep_days: float = 7.0


@dataclass(frozen=True)
class Size:
    """Cores, machines and bytes for one rate."""

    agent_cores: float
    partitions: int
    brokers: int
    kafka_disk: float
    aggregators: int
    shards: int
    servers: int
    shard_rate: float
    store_disk_per_server: float


def size(rate: float, measured: Measured = Measured(), choices: Choices = Choices()) -> Size:
    """Return the size of a deployment for ``rate`` requests a second.

    Raises:
        ValueError: the rate is not a positive number.
    """
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError("the rate must be a positive number of requests a second")
    inflow = rate * measured.message_bytes
    aggregator_cores = rate * measured.aggregator_seconds / choices.busy
    aggregators = math.ceil(aggregator_cores / choices.cores_per_aggregator)
    # Every replica merges and rolls up; a line is parsed once, on one replica, and copying a part is not counted.
    per_row = (
        measured.insert_seconds + choices.merges * measured.merge_seconds + choices.rollups * measured.rollup_seconds
    )
    shards = math.ceil(rate * per_row / choices.busy / choices.cores_per_shard)
    # As many partitions as consumers could share at twice the rate, and no partition above its bytes.
    partitions = max(2 * aggregators, math.ceil(inflow / choices.partition_bytes))
    return Size(
        agent_cores=rate * measured.agent_seconds,
        partitions=partitions,
        brokers=max(choices.copies_in_kafka, math.ceil(inflow * choices.copies_in_kafka / choices.broker_bytes)),
        kafka_disk=inflow * choices.copies_in_kafka * choices.kafka_days * DAY,
        aggregators=aggregators,
        shards=shards,
        servers=shards * choices.replicas,
        shard_rate=rate / shards,
        store_disk_per_server=rate * measured.stored_bytes * choices.keep_days * DAY / shards,
    )


def table(rates: list[float], measured: Measured = Measured(), choices: Choices = Choices()) -> str:
    """Return a Markdown table, one column per rate."""
    sizes = [size(rate, measured, choices) for rate in rates]
    rows = [
        ("cores of agents, on nginx's own machines", [f"{s.agent_cores:,.1f}" for s in sizes]),
        ("Kafka: bytes/s in, one copy", [_bytes(r * measured.message_bytes) for r in rates]),
        ("Kafka: partitions of `sojourn.lines`", [f"{s.partitions:,}" for s in sizes]),
        (f"Kafka: brokers ({choices.copies_in_kafka} copies)", [f"{s.brokers:,}" for s in sizes]),
        (f"Kafka: disk for {choices.kafka_days:g} day", [_bytes(s.kafka_disk) for s in sizes]),
        (f"aggregators of {choices.cores_per_aggregator} cores", [f"{s.aggregators:,}" for s in sizes]),
        (f"ClickHouse: shards of {choices.cores_per_shard} cores", [f"{s.shards:,}" for s in sizes]),
        (f"ClickHouse: servers ({choices.replicas} replicas)", [f"{s.servers:,}" for s in sizes]),
        ("ClickHouse: rows/s per shard", [f"{s.shard_rate:,.0f}" for s in sizes]),
        (
            f"ClickHouse: disk per server, {choices.keep_days:g} days",
            [_bytes(s.store_disk_per_server) for s in sizes],
        ),
    ]
    head = "| requests/s | " + " | ".join(f"{rate:,.0f}" for rate in rates) + " |"
    rule = "| --- |" + " ---: |" * len(rates)
    return "\n".join([head, rule, *(f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows)])


def written(text: str, inner: str) -> str:
    """Return ``text`` with ``inner`` between its markers.

    Raises:
        ValueError: the markers do not occur once each and in order.
    """
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the document needs one {BEGIN} and one {END} after it")
    return pattern.sub(lambda _: f"{BEGIN}\n{inner}\n{END}", text)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


RATES = [5_000.0, 100_000.0, 5_000_000.0]


def main() -> int:
    """Print or write the table; 2 for a bad rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, action="append", help="requests a second; repeatable")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table between the file's markers")
    options = parser.parse_args()
    try:
        text = table(options.rate or RATES)
    except ValueError as error:
        sys.stderr.write(f"sizing: {error}\n")
        return 2
    if options.write:
        options.write.write_text(written(options.write.read_text(), text))
    else:
        sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
