"""Costs of commands and functions, and ratios between jobs measured in turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# A small process of its own: ru_maxrss of a fork would begin with the memory of this one.
_RUN = """
import json, os, subprocess, sys, time
begin = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(json.dumps([time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024,
                  os.waitstatus_to_exitcode(status)]))
"""


@dataclass(frozen=True)
class Cost:
    """The cost of one run: wall clock (s), processor (s), peak memory (MB)."""

    seconds: float
    cpu: float = 0.0
    peak_mb: float = 0.0


Job = Callable[[], Cost]


def command_cost(command: Sequence[str]) -> Cost:
    """Run a command to its end and return its cost.

    Raises:
        SystemExit: the command fails; with its status and the last line of its standard error.
    """
    done = subprocess.run([sys.executable, "-S", "-c", _RUN, *command], capture_output=True, text=True, check=True)
    seconds, cpu, megabytes, status = json.loads(done.stdout)
    if status != 0:
        last_line = done.stderr.strip().splitlines()[-1:]
        raise SystemExit(f"bench: {command[0]} ended with {status}: {''.join(last_line)}")
    return Cost(seconds, cpu, megabytes)


def printed_seconds(script: str, *arguments: object) -> Cost:
    """Run a Python script whose last line begins with its own seconds, and return these.

    Raises:
        SystemExit: the script fails; with the last line of its standard error.
    """
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: a script failed: {done.stderr.strip().splitlines()[-1:]}")
    return Cost(float(done.stdout.splitlines()[-1].split()[0]))


def in_turns(jobs: Mapping[str, Job], repeats: int, progress: Callable[[str], None]) -> dict[str, list[Cost]]:
    """Run every job once per round, so that a slow minute of the machine affects them all."""
    costs: dict[str, list[Cost]] = {name: [] for name in jobs}
    for turn in range(repeats):
        for name, job in jobs.items():
            progress(f"{turn + 1}/{repeats} {name}")
            costs[name].append(job())
    return costs


def median_of(costs: Sequence[Cost], what: str = "seconds") -> float:
    """Return the median of one field of the costs."""
    return statistics.median(getattr(cost, what) for cost in costs)


def ratio_of(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, smallest and largest of the ratios, round by round."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)
