"""The list of questions, written once: commands, API, report, manual pages, completions and reference follow it.

A question is a folder. To add one, add the folder and its name here; then regenerate ``docs/reference``.
"""

from __future__ import annotations

import itertools
from importlib import import_module

from sojourn.analyses.question import Question

_PACKAGES = [
    f"sojourn.analyses.{name}"
    for name in (
        "split", "infer", "blame", "depth",
        "goodput", "capacity", "laws", "whatif", "compare", "contrast", "tiers",
        "pcap", "clock", "simulate", "kernel",
    )
]  # fmt: skip


def questions() -> list[Question]:
    """Return every question, in the order of the help and of the report."""
    return [import_module(package).QUESTION for package in _PACKAGES]


def question(name: str) -> Question:
    """Return the question of that name.

    Raises:
        KeyError: there is none.
    """
    return {each.name: each for each in questions()}[name]


def reported() -> list[Question]:
    """Return the questions that a report answers."""
    return [each for each in questions() if each.title]


def report_columns() -> tuple[str, ...]:
    """Return the columns that the questions of a report read besides what the components need."""
    columns = itertools.chain(("request_id", "trace_id", "span_id"), *(each.columns for each in reported()))
    return tuple(dict.fromkeys(columns))


def register(package: str) -> None:
    """Add a question of another distribution.

    Args:
        package: the importable package that is its folder, with ``QUESTION``.
    """
    if package not in _PACKAGES:
        _PACKAGES.append(package)
