"""Systems that share a resource, drawn at random: whether its capacity is in the interval, errors of predictions."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import sojourn

from systems.contended_systems import contended_system
from systems.requests import Change

LARGEST = 0.10  # error of a prediction that is not withheld
Pair = tuple[float, float]


@dataclass(frozen=True)
class Outcome:
    """What is said of one system.

    Attributes:
        words: the system.
        capacity: the true one.
        refused: why nothing is predicted; None: there are predictions.
        detected: whether services are seen to depend on the load.
        intervals: of the capacity, of each resource of the right scope; empty if a part of services waits elsewhere.
        errors: change -> relative errors of mean and p99; None: the change is not predicted.
    """

    words: str
    capacity: int
    refused: str | None
    detected: bool
    intervals: tuple[Pair, ...]
    errors: Mapping[str, Pair | None]


def contended_outcome(seed: int, *, share: float | None = None) -> Outcome:
    """Analyse the system of a seed, and compare each prediction with a simulation of the changed system."""
    system = contended_system(seed, share=share)
    with tempfile.TemporaryDirectory() as folder:
        log, _, truth = system.kind.written(Path(folder))
        changes = {
            "workers=+1": Change(workers=1),
            "workers=+2": Change(workers=2),
            "workers=-1": Change(workers=-1),
            "cores=+1": Change(cores=1),
            "dependency=0.5": Change(dependency=0.5),
            f"service:{truth.heaviest}=x0.5": Change(scale={truth.heaviest: 0.5}),
        }
        settings = {name: dict([name.rsplit("=", 1)]) for name in changes}
        requests = sojourn.split(str(log), columns=("remote_addr", "connection"))
        result = sojourn.whatif(requests, list(settings.values()))
    predicted = {tuple(variant.settings.items()): variant.response_time for variant in result.variants}
    errors: dict[str, Pair | None] = {}
    for name, change in changes.items():
        figures = predicted.get(tuple(settings[name].items()))
        pair = None
        if figures:
            mean, p99 = truth.response(change)
            pair = (figures["mean"] or 0.0) / mean - 1, (figures["p99"] or 0.0) / p99 - 1
        errors["service:ROUTE=x0.5" if name.startswith("service") else name] = pair
    stated = result.contention or {"scope": None, "resources": []}
    right = stated["scope"] == system.scope and system.share == 1
    intervals = [(each["low"] or 0.0, each["high"] or np.inf) for each in stated["resources"]] if right else []
    return Outcome(
        system.kind.facts.words,
        system.capacity,
        result.refused,
        result.contention is not None,
        tuple(intervals),
        errors,
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the share of intervals with the capacity, and a table of errors, in Markdown."""
    inside = [low <= each.capacity <= high for each in outcomes for low, high in each.intervals]
    refused = sum(each.refused is not None for each in outcomes)
    above = f"above {LARGEST:.0%}"
    lines = [
        f"{len(outcomes)} systems drawn at random, whose services share cores or a dependency: for {refused}, no law",
        f"fits, and nothing is predicted. {np.mean(inside):.1%} of {len(inside)} intervals contain the capacity.",
        "Errors, against a simulation of the changed system:",
        "",
        f"| change | predicted | withheld | mean: median | largest | {above} | p99: median | largest | {above} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in outcomes[0].errors:
        pairs = [each.errors[name] for each in outcomes if each.refused is None]
        off = np.abs(np.array([pair for pair in pairs if pair is not None]).reshape(-1, 2))
        cells = [name, len(off), len(pairs) - len(off)]
        for column in off.T:
            figures = (f"{np.median(column):.1%}", f"{column.max():.1%}") if len(column) else ("–", "–")
            cells += [*figures, int((column > LARGEST).sum())]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def studied_in_parallel(count: int) -> list[Outcome]:
    """Return the outcomes of the systems of the first seeds, computed by a process per core."""
    # A process that is forked would lack the threads of the libraries.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return list(pool.map(contended_outcome, range(count), chunksize=4))
