"""`python -m sojourn_lab.experiments.inference`: measure the accuracy of inferred queues, and write its page.

Simulated systems of known waits, seen through nginx's clock; takes a few minutes. Nothing random is left: the seeds are
options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from sojourn_lab.experiments.inference.accuracy import UTILISATIONS, Outcome, first_come_first_served, others

HEAD = """# Accuracy of inferred queues

<!-- Written by python -m sojourn_lab.experiments.inference: run that again. -->

Measured on simulated backends whose waits are known ([the method](../explanation/inferred-queue.md)). The
instants are those that nginx's clock shows: milliseconds, up to 4 ms late. Services of 50 ms on average:
exponential, lognormal, Erlang, constant, and of three routes; 1 to 32 workers; {requests:,} requests each;
seeds {seeds}.

## First come, first served

Errors are 95th percentiles of those that were not refused: of the mean wait in % of the mean response time, of
its p99 in ms. *Right*: the number of workers, up to 16 of them.

| utilisation | logs | inferred | workers right | in the set | mean wait | p99 wait |
| --- | --- | --- | --- | --- | --- | --- |
"""
OTHERS = """
## Other systems

*Wrong*: accepted, with a mean wait that is off by more than 5 % of the mean response time. What is accepted
rightly had hardly any queue, so that its order does not matter.

| system | logs | refused | lower bound | accepted | of these wrong | largest error |
| --- | --- | --- | --- | --- | --- | --- |
"""


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sojourn_lab.experiments.inference", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--requests", type=int, default=15_000, help="of each log (default: 15000)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="(default: 1 2 3)")
    parser.add_argument("--out", type=Path, help="write this page (default: print it)")
    options = parser.parse_args(arguments)
    served = [each for seed in options.seeds for each in first_come_first_served(seed, options.requests)]
    other = [each for seed in options.seeds for each in others(seed, options.requests)]
    seeds = ", ".join(map(str, options.seeds))
    text = HEAD.format(requests=options.requests, seeds=seeds) + _served(served) + OTHERS + _others(other)
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")
    return 0


def _served(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for utilisation in UTILISATIONS:
        part = [each for each in outcomes if each.utilisation == utilisation]
        kept = [each for each in part if each.verdict == "inferred"]
        few = [each.right for each in kept if each.workers <= 16]
        rows.append(
            f"| {utilisation} | {len(part)} | {len(kept)} | {np.mean(few):.0%} | "
            f"{np.mean([each.covered for each in kept]):.0%} | "
            f"{_percentile(each.error for each in kept) * 100:.2f} % | "
            f"{_percentile(each.p99_error for each in kept) * 1000:.1f} ms |\n"
        )
    return "".join(rows)


def _percentile(errors: Iterable[float]) -> float:
    return float(np.quantile([abs(error) for error in errors], 0.95))


def _others(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for system in dict.fromkeys(each.system for each in outcomes):
        part = [each for each in outcomes if each.system == system]
        verdicts = [each.verdict for each in part]
        accepted = [each for each in part if each.verdict == "inferred"]
        largest = max((abs(each.error) for each in accepted), default=0.0)
        rows.append(
            f"| {system} | {len(part)} | {verdicts.count('refused')} | {verdicts.count('lower_bound')} | "
            f"{len(accepted)} | {sum(each.wrong for each in part)} | {f'{largest:.1%}' if accepted else '–'} |\n"
        )
    return "".join(rows)


if __name__ == "__main__":
    sys.exit(main())
