"""playbook.json: the change and the result of every step of a playbook."""

from __future__ import annotations

from typing import Any

import msgspec

from sojourn_lab.experiments.playbook.steps import Playbook, Value

FORMAT = 1


class StepResult(msgspec.Struct):
    """The result of one step.

    Attributes:
        name: of the step.
        change: the one setting that is new, as text; empty for the first.
        settings: all that differ from the scenario's file.
        start: the step it is a change to.
        figures: of the playbook's columns, by title; None: not measured.
        met, criteria: how many of the criteria it meets, and their names with whether it does.
        better: the measure by which changes are kept.
        ratio: that measure over the one of `start`.
        kept: whether the next steps begin from here.
        spin_up, tear_down, seconds: s; all of it.
        outcome: `measured`, `void` (the generator was the bottleneck) or `failed`.
        reason: why it is so, in a sentence.
        run: the step's folder, below the playbook's.
    """

    name: str
    change: str
    settings: dict[str, Value]
    start: str | None
    outcome: str
    figures: dict[str, Any] = {}
    criteria: dict[str, bool] = {}
    met: int = 0
    better: float | None = None
    ratio: float | None = None
    kept: bool = False
    spin_up: float = 0.0
    tear_down: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    run: str = ""


class PlaybookRecord(msgspec.Struct):
    """A whole playbook; `found` is the last step kept, `passed` whether it meets every criterion."""

    playbook: Playbook
    quick: bool
    started: str
    steps: list[StepResult] = []
    finished: str = ""
    found: str = ""
    passed: bool = False
    learned: str = ""
    format: int = FORMAT
