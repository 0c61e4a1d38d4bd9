"""Scenario files and playbooks: TOML that describes one, or one sentence that says what is wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.experiments.playbook.steps import find_playbook
from sojourn_lab.scenario.files import scenario_from_file

from fuzz import nasty
from fuzz.refusals import refusal

PACKAGES: tuple[str, ...] = ("sojourn_lab",)
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")
_SOUND = """
name = "x"
title = "X"
question = "?"
shows = "x"
seed = 1
duration = 1.0
[quick]
scale = 0.5
[topology]
backends = 2
workers = 1
[[cases]]
name = "case-{rate}-{service_ms}"
service_time = 0.1
distribution = "exponential"
matrix = {rate = [1, 2, 3], service_time = [0.1, 0.2]}
[cases.load]
kind = "poisson"
rate = 5.0
[[criteria]]
name = "c"
metric = "split.queueing_delay.mean"
above = 0.1
"""
_PLAYBOOK = """
name = "p"
title = "P"
scenario = "shop"
case = "a"
[better]
metric = "client.p99"
direction = "smaller"
[[steps]]
name = "more"
set = {"topology.workers" = 4}
"""


def check(data: bytes) -> None:
    """Both readers."""
    path = Path(_FOLDER.name, "x.toml")
    path.write_bytes(data)
    refusal(lambda: scenario_from_file(path), ScenarioError)
    refusal(lambda: find_playbook(str(path)), LabError)


def generated(rng: Random) -> bytes:
    """A sound file with some values replaced; or one that is deep, or multiplies."""
    kind = rng.random()
    if kind < 0.03:
        return b"a = " + b"[" * rng.choice((50, 500, 5000)) + b"]" * 50
    if kind < 0.06:
        lists = ", ".join(f"k{n} = {list(range(rng.choice((3, 100))))}" for n in range(rng.choice((2, 4, 9))))
        return _SOUND.replace("rate = [1, 2, 3]", lists).encode()
    lines = rng.choice((_SOUND, _SOUND, _PLAYBOOK)).splitlines()
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(lines))
        key = lines[at].split("=")[0]
        lines[at] = rng.choice(
            (f"{key}= {_value(rng)}", f"{key}= {_value(rng)}", "", f"{nasty.text(rng)} = 1", lines[at] * 2)
        )
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _value(rng: Random) -> str:
    return rng.choice((
        nasty.number(rng), repr(nasty.text(rng)), "true", "[]", "{}", "1979-05-27T07:32:00Z", "inf", "nan",
        "-1", "1e300", "0",
        "9223372036854775807", '"{x}"', '"{rate}"', "[1, [2]]", "{a = {b = 1}}", '"!!python/object:os.system"',
    ))  # fmt: skip
