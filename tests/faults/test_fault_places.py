"""Another locale, another zone, an hour that comes twice, a year far away: the figures are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# The path comes first.
from commands_run import ended
from watch_support import record

HERE = Path(__file__).parent
# In Berlin the clock goes back at 01:00 UTC: the hour from 02:00 to 03:00 comes twice.
TURNED_BACK = 1_792_890_000.0
SPACED = 30.0
LINES = 240
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from commands_run import ended
print(json.dumps([list(ended(*each)[:2]) for each in json.loads(sys.argv[2])]))
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour before the clock is turned back, and an hour after."""
    path = tmp_path_factory.mktemp("places") / "a.jsonl"
    path.write_bytes(
        b"".join(
            record(TURNED_BACK + SPACED * (k - LINES // 2), 0.05 * (k % 5), 45.0, route="/\u0131" if k % 3 else "/I")
            for k in range(LINES)
        )
    )
    return path


def run_in_place(place: dict[str, str], commands: list[list[str]]) -> Any:
    """Exit code and output of commands run by a Python of its own, elsewhere."""
    bare = {name: value for name, value in os.environ.items() if name not in {"LANG", "LC_ALL", "TZ", "PYTHONUTF8"}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(HERE), json.dumps(commands)],
        capture_output=True, check=False, timeout=100, env={**bare, "COLUMNS": "100", "SOJOURN_CONFIG": "", **place},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)


def test_figures_are_the_same_everywhere(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    monkeypatch.setenv("COLUMNS", "100")
    commands = [
        ["split", str(log), "--by", "route", "--json"],
        ["depth", str(log)],
        ["split", str(log), "--since", "2026-10-25T00:30:00Z", "--until", "2026-10-25T02:30:00+01:00", "--json"],
    ]
    there = run_in_place(place, commands)
    assert there == [list(ended(*command)[:2]) for command in commands]
    assert [code for code, _ in there] == [0, 0, 0]


@pytest.mark.thorough
def test_a_store_s_minutes_are_the_same_everywhere(log: Path, tmp_path: Path, store_dsn: str) -> None:
    """An embedded engine takes its zone from TZ: minutes are computed, selected and shown in UTC nevertheless."""
    away = f"chdb://{tmp_path / 'store'}"
    reported = []
    for dsn in (away, store_dsn):
        commands = [
            ["store", "init", dsn],
            ["store", "load", dsn, str(log)],
            ["store", "explain", dsn],
            ["store", "query", dsn, "SELECT min(minute), max(minute), sum(requests) FROM rollup_minute FINAL", "--csv"],
            [
                "store",
                "query",
                dsn,
                "SELECT minute, sum(seconds) FROM blame_minute FINAL GROUP BY 1 ORDER BY 1",
                "--csv",
            ],
            ["split", dsn, "--since", "2026-10-25T00:30:00Z", "--json"],
        ]
        elsewhere = {"TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8"}
        result = (
            run_in_place(elsewhere, commands) if dsn == away else [list(ended(*command)[:2]) for command in commands]
        )
        assert [code for code, _ in result] == [0] * len(commands), result
        reported.append([text for _, text in result[1:]])
    assert reported[0][:-1] == reported[1][:-1]
    assert json.loads(reported[0][-1])["window"] == json.loads(reported[1][-1])["window"]
    assert " 0 rows" not in reported[0][1]


def test_the_hour_that_comes_twice_is_two_hours(log: Path) -> None:
    """An offset makes an instant one, also in the hour that comes twice; without a zone it is refused."""

    def count_between(since: str, until: str) -> int:
        return int(json.loads(ended("split", str(log), "--since", since, "--until", until, "--json").out)["requests"])

    half = LINES // 2
    assert count_between("2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00") == pytest.approx(half, abs=2)
    assert count_between("2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z") == pytest.approx(half, abs=2)
    assert count_between("2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00") == pytest.approx(half, abs=2)
    done = ended("split", str(log), "--since", "2026-10-25T02:30 Europe/Berlin")
    assert done.code == 2
    assert "is not an instant" in " ".join(done.err.split())
    done = ended("split", str(log), "--since", "2026-10-25T02:30:00")
    assert done.code == 2
    assert "2026-10-25T02:30:00Z for UTC" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("end", "accepted"),
    [(2_147_483_660.0, True), (4_102_444_800.0, True), (100.0, False), (253_402_300_900.0, False), (0.0, False)],
    ids=["2038", "2100", "1970", "10000", "0"],
)
def test_years_far_away(end: float, accepted: bool, tmp_path: Path) -> None:
    """The end of 32 bits is an instant like any other; what is no instant of a log is refused with its reason."""
    log = tmp_path / "a.jsonl"
    log.write_bytes(b"".join(record(end + k) for k in range(3)))
    done = ended("split", str(log), "--json")
    if accepted:
        assert json.loads(done.out)["records"]["accepted"] == 3
        assert "ahead of this machine's clock" in ended("watch", str(log), "--once").err
    else:
        assert done.code == 1
        assert "invalid_time 3" in done.err
