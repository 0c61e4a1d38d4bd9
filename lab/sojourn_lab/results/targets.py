"""Requests to several URLs or paths, by target, and the lines that the nginx in front of `--url` wrote of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from sojourn import Requests
from sojourn.model.formatting import counted

from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.load.plan import ClientRecord, Window
from sojourn_lab.results.requests import run_requests
from sojourn_lab.results.run_context import Measured
from sojourn_lab.results.run_schema import CaseResult, TargetLog
from sojourn_lab.runtime.external import ExternalRuntime
from sojourn_lab.runtime.growing_log import GrowingLog

LOG_DEADLINE = 5.0
"""Seconds for which lines may come after the last answer: nginx may buffer its log (`flush`)."""
POLL = 0.1
RESOLUTION = 0.005
"""Seconds that a log's instants and durations, rounded to milliseconds, may differ from the client's."""


def client_records(measured: Measured) -> list[ClientRecord]:
    """Return the client's records of a case, warm-up included."""
    if measured.client_log is None:
        return []
    return msgspec.json.Decoder(ClientRecord).decode_lines(measured.client_log.read_bytes())


def target_figures(records: Sequence[ClientRecord], window: Window) -> dict[str, Any]:
    """Return target -> requests, answered, failed and response_time (s, from the intended instant) in the window."""
    by_target: dict[str, list[ClientRecord]] = {}
    for record in records:
        if window.since <= record.intended < window.until:
            by_target.setdefault(record.route or "", []).append(record)
    return {name: _figures(own) for name, own in sorted(by_target.items())}


def _figures(records: Sequence[ClientRecord]) -> dict[str, Any]:
    answered = [each for each in records if each.error is None and each.done is not None]
    return {
        "requests": len(records),
        "answered": len(answered),
        "failed": sum(each.error is not None or (each.status or 0) >= 400 for each in records),
        "response_time": msgspec.to_builtins(
            quantiles_of(each.done - each.intended for each in answered if each.done is not None)
        ),
    }


def logged_at_target(
    runtime: ExternalRuntime, measured: Sequence[Measured], folder: Path
) -> tuple[Requests | None, TargetLog | None]:
    """Return the run's requests in the log of the nginx in front of the URLs, and what the log has.

    The `service` of a request is its case. Both are None without a log, the requests if none of them is of the run.

    Raises:
        LabError: the log cannot be read.
    """
    if runtime.log is None:
        return None, None
    records = {each.planned.name: client_records(each) for each in measured}
    answered = sum(each.status is not None for own in records.values() for each in own)
    # A file of its own: the log goes on growing, and has the lines of others, which are not kept.
    part = folder / "target.log"
    try:
        lines = _copied(runtime.log, part, answered)
        log = TargetLog(str(runtime.log.path), lines, 0, answered, "request_id")
        if not lines:
            return None, log
        requests = run_requests(part, [])
        rows = requests.rows.collect()
    finally:
        part.unlink(missing_ok=True)
    own = rows_by_id(rows, records)
    if own.is_empty():
        own = rows_by_time(rows, records, runtime.paths)
        log.by = "time"
    log.requests = len(own)
    return (None if own.is_empty() else replace(requests, rows=own.lazy(), stored=False)), log


def _copied(log: GrowingLog, part: Path, expected: int) -> int:
    """Copy the new lines of a log as soon as there are as many as expected, or the deadline has passed."""
    deadline = time.monotonic() + LOG_DEADLINE
    while (lines := log.copy_new_lines(part)) < expected and time.monotonic() < deadline:
        time.sleep(POLL)
    return lines


def rows_by_id(rows: pl.DataFrame, records: Mapping[str, Sequence[ClientRecord]]) -> pl.DataFrame:
    """Return the rows whose request id is one that a client sent or got, with their case as `service`."""
    if "request_id" not in rows.columns:
        return rows.clear()
    case_of = {
        name: case
        for case, own in records.items()
        for each in own
        for name in (each.request_id, each.sent_request_id)
        if name is not None
    }
    ids = pl.DataFrame({"request_id": list(case_of), "case": list(case_of.values())}, {"request_id": str, "case": str})
    return rows.join(ids, on="request_id", how="inner").with_columns(service=pl.col("case")).drop("case")


def rows_by_time(rows: pl.DataFrame, records: Mapping[str, Sequence[ClientRecord]], paths: set[str]) -> pl.DataFrame:
    """Return the rows of the targets' paths that arrived while a case was sending, with that case as `service`."""
    if "uri" in rows.columns:
        rows = rows.filter(pl.col("uri").str.split("?").list.first().is_in(list(paths)))
    spans = {
        case: (min(each.sent for each in own), max(each.done or each.sent for each in own))
        for case, own in records.items()
        if own
    }
    if not spans or rows.is_empty():
        return rows.clear()
    arrived = rows["start"].dt.epoch("us").to_numpy() / 1e6
    apart = np.stack([np.maximum(np.maximum(since - arrived, arrived - until), 0.0) for since, until in spans.values()])
    nearest = apart.argmin(axis=0)
    # An instant of whole seconds may be that much earlier or later.
    margin = RESOLUTION + rows["time_step"].fill_null(0.0).to_numpy()
    cases = pl.Series("service", [list(spans)[number] for number in nearest], dtype=pl.String)
    return rows.with_columns(cases).filter(pl.Series(apart.min(axis=0) <= margin))


def target_sentences(log: TargetLog | None, cases: Sequence[CaseResult]) -> list[str]:
    """Return sentences on the log of the nginx in front of the URLs, and on certificates that were refused."""
    sentences = []
    if log is not None and log.requests:
        way = (
            "by their request ids"
            if log.by == "request_id"
            else "by their instants and paths: requests of others to the same paths are among them, because the log has"
            " none of the run's request ids"
        )
        sentences.append(
            f"The log has {counted(log.requests, 'request')} of the run, {way}; the client got"
            f" {counted(log.answered, 'answer')}."
        )
    refused = sum((case.client.errors if case.client is not None else {}).get("certificate", 0) for case in cases)
    if refused:
        sentences.append(
            f"{counted(refused, 'request')} failed because the certificate of the URL is not trusted: --cacert names"
            " the file of its authority."
        )
    return sentences
