"""The two pages on the accuracy of inferred queues, in Markdown: of simulated backends, and of the lab's runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
from sojourn.model.formatting import counted, formatted, milliseconds

from studies.inference import accuracy
from studies.inference.accuracy import UTILISATIONS, Outcome
from studies.inference.recorded import Recorded

HEAD = """# Accuracy of inferred queues

<!-- Written by PYTHONPATH=lab python -m studies.inference: run that again. -->

Measured on simulated backends whose waits are known ([the method](../explanation/inferred-queue.md)). The
instants are those that nginx's clock shows: milliseconds, up to 4 ms late. Services of 50 ms on average:
exponential, lognormal, Erlang, constant, and of three routes; 1 to 32 workers; {requests:,} requests each;
seeds {seeds}. [Real servers](inference-on-servers.md) have a page of their own.

## First come, first served

Errors are 95th percentiles of those that were not refused: of the mean wait in % of the mean response time, of
its p99 in ms. *Right*: the number of workers, up to 16 of them.

| utilisation | logs | inferred | workers right | in the set | mean wait | p99 wait |
| --- | --- | --- | --- | --- | --- | --- |
"""
OTHERS = """
## Other systems

*Wrong*: accepted, with a mean wait that is off by more than 5 % of the mean response time. What is accepted
rightly had hardly any queue, so that its order does not matter. Hidden load: requests that a second proxy sent.
Timed out: requests that the backend served after the proxy had given up (504); they are left out of the log's
waits, and with more than 10 % of them it is refused.

| system | logs | refused | lower bound | accepted | of these wrong | largest error |
| --- | --- | --- | --- | --- | --- | --- |
"""
MOVED = """
## A number of workers that changes

Half of the requests before the change, half after it, with the load in proportion. *Right*: two parts, with the
right numbers.

| workers | logs | right | largest error of the mean wait |
| --- | --- | --- | --- |
"""
SLOW = """
Slow clients change nothing: the backend's arrival and departure are computed from the end and the length of the
request and of its time at the backend, not from the end alone.
"""
SECONDS = """
## Stamps of a second

The second engine, on logs whose instants are whole seconds: {requests:,} lines, 1 to 8 workers, seed {seed}.
Errors are 95th percentiles of the accepted ones, in % of the mean response time; the last column is the largest.

| workers | logs | inferred | workers right | mean wait | largest |
| --- | --- | --- | --- | --- | --- |
"""
OTHER_SECONDS = """
And other systems, of 1 and 4 workers at a utilisation of 0.8:

| system | logs | refused | accepted | of these wrong | largest error |
| --- | --- | --- | --- | --- | --- |
"""
SERVERS = """# Inferred queues of real servers

<!-- Written by PYTHONPATH=lab python -m studies.inference RUN...: run that again. -->

Runs of [the lab](../../lab/README.md) on real servers behind nginx. *Measured*: the queueing delay by stamp and
middleware, as the app knows it. *Inferred*: what `sojourn infer` makes of the same log with everything removed
that the app reported, and without the number of workers. *Error*: of the mean wait, in % of the mean time at
the backend. Times are ms.

Nearly all of the error is the same 1 to 1.3 ms: an app server accepts a connection and parses the request before the
app's first line runs. To the app that is waiting, to the inference it is service. Where requests hardly wait it is
several per cent.

{summary}

| run | case | server | requests | verdict | workers | measured mean, p99 | inferred mean, p99 | error |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def simulated_page(requests: int, seeds: Sequence[int]) -> str:
    """Return the page on simulated backends, which it simulates first."""
    served = [each for seed in seeds for each in accuracy.first_come_first_served(seed, requests)]
    other = [each for seed in seeds for each in accuracy.others(seed, requests)]
    return "".join((
        HEAD.format(requests=requests, seeds=", ".join(map(str, seeds))), _served(served), OTHERS, _others(other),
        MOVED, _moved(seeds, requests), SLOW, SECONDS.format(requests=requests, seed=seeds[0]),
        _of_a_second(seeds[0], requests), OTHER_SECONDS,
        _others(accuracy.others_of_a_second(seeds[0], requests), bounds=False),
    ))  # fmt: skip


def _served(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for utilisation in UTILISATIONS:
        part = [each for each in outcomes if each.utilisation == utilisation]
        accepted = [each for each in part if each.verdict == "inferred"]
        few = [each.right for each in accepted if each.workers <= 16]
        rows.append(
            f"| {utilisation} | {len(part)} | {len(accepted)} | {np.mean(few):.0%} | "
            f"{np.mean([each.covered for each in accepted]):.0%} | "
            f"{_percentile(each.error for each in accepted) * 100:.2f} % | "
            f"{_percentile(each.p99_error for each in accepted) * 1000:.1f} ms |\n"
        )
    return "".join(rows)


def _percentile(errors: Iterable[float]) -> float:
    return float(np.quantile([abs(error) for error in errors], 0.95))


def _others(outcomes: Iterable[Outcome], *, bounds: bool = True) -> str:
    outcomes, rows = list(outcomes), []
    for system in dict.fromkeys(each.system for each in outcomes):
        part = [each for each in outcomes if each.system == system]
        verdicts = [each.verdict for each in part]
        accepted = [each for each in part if each.verdict == "inferred"]
        largest = max((abs(each.error) for each in accepted), default=0.0)
        bound = f"{verdicts.count('lower_bound')} | " if bounds else ""
        rows.append(
            f"| {system} | {len(part)} | {verdicts.count('refused')} | {bound}"
            f"{len(accepted)} | {sum(each.wrong for each in part)} | {f'{largest:.1%}' if accepted else '–'} |\n"
        )
    return "".join(rows)


def _moved(seeds: Sequence[int], requests: int) -> str:
    every = [each for seed in seeds for each in accuracy.moves(seed, 2 * requests)]
    rows = []
    for change in accuracy.MOVES:
        part = [(windows, outcome) for true_change, windows, outcome in every if true_change == change]
        right = sum(windows == change for windows, _ in part)
        errors = [abs(outcome.error) for _, outcome in part if outcome.verdict == "inferred"]
        rows.append(
            f"| {change[0]}, then {change[1]} | {len(part)} | {right} | {f'{max(errors):.1%}' if errors else '–'} |\n"
        )
    return "".join(rows)


def _of_a_second(seed: int, requests: int) -> str:
    rows = []
    for with_workers, name in ((True, "given"), (False, "inferred")):
        outcomes = list(accuracy.of_a_second(seed, requests, with_workers=with_workers))
        accepted = [each for each in outcomes if each.verdict == "inferred"]
        rows.append(
            f"| {name} | {len(outcomes)} | {len(accepted)} | {np.mean([each.right for each in accepted]):.0%} | "
            f"{_percentile(each.error for each in accepted) * 100:.2f} % | "
            f"{max(abs(each.error) for each in accepted):.1%} |\n"
        )
    return "".join(rows)


def recorded_page(backends: Sequence[Recorded]) -> str:
    """Return the page on runs of the lab."""
    return SERVERS.format(summary=textwrap.fill(_summary(backends), 120)) + "".join(map(_backend, backends))


def _summary(backends: Sequence[Recorded]) -> str:
    accepted = [each for each in backends if each.result["verdict"] == "inferred"]
    errors = [abs(each.error or 0.0) for each in accepted]
    wrong = sum(error > accuracy.MATERIAL for error in errors)
    queued = [
        each for each in accepted if each.slots is not None and each.measured["mean"] > 0.1 * each.measured["response"]
    ]
    right = sum(each.result["workers"] == each.slots for each in queued)
    verdicts = [each.result["verdict"] for each in backends]
    return (
        f"{counted(len(backends), 'backend')}: {len(accepted)} inferred, {verdicts.count('lower_bound')} with a lower "
        f"bound, {verdicts.count('refused')} refused. Of the inferred ones the median error is "
        f"{np.median(errors) if errors else 0.0:.1%}, the largest {max(errors, default=0.0):.1%}; {wrong} are off by "
        f"more than 5 %. Where requests waited for more than a tenth of their time, the number of workers is right for "
        f"{right} of {len(queued)}."
    )


def _backend(each: Recorded) -> str:
    result, measured = each.result, each.measured
    wait = result["wait"]
    inferred = f"{milliseconds(wait['mean'])}, {milliseconds(wait['p99'])}" if wait else "–"
    workers = "–" if wait is None else str(result["workers"])
    verdict = result["verdict"].replace("_", " ")
    error = "–" if each.error is None else formatted(each.error, "+.1%")
    return (
        f"| {each.scenario} | {each.case} | {each.server} | {result['requests']:,} | {verdict} "
        f"| {workers} | {milliseconds(measured['mean'])}, {milliseconds(measured['p99'])} | {inferred} | {error} |\n"
    )
