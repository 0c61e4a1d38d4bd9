"""Load on request: the generator of the scenarios, offered to any URL for a given time."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from rich.table import Table
from sojourn.model.formatting import milliseconds

from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import Plan, Summary
from sojourn_lab.scenario.load import AnyLoad

LONGEST = 3_600.0
"""Seconds of load one command may offer: what is forgotten in a terminal ends by itself."""


def offered(
    url: str,
    load: AnyLoad,
    *,
    name: str,
    service_time: float,
    duration: float,
    timeout: float,
    client_log: Path | None = None,
    seed: int = 1,
) -> Summary:
    """Offer `load` to the lab's app behind `url` and return the summary; durations in seconds.

    Every request is `GET <url>/sleep/<service_time>` over a connection of its own and carries `X-Lab-Case: <name>`.
    Raises LabError for a URL that is none and for a log that cannot be written.
    """
    # Late: aiohttp and numpy take as long to import as all that the other commands need.
    from sojourn_lab.load.generator.__main__ import summary_of_run  # noqa: PLC0415

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LabError(f"{url}: not a URL of the form http://host[:port]")
    with tempfile.TemporaryDirectory(prefix="sojourn-load-") as folder:
        plan = Plan(
            case=name,
            url=url.rstrip("/"),
            seed=[seed, 0],
            load=load,
            service_time=service_time,
            warmup=0.0,
            duration=duration,
            timeout=timeout,
            client_log=str(client_log or Path(folder) / "client.jsonl"),
            summary=str(Path(folder) / "summary.json"),
        )
        try:
            return asyncio.run(summary_of_run(plan))
        except OSError as error:
            raise LabError(f"{plan.client_log}: {error.strerror}") from error


def offer_table(summary: Summary) -> Table:
    """Return the summary as a table."""
    table = Table("offered", "answered", "failed", "per second", "response p50", "p90", "p99", "max")
    latency = summary.latency.corrected
    table.add_row(
        f"{summary.offered:,}",
        f"{summary.answered:,}",
        f"{summary.failed:,}",
        f"{summary.achieved_rate:,.1f}",
        *(milliseconds(value) for value in (latency.p50, latency.p90, latency.p99, latency.max)),
    )
    return table
