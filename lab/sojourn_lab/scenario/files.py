"""Read scenarios: the lab's files, by name, and any other file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sojourn_lab.errors import ScenarioError
from sojourn_lab.resources import resource_file
from sojourn_lab.scenario.app_command import folder_of
from sojourn_lab.scenario.matrix import expanded_cases
from sojourn_lab.scenario.problems import Problem, problems_of, refusal
from sojourn_lab.scenario.schema import Scenario

Check = Callable[[Mapping[str, Any]], Iterable[Problem]]
"""Returns further errors of a decoded scenario."""


def scenario_from_text(text: str, where: str) -> Scenario:
    """Return the scenario in a TOML text; ScenarioError, which names `where`, if it is not valid."""
    return scenario_from_raw(raw_from_text(text, where), where)


def raw_from_text(text: str, where: str) -> dict[str, Any]:
    """Return a scenario's decoded TOML, with every matrix of cases expanded; ScenarioError if it is not TOML."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{where}: {error or type(error).__name__}") from None
    try:
        if isinstance(raw.get("cases"), list):
            raw["cases"] = expanded_cases(raw["cases"])
    except (ValueError, RecursionError) as error:
        raise refusal(where, [Problem("", line) for line in str(error).splitlines()]) from None
    return raw


def scenario_from_raw(
    raw: dict[str, Any], where: str, beside: Path | None = None, check: Check = lambda _: ()
) -> Scenario:
    """Return the scenario of a decoded TOML.

    Args:
        raw: the decoded TOML.
        where: its name in errors.
        beside: the folder of its file, to which the folders of commands are relative; None: the current folder.
        check: further errors of the file, such as metric paths that no run has.

    Raises:
        ScenarioError: the file has errors; the message has them all.
    """
    try:
        scenario = msgspec.convert(raw, Scenario)
    except (ValueError, RecursionError) as error:
        problems = problems_of(raw, Scenario) or [Problem("", str(error) or type(error).__name__)]
        raise refusal(where, [*problems, *check(raw)]) from None
    if problems := list(check(raw)):
        raise refusal(where, problems)
    return _with_folders(scenario, beside or Path())


def _with_folders(scenario: Scenario, beside: Path) -> Scenario:
    """Return the scenario with the absolute folder of every command."""
    replace = msgspec.structs.replace
    topology = scenario.topology
    if topology.command is not None:
        topology = replace(topology, cwd=folder_of(topology.cwd, beside))
    cases = [
        replace(case, topology=replace(case.topology, cwd=folder_of(case.topology.cwd, beside)))
        if case.topology.cwd is not None or (case.topology.command is not None and topology.command is None)
        else case
        for case in scenario.cases
    ]
    return (
        scenario
        if topology is scenario.topology and cases == scenario.cases
        else replace(scenario, topology=topology, cases=cases)
    )


def raw_scenario(path: Path) -> dict[str, Any]:
    """Return a decoded scenario file, before its types are checked; ScenarioError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from None
    return raw_from_text(text, str(path))


def scenario_from_file(path: Path) -> Scenario:
    """Return the scenario in a file; ScenarioError if it cannot be read or is not valid."""
    return scenario_from_raw(raw_scenario(path), str(path), path.parent)


def shipped_scenario_paths() -> list[Path]:
    """Return the files of the shipped scenarios, sorted by name."""
    return sorted(resource_file("scenarios").glob("*.toml"))


def scenario_path(name_or_file: str) -> Path:
    """Return the file of a shipped scenario by its name, or the file named (anything with `/` or `.toml`)."""
    if "/" in name_or_file or name_or_file.endswith(".toml"):
        return Path(name_or_file)
    paths = shipped_scenario_paths()
    for path in paths:
        if path.stem == name_or_file:
            return path
    names = ", ".join(path.stem for path in paths)
    raise ScenarioError(f"there is no scenario {name_or_file!r}; there are: {names}")
