"""How requests are bound to processes with queues of their own: at random, in turn, by client, or to the least loaded.

The rule is inferred from the loads that the requests met. A rule is used only where processes are added: otherwise each
request keeps its process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Floats, Ints
from sojourn.model.compilation import compiled

RANDOM, IN_TURN, BY_CLIENT, LEAST_LOADED = "at random", "in turn", "by client", "to the least loaded"
MOSTLY = 0.9  # share of the requests that follow a cycle, or go where their client's others do
OF_A_CLIENT, CLIENTS = 10, 3  # fewest requests, and clients
AGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # s: of what a balancer knows of the loads
BETTER = 0.06  # share of the choices above chance, from which on the least loaded is chosen


@dataclass(frozen=True)
class Binding:
    """A rule.

    Attributes:
        rule: one of the constants of this module.
        shares: of the requests, by process.
        age: of the loads that the least loaded is chosen by, s.
    """

    rule: str
    shares: Floats
    age: float = 0.0


def binding_of(arrival: Floats, end: Floats, process: Ints, client: Ints) -> Binding:
    """Infer the rule.

    Args:
        arrival: of each request, s, in order.
        end: until when it is at its process, s.
        process: of each, from 0.
        client: of each; equal for all if clients are not known.
    """
    count = int(process.max()) + 1
    shares = np.bincount(process, minlength=count) / len(process)
    if ((np.diff(process) - 1) % count == 0).mean() > MOSTLY and count > 2:
        return Binding(IN_TURN, shares)
    if _share_at_usual_process(process, client) > MOSTLY:
        return Binding(BY_CLIENT, shares)
    agreement = {age: _to_the_least(arrival, end, process, count, age) for age in AGES}
    age = max(agreement, key=lambda each: agreement[each])
    if agreement[age] > BETTER:
        return Binding(LEAST_LOADED, shares, age)
    return Binding(RANDOM, shares)


def _share_at_usual_process(process: Ints, client: Ints) -> float:
    """Return the share of the requests at the process where most of their client's go, above chance; 0 if unknown."""
    names, code = np.unique(client, return_inverse=True)
    table = np.zeros((len(names), int(process.max()) + 1))
    np.add.at(table, (code, process), 1)
    table = table[table.sum(axis=1) >= OF_A_CLIENT]
    if len(table) < CLIENTS:
        return 0.0
    return float(table.max(axis=1).sum() / table.sum())


def _to_the_least(arrival: Floats, end: Floats, process: Ints, count: int, age: float) -> float:
    """Return how often requests went to a process with the least load as of ``age`` s before, above chance."""
    load = np.empty((count, len(arrival)))
    for number in range(count):
        own = process == number
        arrived, left = np.sort(arrival[own]), np.sort(end[own])
        load[number] = np.searchsorted(arrived, arrival - age, "left") - np.searchsorted(left, arrival - age, "left")
    least = load.min(axis=0)
    choice = load.max(axis=0) > least
    if not choice.any():
        return 0.0
    chosen = load[process, np.arange(len(process))] == least
    return float(chosen[choice].mean()) - float(((load == least).sum(axis=0)[choice] / count).mean())


def bound(binding: Binding, arrival: Floats, services: Floats, processes: int, seed: int) -> Ints:
    """Return the process of each request if there are ``processes`` of one worker each; the rule is not by client.

    ``arrival``: s, in order; ``services``: how long each request holds its worker, s.
    """
    rng = np.random.default_rng(seed)
    if binding.rule == IN_TURN:
        return (np.arange(len(arrival)) + seed) % processes
    if binding.rule == LEAST_LOADED:
        return _least_loaded(arrival, services, processes, binding.age, rng.random(len(arrival)))
    shares = np.append(binding.shares, np.full(max(processes - len(binding.shares), 0), binding.shares.mean()))
    return rng.choice(processes, len(arrival), p=shares[:processes] / shares[:processes].sum())


@compiled
def _least_loaded(arrival, services, processes, age, draw):  # type: ignore[no-untyped-def]
    """Bind requests to the process with the fewest others, as known at most ``age`` s before; ties by ``draw``."""
    count = len(arrival)
    chosen = np.zeros(count, np.int64)
    free = np.full(processes, -np.inf)
    present, reported = np.zeros(processes, np.int64), np.zeros(processes, np.int64)
    leaves = np.empty(count)
    first, last = np.full(processes, -1, np.int64), np.full(processes, -1, np.int64)
    following = np.full(count, -1, np.int64)
    reported_at = -np.inf
    for i in range(count):
        now = arrival[i]
        if now - reported_at >= age:
            for p in range(processes):
                while first[p] >= 0 and leaves[first[p]] <= now:
                    first[p] = following[first[p]]
                    present[p] -= 1
                reported[p] = present[p]
            reported_at = now
        fewest = reported.min()
        ties = 0
        for p in range(processes):
            ties += reported[p] == fewest
        skipped = int(draw[i] * ties)
        for p in range(processes):
            if reported[p] == fewest:
                if skipped == 0:
                    break
                skipped -= 1
        chosen[i] = p
        free[p] = max(free[p], now) + services[i]
        leaves[i] = free[p]
        if first[p] < 0:
            first[p] = i
        else:
            following[last[p]] = i
        last[p] = i
        present[p] += 1
    return chosen
