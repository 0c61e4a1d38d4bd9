"""The simulation kernel: an event loop over arrivals, ends of services and time-outs.

At one instant, clients give up first, then services end, then requests arrive; among arrivals, and among ends of
services, the order is that of the input. The server is not notified of a time-out: the attempt keeps its place and is
served.

The state is in five arrays of records. A request keeps its record. An attempt has a slot while it waits or is served;
slots are linked into the queue they wait in, and into the list of slots whose clients still wait for the answer. That
list is in the order of their time-outs, because all clients have the same timeout.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from sojourn.model.compilation import compiled
from sojourn.queueing.outcome import DROPPED, REJECTED, SERVED, TIMED_OUT_SERVED, TIMED_OUT_WAITING
from sojourn.queueing.records import (
    ADAPTIVE_LIFO,
    CODEL,
    DEADLINE,
    GIVEN,
    LEAST_CONN,
    LIFO,
    NONE,
    SHARED_QUEUE,
    SJF,
    TWO_CHOICES,
)

# --- a binary heap of events: by time, then by request ------------------------------------------------------


@compiled
def earlier(time, request, event):
    """Return whether (time, request) precedes an event."""
    return time < event.time or (time == event.time and request < event.request)


@compiled
def push(heap, size, time, request, slot):
    """Add an event to a heap of ``size``."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if not earlier(time, request, heap[above]):
            break
        heap[at].time, heap[at].request, heap[at].slot = heap[above].time, heap[above].request, heap[above].slot
        at = above
    heap[at].time, heap[at].request, heap[at].slot = time, request, slot


@compiled
def drop_top(heap, size):
    """Remove the first event of a heap of ``size``."""
    size -= 1
    time, request, slot = heap[size].time, heap[size].request, heap[size].slot
    at = 0
    while True:
        least = 2 * at + 1
        if least >= size:
            break
        if least + 1 < size and earlier(heap[least + 1].time, heap[least + 1].request, heap[least]):
            least += 1
        if earlier(time, request, heap[least]):
            break
        heap[at].time, heap[at].request, heap[at].slot = heap[least].time, heap[least].request, heap[least].slot
        at = least
    heap[at].time, heap[at].request, heap[at].slot = time, request, slot


# --- queues and disciplines ---------------------------------------------------------------------------------


@compiled
def shorter(slots, a, b):
    """Merge two heaps of services, and return the top: a pairing heap (Fredman, Sedgewick, Sleator & Tarjan 1986)."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    of_a = (slots[a].service, slots[a].arrived, slots[a].request)
    of_b = (slots[b].service, slots[b].arrived, slots[b].request)
    if of_b < of_a:
        a, b = b, a
    slots[b].behind = slots[a].child
    slots[a].child = b
    return a


@compiled
def take_shortest(slots, queue):
    """Take the slot with the shortest service, of equals the first arrival: sjf (Phipps 1956)."""
    top = queue.head
    pairs, at = NONE, slots[top].child
    while at != NONE:
        other = slots[at].behind
        following, merged = NONE, at
        if other != NONE:
            following = slots[other].behind
            merged = shorter(slots, at, other)
        slots[merged].behind = pairs
        pairs, at = merged, following
    merged = NONE
    while pairs != NONE:
        following = slots[pairs].behind
        merged = shorter(slots, merged, pairs)
        pairs = following
    queue.head = merged
    return top


@compiled
def take_first(slots, queue):
    """Take the slot that arrived first: fifo."""
    s = queue.head
    queue.head = slots[s].behind
    if queue.head == NONE:
        queue.tail = NONE
    else:
        slots[queue.head].ahead = NONE
    return s


@compiled
def take_last(slots, queue):
    """Take the slot that arrived last: lifo."""
    s = queue.tail
    queue.tail = slots[s].ahead
    if queue.tail == NONE:
        queue.head = NONE
    else:
        slots[queue.tail].behind = NONE
    return s


@compiled
def take(slots, queue, rules):
    """Take the next slot of a queue that is not empty. adaptive_lifo: the last arrival if many wait (Maurer 2015)."""
    queue.waiting -= 1
    if rules.discipline == SJF:
        return take_shortest(slots, queue)
    reversed_order = rules.discipline == ADAPTIVE_LIFO and queue.waiting >= rules.lifo_threshold
    if rules.discipline == LIFO or reversed_order:
        return take_last(slots, queue)
    return take_first(slots, queue)


@compiled
def put(slots, queue, s, rules):
    """Append the slot ``s`` to a queue."""
    queue.waiting += 1
    slots[s].behind = NONE
    if rules.discipline == SJF:
        slots[s].child = NONE
        queue.head = shorter(slots, queue.head, s)
        return
    slots[s].ahead = queue.tail
    if queue.tail == NONE:
        queue.head = s
    else:
        slots[queue.tail].behind = s
    queue.tail = s


@compiled
def deadline_drops(slot, now, rules):
    """Return whether ``deadline`` drops a slot: its client has given up, or has at most the margin left."""
    return slot.present == 0 or slot.arrived + rules.timeout - now <= rules.deadline_margin


@compiled
def codel_drops(queue, waited, now, rules):
    """Return whether ``codel`` drops the next slot, by the control law of Nichols & Jacobson (2012; RFC 8289, §5).

    Waits above the target for an interval begin a series of drops at distances of interval / sqrt(drops); a wait below
    the target, or an empty queue, ends it. The time of the next drop is computed only when the series continues
    (``dropping`` is 2 until then).
    """
    if waited < rules.codel_target or queue.waiting == 0:
        queue.above = np.inf
        queue.dropping = 0
        return False
    if queue.above == np.inf:
        queue.above = now + rules.codel_interval
        queue.dropping = 0
        return False
    if queue.dropping == 2:
        queue.drop_next += rules.codel_interval / math.sqrt(queue.drops)
        queue.dropping = 1
    if queue.dropping:
        if now < queue.drop_next:
            return False
        queue.drops += 1
        queue.dropping = 2
        return True
    if now < queue.above:
        return False
    # A series soon after the last one continues at its rate.
    fresh = queue.drops - queue.drops_at_begin
    resumed = fresh > 1 and now - queue.drop_next < 16 * rules.codel_interval
    queue.drops = fresh if resumed else 1
    queue.drops_at_begin = queue.drops
    queue.drop_next = now + rules.codel_interval / math.sqrt(queue.drops)
    queue.dropping = 1
    return True


@compiled
def drops(slot, queue, now, rules):
    """Return whether the discipline drops the next slot."""
    if rules.discipline == CODEL:
        return codel_drops(queue, now - slot.arrived, now, rules)
    return rules.discipline == DEADLINE and deadline_drops(slot, now, rules)


# --- balancers ----------------------------------------------------------------------------------------------


@compiled
def least_conn(connections, current):
    """Return the backend with the fewest connections; ties by nginx's round robin, with the weights ``current``."""
    chosen, tied = 0, 0
    for b in range(len(connections)):
        if connections[b] < connections[chosen]:
            chosen, tied = b, 1
        elif connections[b] == connections[chosen]:
            tied += 1
    if tied == 1:
        return chosen
    fewest = connections[chosen]
    for b in range(chosen, len(connections)):
        if connections[b] == fewest:
            current[b] += 1
            if current[b] > current[chosen]:
                chosen = b
    current[chosen] -= tied
    return chosen


@compiled
def two_choices(connections):
    """Return the backend with fewer connections of two random ones; of equals the first (Mitzenmacher 1996)."""
    count = len(connections)
    if count == 1:
        return 0
    a = np.random.randint(0, count)
    b = np.random.randint(0, count - 1)
    if b >= a:
        b += 1
    return b if connections[b] < connections[a] else a


@compiled
def chosen(recorded, connections, current, state, rules):
    """Return the backend that the balancer sends an attempt to; NONE with a shared queue."""
    if rules.balancer == SHARED_QUEUE:
        return NONE
    if rules.balancer == GIVEN:
        return np.int64(recorded)
    if rules.balancer == LEAST_CONN:
        return least_conn(connections, current)
    if rules.balancer == TWO_CHOICES:
        return two_choices(connections)
    b = state.turn
    state.turn = b + 1 if b + 1 < len(connections) else 0
    return b


# --- clients ------------------------------------------------------------------------------------------------


@compiled
def add_client(slots, state, s):
    """Append the slot ``s`` to the list of clients that wait for an answer; its time-out is the last."""
    slots[s].present = 1
    slots[s].earlier, slots[s].later = state.gives_up_last, NONE
    if state.gives_up_last == NONE:
        state.gives_up_first = s
    else:
        slots[state.gives_up_last].later = s
    state.gives_up_last = s


@compiled
def remove_client(slots, state, s):
    """Remove the slot ``s`` from the list of clients that wait for an answer."""
    slots[s].present = 0
    before, after = slots[s].earlier, slots[s].later
    if before == NONE:
        state.gives_up_first = after
    else:
        slots[before].later = after
    if after == NONE:
        state.gives_up_last = before
    else:
        slots[after].earlier = before


@compiled
def settled(requests, i, status, now, coming, state):
    """End request ``i`` for its client, and schedule the requests that follow it."""
    requests[i].status = status
    requests[i].sojourn = now - requests[i].arrival
    state.ended = max(state.ended, now)
    follower = requests[i].first
    while follower != NONE:
        push(coming, state.coming, now + requests[follower].think, follower, NONE)
        state.coming += 1
        follower = requests[follower].following


@compiled
def failed(requests, i, status, now, coming, state, rules):
    """Schedule the next attempt of request ``i`` after the backoff, or end the request."""
    if requests[i].attempts <= rules.retries:
        push(coming, state.coming, now + rules.backoff, i, NONE)
        state.coming += 1
    else:
        settled(requests, i, status, now, coming, state)


# --- the loop -----------------------------------------------------------------------------------------------


@compiled
def skip_followers(requests, state, i):
    """Set the next request that follows no other to ``i`` or the first such request after it."""
    while i < len(requests) and not np.isnan(requests[i].think):
        i += 1
    state.upcoming = i


@compiled
def begin(queues, state, requests, rules):
    """Initialise the state: empty queues, all workers free, and the first request about to arrive."""
    np.random.seed(rules.seed)
    for q in range(len(queues)):
        queues[q].free = queues[q].workers
        queues[q].free_from = queues[q].waiting = queues[q].dropping = queues[q].drops = queues[q].drops_at_begin = 0
        queues[q].head = queues[q].tail = NONE
        queues[q].above, queues[q].drop_next = np.inf, 0.0
    state.empty = state.gives_up_first = state.gives_up_last = NONE
    state.turn = state.ending = state.coming = state.unused = 0
    state.busy = state.wasted = 0.0
    state.ended = -np.inf
    skip_followers(requests, state, 0)


@compiled
def gives_up(requests, slots, coming, connections, state, rules):
    """Process the next time-out. The attempt keeps its place."""
    s = state.gives_up_first
    i, b = slots[s].request, slots[s].backend
    now = slots[s].arrived + rules.timeout
    remove_client(slots, state, s)
    if b != NONE:
        connections[b] -= 1
    if slots[s].worker == NONE:
        requests[i].wait = now - slots[s].arrived
        failed(requests, i, TIMED_OUT_WAITING, now, coming, state, rules)
    else:
        failed(requests, i, TIMED_OUT_SERVED, now, coming, state, rules)


@compiled
def run(  # noqa: PLR0912, PLR0915 - calls would count references to every array, at several times the cost
    requests, slots, queues, ending, coming, ring, owner, connections, current, state, rules
):
    """Process events until none is left.

    Args:
        requests: n of REQUEST, filled in.
        slots: of SLOT.
        queues: of QUEUE, one for each backend, or one for all.
        ending: of EVENT, ends of services; as long as the number of workers + 1.
        coming: of EVENT, retries and followers; as long as the number of requests + 1, or 1 without any.
        ring: per worker; a queue's free workers are in its part, which begins at ``first_worker``.
        owner: per worker, its backend.
        connections: per backend, open connections.
        current: per backend, weight of least_conn.
        state: a STATE.
        rules: of the system.

    Returns:
        True at the end; False if no slot is left: call it again with more slots.
    """
    n, timeout = len(requests), rules.timeout
    shared = rules.balancer == SHARED_QUEUE
    while True:
        arrival = requests[state.upcoming].arrival if state.upcoming < n else np.inf
        scheduled = coming[0].time if state.coming else np.inf
        end = ending[0].time if state.ending else np.inf
        expiry = slots[state.gives_up_first].arrived + timeout if state.gives_up_first != NONE else np.inf
        now = min(expiry, end, arrival, scheduled)
        if now == np.inf:
            return True
        if now == expiry:
            gives_up(requests, slots, coming, connections, state, rules)
            continue
        if now == end:
            # A service ends: a worker of queue q is free.
            s = ending[0].slot
            drop_top(ending, state.ending)
            state.ending -= 1
            i, worker, b = slots[s].request, slots[s].worker, slots[s].backend
            if slots[s].present:
                remove_client(slots, state, s)
                connections[b] -= 1
                settled(requests, i, SERVED, now, coming, state)
            else:
                state.wasted += slots[s].service
                state.ended = max(state.ended, now)
            slots[s].behind = state.empty
            state.empty = s
            q = 0 if shared else b
            place = queues[q].free_from + queues[q].free
            if place >= queues[q].workers:
                place -= queues[q].workers
            ring[queues[q].first_worker + place] = worker
            queues[q].free += 1
        elif state.empty == NONE and state.unused == len(slots):
            return False
        else:
            # An arrival, a retry or a follower joins queue q.
            if arrival < scheduled or (arrival == scheduled and state.upcoming < coming[0].request):
                i = state.upcoming
                state.upcoming += 1
                while state.upcoming < n and not np.isnan(requests[state.upcoming].think):
                    state.upcoming += 1
            else:
                i = coming[0].request
                drop_top(coming, state.coming)
                state.coming -= 1
            if requests[i].attempts == 0:
                requests[i].arrival = now
            requests[i].attempts += 1
            b = chosen(requests[i].backend, connections, current, state, rules)
            q = 0 if shared else b
            requests[i].backend = b
            requests[i].wait = 0.0
            requests[i].start = np.nan
            if queues[q].free == 0 and queues[q].waiting >= rules.capacity:
                failed(requests, i, REJECTED, now, coming, state, rules)
                continue
            if state.empty != NONE:
                s = state.empty
                state.empty = slots[s].behind
            else:
                s = state.unused
                state.unused += 1
            slots[s].request, slots[s].attempt, slots[s].arrived = i, requests[i].attempts, now
            slots[s].service, slots[s].backend, slots[s].worker = requests[i].service, b, NONE
            add_client(slots, state, s)
            if b != NONE:
                connections[b] += 1
            put(slots, queues[q], s, rules)
        # While a worker is free and a request waits, the worker that has been free the longest takes one.
        while queues[q].free > 0 and queues[q].waiting > 0:
            s = take(slots, queues[q], rules)
            i, waited, b = slots[s].request, now - slots[s].arrived, slots[s].backend
            if drops(slots[s], queues[q], now, rules):
                if slots[s].present:
                    remove_client(slots, state, s)
                    if b != NONE:
                        connections[b] -= 1
                    requests[i].wait = waited
                    failed(requests, i, DROPPED, now, coming, state, rules)
                slots[s].behind = state.empty
                state.empty = s
                continue
            worker = ring[queues[q].first_worker + queues[q].free_from]
            queues[q].free_from = queues[q].free_from + 1 if queues[q].free_from + 1 < queues[q].workers else 0
            queues[q].free -= 1
            if shared:
                b = owner[worker]
                slots[s].backend = b
                connections[b] += slots[s].present
            slots[s].worker = worker
            if slots[s].attempt == requests[i].attempts:
                requests[i].start = now
                requests[i].backend = b
                if slots[s].present:
                    requests[i].wait = waited
            state.busy += slots[s].service
            push(ending, state.ending, now + slots[s].service, i, s)
            state.ending += 1
