"""The runs of a folder: their names, numbers and records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from sojourn_lab.errors import LabError

Row = dict[str, Any]

INPUTS = ("load", "topology")
"""Keys of a case's result that are configured, not measured: they are in `setup`."""

REQUEST_FIGURES = (
    "split.response_time.mean",
    "split.response_time.p50",
    "split.response_time.p99",
    "split.components.queueing_delay.mean",
    "split.components.service_time.mean",
)
"""Paths of the figures whose interval can be estimated from requests.parquet."""


@dataclass(frozen=True)
class ArchivedRun:
    """A run as in its run.json, written by any version of the lab; `number` is 0 outside an archive."""

    number: int
    name: str
    folder: Path
    raw: Row

    @property
    def label(self) -> str:
        """The run's name in a sentence."""
        return f"run {self.number}" if self.number else self.name

    @property
    def passed(self) -> bool:
        """Whether the run passed: not void, no faults, every criterion met."""
        return bool(self.raw.get("passed"))

    @property
    def requests(self) -> Path:
        """The path of its requests.parquet, which may not exist."""
        return self.folder / "requests.parquet"


@dataclass(frozen=True)
class Archive:
    """The runs in a folder, in the order of their start; `unreadable`: folder name -> why it cannot be read."""

    folder: Path
    runs: list[ArchivedRun]
    unreadable: dict[str, str]


def archive_of(folder: Path) -> Archive:
    """Return the runs directly in a folder; LabError if the folder cannot be read."""
    try:
        members = sorted(each for each in folder.iterdir() if each.is_dir())
    except OSError as error:
        raise LabError(f"{folder}: cannot be read: {error.strerror}") from None
    readable, unreadable = [], {}
    for each in members:
        try:
            readable.append(archived_run(each))
        except LabError as error:
            unreadable[each.name] = str(error)
    readable.sort(key=lambda run: (instant_of(run.raw["started"]), run.name))
    runs = [ArchivedRun(number, each.name, each.folder, each.raw) for number, each in enumerate(readable, 1)]
    return Archive(folder, runs, unreadable)


def archived_run(folder: Path) -> ArchivedRun:
    """Return the run in a folder; LabError with the reason if it cannot be read."""
    if folder.name.endswith(".partial"):
        raise LabError("was never finished")
    try:
        raw = msgspec.json.decode((folder / "run.json").read_bytes())
    except FileNotFoundError:
        raise LabError("has no run.json") from None
    except OSError as error:
        raise LabError(f"run.json cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise LabError(f"run.json is not JSON: {error or type(error).__name__}") from None
    if (lack := _lack(raw)) is not None:
        raise LabError(f"run.json is not the record of a run: {lack}")
    return ArchivedRun(0, folder.resolve().name, folder, raw)


def _lack(raw: Any) -> str | None:
    """Return why a decoded run.json cannot be used, None if it can."""
    if not isinstance(raw, dict):
        return "not a JSON object"
    if not isinstance(raw.get("scenario"), dict) or not isinstance(raw["scenario"].get("name"), str):
        return "no scenario with a name"
    cases = raw.get("cases")
    if not isinstance(cases, list) or not all(isinstance(each, dict) and "name" in each for each in cases):
        return "no cases"
    if not isinstance(raw.get("started"), str) or instant_of(raw["started"]) is None:
        return "no time of its start"
    return None


def selected(text: str, runs: Path) -> ArchivedRun:
    """Return the run that `text` names: its number, its name in `runs`, or its folder; LabError if there is none."""
    archive = archive_of(runs) if runs.is_dir() else Archive(runs, [], {})
    if text.isdecimal() and len(text) < 10:
        readable = [each for each in archive.runs if each.number == int(text)]
        if readable:
            return readable[0]
    for folder in (Path(text), runs / text):
        if folder.is_file() and folder.name == "run.json":
            folder = folder.parent  # noqa: PLW2901 - the run of a run.json
        if not folder.is_dir():
            continue
        same = [each for each in archive.runs if each.folder.resolve() == folder.resolve()]
        try:
            return same[0] if same else archived_run(folder)
        except LabError as error:
            raise LabError(f"{folder}: {error}") from None
    hint = f"`sojourn lab runs` lists {len(archive.runs)}" if archive.runs else f"there is no run in {runs}"
    raise LabError(f"there is no run {text}: {hint}")


def tables_in(raw: Row, key: str) -> list[Row]:
    """Return the tables in the list at a key; empty for anything else."""
    tables = raw.get(key)
    return [each for each in tables if isinstance(each, dict)] if isinstance(tables, list) else []


def cases_of(run: ArchivedRun) -> Iterator[tuple[str, str, int, Row]]:
    """Yield every case of every round: its name in the log, the scenario's case, the round, the result."""
    for case in run.raw["cases"]:
        # The first format has no rounds.
        turn = case.get("round")
        yield str(case["name"]), str(case.get("base") or case["name"]), turn if isinstance(turn, int) else 1, case


def numbers_of(result: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number (a truth value counts as 1 or 0) in a result, with its path as in criteria."""
    if isinstance(result, bool | int | float):
        yield path, float(result)
    elif isinstance(result, dict | list):
        inner = result.items() if isinstance(result, dict) else enumerate(result)
        for key, value in inner:
            yield from numbers_of(value, f"{path}.{key}" if path else str(key))


def figures_of(result: Row) -> Iterator[tuple[str, float]]:
    """Yield every number of a case's result that was measured or computed, with its path."""
    for key, value in result.items():
        if key not in INPUTS:
            yield from numbers_of(value, key)


def instant_of(text: Any) -> datetime | None:
    """Return an ISO 8601 instant as UTC without a zone, None if `text` is not one."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None
