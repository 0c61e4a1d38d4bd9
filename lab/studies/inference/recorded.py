"""Infer the queues of finished runs of the lab, with everything removed that their apps reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from sojourn.analyses.split.run import split_requests
from sojourn.components.inferred.backends import inferences
from sojourn.sources.requests import read
from sojourn_lab.errors import LabError

LEAST = 300
"""Requests of a backend; fewer are not compared."""
OF_THE_APP = ("queue", "queueing_delay", "service_time", "span_seconds", "worker")


@dataclass(frozen=True)
class Recorded:
    """One backend of one case of a run: its inferred queue beside the measured one.

    Attributes:
        scenario, case: of the run.
        server: `gunicorn, 2` for one of two workers (`2 x 4`: of four threads each).
        slots: the number of requests that it serves at once; None: unlimited, or limited by something else.
        result: of the inference, as in the JSON output.
        measured: mean and p99 of the queueing delay, s, and `response`, the mean time at the app, s.
    """

    scenario: str
    case: str
    server: str
    slots: int | None
    result: dict[str, Any]
    measured: dict[str, float]

    @property
    def error(self) -> float | None:
        """The error of the mean, in parts of the mean response time; None where it was refused."""
        wait = self.result["wait"]
        return None if wait is None else float(wait["mean"] - self.measured["mean"]) / self.measured["response"]


def recorded(folder: Path) -> Iterator[Recorded]:
    """Yield the backends of a run's folder; LabError where it is no run of the lab."""
    record, log = folder / "run.json", folder / "access.jsonl"
    if not (record.exists() and log.exists()):
        raise LabError(f"{folder} is no folder of a run: it needs run.json and access.jsonl")
    run = msgspec.json.decode(record.read_bytes())
    requests = read(log)
    for case in run["cases"]:
        if case.get("topology") is None or case["split"] is None:
            continue
        name = case["name"]
        rows = split_requests(requests, where={"service": name}).rows.collect()
        for (upstream,), part in rows.group_by("upstream", maintain_order=True):
            measured = part.filter(pl.col("queueing_delay").is_not_null())
            if upstream is not None and len(measured) >= LEAST:
                yield from _compared(run["scenario"]["name"], case, part)


def _compared(scenario: str, case: dict[str, Any], rows: pl.DataFrame) -> Iterator[Recorded]:
    plain = rows.with_columns(
        *(pl.lit(None, rows.schema[name]).alias(name) for name in OF_THE_APP if name in rows.columns),
        queue_source=pl.lit("none"),
    )
    for backend in inferences(plain.lazy()):
        served = rows[backend.rows] if len(backend.rows) else rows
        waits = served["queueing_delay"].drop_nulls().to_numpy()
        yield Recorded(
            scenario, case["name"], *_server(case["topology"]), backend.to_dict(),
            {
                "mean": float(waits.mean()),
                "p99": float(np.quantile(waits, 0.99)),
                "response": float(served["response"].drop_nulls().to_numpy().mean()),
            },
        )  # fmt: skip


def _server(topology: dict[str, Any]) -> tuple[str, int | None]:
    server, workers, threads = topology["server"], topology["workers"], topology["threads"]
    if server in ("uvicorn", "node"):
        return server, 1 if server == "node" else None
    if topology.get("dependency"):
        return f"{server}, {workers}, and a tier behind it", None
    if server == "queue" and topology["discipline"] != "fifo":
        return f"{server}, {workers}, {topology['discipline']}", workers
    return (f"{server}, {workers} x {threads}" if threads > 1 else f"{server}, {workers}"), workers * threads
