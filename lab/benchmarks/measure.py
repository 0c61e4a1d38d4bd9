"""Costs of commands and functions, and ratios of what was measured in turns."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# Started small and without this process's memory: ru_maxrss of a fork would begin with ours.
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
    """Of one run: wall clock (s), processor (s), most memory (MB)."""

    seconds: float
    cpu: float = 0.0
    peak_mb: float = 0.0


Job = Callable[[], Cost]


def command_cost(command: Sequence[str]) -> Cost:
    """Run a command that must succeed, from its start to its end; SystemExit with its last words where it fails."""
    done = subprocess.run([sys.executable, "-S", "-c", _RUN, *command], capture_output=True, text=True, check=True)
    seconds, cpu, megabytes, status = json.loads(done.stdout)
    if status != 0:
        said = done.stderr.strip().splitlines()[-1:]
        raise SystemExit(f"bench: {command[0]} ended with {status}: {''.join(said)}")
    return Cost(seconds, cpu, megabytes)


def in_turns(jobs: Mapping[str, Job], repeats: int, progress: Callable[[str], None]) -> dict[str, list[Cost]]:
    """Every job once a round, so that a slow minute of the machine hits them all."""
    found: dict[str, list[Cost]] = {name: [] for name in jobs}
    for turn in range(repeats):
        for name, job in jobs.items():
            progress(f"{turn + 1}/{repeats} {name}")
            found[name].append(job())
    return found


def median_of(costs: Sequence[Cost], what: str = "seconds") -> float:
    """Median of one of a cost's figures."""
    return statistics.median(getattr(cost, what) for cost in costs)


def ratio_of(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """Median, smallest and largest of the ratios, round by round."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)
