"""Values for shell completion, repeated here because their sources are slow to load."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# Columns of few values, and those that name a request or a client: what people group by and select by.
COLUMNS = (
    "route", "service", "upstream", "worker", "status", "method", "host", "proxy", "protocol", "uri", "remote_addr",
    "attempts", "request_id", "trace_id",
)  # fmt: skip
DISCIPLINES = ("fifo", "lifo", "adaptive_lifo", "codel", "deadline", "sjf")
BALANCERS = ("round_robin", "least_conn", "two_choices", "shared_queue")


def beginning(values: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a completion for an option that takes one of ``values``."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def beginning_of_list(values: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a completion for an option that takes several of ``values``, separated by commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [
            f"{before}{comma}{value}" for value in values if value.startswith(last) and value not in before.split(",")
        ]

    return complete
