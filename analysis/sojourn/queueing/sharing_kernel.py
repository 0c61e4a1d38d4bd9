"""The kernel of replays with shared resources: first come, first served, by workers whose services slow each other.

A service has three parts: one of its own before, one that needs the resource of its backend, one of its own after. The
shared parts of one resource advance at the same speed, a function of their number: each ends when the resource has
advanced by its demand, so that their ends are in the order of these sums (processor sharing; Kleinrock 1967). A
resource of places serves that many at full speed, and the others wait for one, first come, first served.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from sojourn.model.compilation import compiled
from sojourn.queueing.records import GIVEN, LEAST_CONN, NONE, SHARED_QUEUE, TWO_CHOICES
from sojourn.queueing.simulation_kernel import drop_top, least_conn, push, two_choices


@compiled
def run(  # noqa: PLR0912, PLR0915 - calls would count references to every array, at several times the cost
    arrival, before, demand, after, destination, workers, resource, speeds, places, balancer, seed, ending, timers,
    start, lasted, released, chosen,
):  # fmt: skip
    """Serve n requests.

    Args:
        arrival: s, n, in order.
        before: s, of each: the part of its own before the shared one.
        demand: s, of each: the shared part, alone at its resource.
        after: s, of each: the part of its own after it.
        destination: n, the backend of each with the balancer ``GIVEN``; else empty.
        workers: per backend.
        resource: per backend.
        speeds: per resource and number of shared parts in progress; the last one holds for more.
        places: per resource; 0: all its shared parts are in progress, and slow each other.
        balancer: of ``records``.
        seed: of random choices.
        ending: of EVENT, per resource and place: a heap of the ends of shared parts, by the progress of the resource.
        timers: of EVENT, per place: a heap of the ends of the parts of their own and of those at places, by time.
        start: n, filled in: s.
        lasted: n, filled in: duration of the shared part, s.
        released: n, filled in: when its worker is free, s.
        chosen: n, filled in: the backend.
    """
    np.random.seed(seed)
    n, backends, resources, most = len(arrival), len(workers), len(speeds), speeds.shape[1] - 1
    shared = balancer == SHARED_QUEUE
    progress, since, due = np.zeros(resources), np.zeros(resources), np.full(resources, np.inf)
    busy = np.zeros(resources, np.int64)
    timed = 0
    vacant = places.copy()
    front, back, next_in = np.full(resources, NONE), np.full(resources, NONE), np.full(n, NONE)
    free = workers.copy()
    queues = 1 if shared else backends
    head, tail, behind = np.full(queues, NONE), np.full(queues, NONE), np.full(n, NONE)
    connections, current = np.zeros(backends, np.int64), np.zeros(backends, np.int64)
    turn, upcoming = 0, 0
    while True:
        come = arrival[upcoming] if upcoming < n else np.inf
        alarm = timers[0].time if timed else np.inf
        first = 0
        for r in range(1, resources):
            if due[r] < due[first]:
                first = r
        now = min(come, alarm, due[first])
        if now == np.inf:
            return
        q = NONE
        changed, entering = NONE, NONE
        if now == due[first]:
            # A shared part ends.
            changed = first
            i = ending[first, 0].request
            progress[first] = ending[first, 0].time
            since[first] = now
            drop_top(ending[first], busy[first])
            busy[first] -= 1
            lasted[i] = now - start[i] - before[i]
            push(timers, timed, now + after[i], i, NONE)
            timed += 1
        elif now == alarm:
            i = timers[0].request
            drop_top(timers, timed)
            timed -= 1
            if np.isnan(lasted[i]):
                entering = i
            elif lasted[i] == np.inf:
                # The part at a place ends, and the next one begins.
                lasted[i] = now - start[i] - before[i]
                push(timers, timed, now + after[i], i, NONE)
                timed += 1
                r = resource[chosen[i]]
                i = front[r]
                if i == NONE:
                    vacant[r] += 1
                else:
                    front[r] = next_in[i]
                    lasted[i] = np.inf
                    push(timers, timed, now + demand[i], i, NONE)
                    timed += 1
            else:
                b = chosen[i]
                released[i] = now
                connections[b] -= 1
                free[b] += 1
                q = 0 if shared else b
        else:
            i = upcoming
            upcoming += 1
            if balancer == GIVEN:
                b = np.int64(destination[i])
            elif balancer == LEAST_CONN:
                b = least_conn(connections, current)
            elif balancer == TWO_CHOICES:
                b = two_choices(connections)
            elif shared:
                b = 0
            else:
                b = turn
                turn = turn + 1 if turn + 1 < backends else 0
            chosen[i] = b
            if not shared:
                connections[b] += 1
            q = b
            if head[q] == NONE:
                head[q] = i
            else:
                behind[tail[q]] = i
            tail[q] = i
            lasted[i] = np.nan
        if q != NONE and head[q] != NONE:
            b = q
            if shared:
                # The backend with the most free workers takes it.
                for other in range(backends):
                    if free[other] > free[b]:
                        b = other
            if free[b] > 0:
                i = head[q]
                head[q] = behind[i]
                free[b] -= 1
                if shared:
                    connections[b] += 1
                    chosen[i] = b
                start[i] = now
                if before[i] > 0:
                    push(timers, timed, now + before[i], i, NONE)
                    timed += 1
                else:
                    entering = i
        if entering != NONE and places[resource[chosen[entering]]] > 0:
            r = resource[chosen[entering]]
            if vacant[r] > 0:
                vacant[r] -= 1
                lasted[entering] = np.inf
                push(timers, timed, now + demand[entering], entering, NONE)
                timed += 1
            else:
                if front[r] == NONE:
                    front[r] = entering
                else:
                    next_in[back[r]] = entering
                back[r] = entering
        elif entering != NONE:
            changed = resource[chosen[entering]]
            progress[changed] += (now - since[changed]) * speeds[changed, min(busy[changed], most)]
            since[changed] = now
            push(ending[changed], busy[changed], progress[changed] + demand[entering], entering, NONE)
            busy[changed] += 1
        if changed != NONE:
            due[changed] = np.inf
            if busy[changed]:
                left = max(ending[changed, 0].time - progress[changed], 0.0)
                due[changed] = now + left / speeds[changed, min(busy[changed], most)]
