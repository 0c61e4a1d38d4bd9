"""The input of a case's analysis, and the lookup of an analysis by its name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from sojourn import Requests
from sojourn.analyses.split.run import split_requests

from sojourn_lab.load.plan import ClientRecord, Summary
from sojourn_lab.results.analyses.recordings import Recordings
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.schema import Scenario
from sojourn_lab.scenario.topology import Topology


@dataclass(frozen=True)
class CaseData:
    """One measured case of one round.

    Attributes:
        scenario, case, topology: as run.
        name: the value of `service` in the log.
        since, until: the measured window, unix s.
        folder: the run's folder; `folder / "access.jsonl"` and the other files are in it.
        spans: the span files of the whole run.
        requests: the log of the run.
        summary, client_log: the generator's summary and log.
        recordings: packets and samples of the kernel, where they were recorded.
    """

    scenario: Scenario
    case: Case
    topology: Topology
    name: str
    since: float
    until: float
    folder: Path
    spans: Sequence[Path]
    requests: Requests
    summary: Summary
    client_log: Path
    recordings: Recordings | None = None

    @cached_property
    def records(self) -> list[ClientRecord]:
        """The client's records of the case, warm-up included."""
        return msgspec.json.Decoder(ClientRecord).decode_lines(self.client_log.read_bytes())

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The split rows (`SplitResult.rows`) of the case in its window, by arrival at nginx."""
        return self.rows_between(self.since, self.until)

    def rows_between(self, since: float | None = None, until: float | None = None) -> pl.DataFrame:
        """Return the split rows of the case between two unix instants; of the whole case without them."""
        return split_requests(self.requests, since=since, until=until, where={"service": self.name}).rows.collect()


def case_figures(name: str, data: CaseData) -> dict[str, Any]:
    """Return the figures of the analysis `name`: plain values, as in JSON.

    The module `sojourn_lab.results.analyses.<name>` has `figures(data: CaseData) -> dict[str, Any]`.
    """
    module = importlib.import_module(f"sojourn_lab.results.analyses.{name}")
    case_result: dict[str, Any] = module.figures(data)
    return case_result
