"""The event loop: one pass over the instants at which something happens.

At one instant, clients give up first, then services end, then requests arrive; among arrivals, and among services that
end, the request given first comes first. Whoever gives up leaves no word: the attempt keeps its place, and its service
is done for nobody.

All there is to know stands in five arrays of records. A request has one, for good. An attempt has a slot while it waits
or is served; slots are linked into the queue they wait in, and into the list of those whose clients are there, which is
in the order in which these give up, for all have the same patience.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import numpy as np

from sojourn.model.compilation import compiled
from sojourn.queueing.records import (
    ADAPTIVE_LIFO,
    CODEL,
    DEADLINE,
    DROPPED,
    GIVEN,
    LEAST_CONN,
    LIFO,
    NONE,
    REJECTED,
    SERVED,
    SHARED_QUEUE,
    SJF,
    TIMED_OUT_SERVED,
    TIMED_OUT_WAITING,
    TWO_CHOICES,
)

# --- a binary heap of events: by time, then by request ------------------------------------------------------


@compiled
def earlier(time, request, event):
    """Whether something comes before an event."""
    return time < event.time or (time == event.time and request < event.request)


@compiled
def push(heap, size, time, request, slot):
    """One more event in a heap of ``size``."""
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
    """A heap of ``size`` without its first."""
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
    """Of two heaps of services the one heap of all: a pairing heap (Fredman, Sedgewick, Sleator & Tarjan 1986)."""
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
    """sjf: the shortest service; of equals, the first come (Phipps 1956)."""
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
    """fifo: whoever came first."""
    s = queue.head
    queue.head = slots[s].behind
    if queue.head == NONE:
        queue.tail = NONE
    else:
        slots[queue.head].ahead = NONE
    return s


@compiled
def take_last(slots, queue):
    """lifo: whoever came last."""
    s = queue.tail
    queue.tail = slots[s].ahead
    if queue.tail == NONE:
        queue.head = NONE
    else:
        slots[queue.tail].behind = NONE
    return s


@compiled
def take(slots, queue, rules):
    """Who is next in a queue that somebody waits in. adaptive_lifo: the last come while many wait (Maurer 2015)."""
    queue.waiting -= 1
    if rules.discipline == SJF:
        return take_shortest(slots, queue)
    turned = rules.discipline == ADAPTIVE_LIFO and queue.waiting >= rules.lifo_threshold
    if rules.discipline == LIFO or turned:
        return take_last(slots, queue)
    return take_first(slots, queue)


@compiled
def put(slots, queue, s, rules):
    """``s`` waits, the last to come."""
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
    """deadline: whether the client has given up, or has no more than the margin left."""
    return slot.present == 0 or slot.arrived + rules.timeout - now <= rules.deadline_margin


@compiled
def codel_drops(queue, waited, now, rules):
    """codel: whether to drop whoever is next, by the control law of Nichols & Jacobson (2012; RFC 8289, §5).

    Waits that stay above the target for an interval begin a spell of drops, each sooner after the last by
    interval / sqrt(drops); a wait below the target, or nobody behind, ends it. When the next drop is due is settled
    only once it is seen that the spell goes on (``dropping`` is 2 until then).
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
    # A spell soon after the last one goes on at its pace.
    fresh = queue.drops - queue.drops_at_begin
    again = fresh > 1 and now - queue.drop_next < 16 * rules.codel_interval
    queue.drops = fresh if again else 1
    queue.drops_at_begin = queue.drops
    queue.drop_next = now + rules.codel_interval / math.sqrt(queue.drops)
    queue.dropping = 1
    return True


@compiled
def drops(slot, queue, now, rules):
    """Whether the discipline drops whoever is next."""
    if rules.discipline == CODEL:
        return codel_drops(queue, now - slot.arrived, now, rules)
    return rules.discipline == DEADLINE and deadline_drops(slot, now, rules)


# --- balancers ----------------------------------------------------------------------------------------------


@compiled
def least_conn(connections, current):
    """The fewest connections; among equals nginx's round robin, whose ``current`` weights take part in ties alone."""
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
    """Of two different ones at random that with fewer connections; of equals the first drawn (Mitzenmacher 1996)."""
    count = len(connections)
    if count == 1:
        return 0
    a = np.random.randint(0, count)
    b = np.random.randint(0, count - 1)
    if b >= a:
        b += 1
    return b if connections[b] < connections[a] else a


@compiled
def chosen(given, connections, current, state, rules):
    """The backend that the balancer sends an attempt to; NONE with a shared queue."""
    if rules.balancer == SHARED_QUEUE:
        return NONE
    if rules.balancer == GIVEN:
        return np.int64(given)
    if rules.balancer == LEAST_CONN:
        return least_conn(connections, current)
    if rules.balancer == TWO_CHOICES:
        return two_choices(connections)
    b = state.turn
    state.turn = b + 1 if b + 1 < len(connections) else 0
    return b


# --- clients ------------------------------------------------------------------------------------------------


@compiled
def is_there(slots, state, s):
    """The client of ``s`` has come, and of those who are there it will be the last to give up."""
    slots[s].present = 1
    slots[s].earlier, slots[s].later = state.gives_up_last, NONE
    if state.gives_up_last == NONE:
        state.gives_up_first = s
    else:
        slots[state.gives_up_last].later = s
    state.gives_up_last = s


@compiled
def is_gone(slots, state, s):
    """The client of ``s`` has its answer, or none."""
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
    """Request ``i`` is over for its client, who may now come with those that follow."""
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
    """An attempt of request ``i`` failed: the next one comes after the backoff, if there is one."""
    if requests[i].attempts <= rules.retries:
        push(coming, state.coming, now + rules.backoff, i, NONE)
        state.coming += 1
    else:
        settled(requests, i, status, now, coming, state)


# --- the loop -----------------------------------------------------------------------------------------------


@compiled
def skip_followers(requests, state, i):
    """The next request that comes by itself is ``i`` or the first such after it."""
    while i < len(requests) and not np.isnan(requests[i].think):
        i += 1
    state.upcoming = i


@compiled
def begin(queues, state, requests, rules):
    """Empty queues, all workers free, and the first request about to come."""
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
    """The first client whose patience ends goes. The attempt keeps its place."""
    s = state.gives_up_first
    i, b = slots[s].request, slots[s].backend
    now = slots[s].arrived + rules.timeout
    is_gone(slots, state, s)
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
    """Go on until nothing more happens. False: there is no slot left, and it is to be called again with more of them.

    Args:
        requests: n of REQUEST, filled in.
        slots: of SLOT.
        queues: of QUEUE, one for each backend, or one for all.
        ending, coming: of EVENT, room for all workers and one; for all requests and one, where any may come again.
        ring: per worker, the numbers of a queue's free workers in its stretch from ``first_worker``.
        owner: per worker, its backend.
        connections, current: per backend, open connections and least_conn's weights.
        state: a STATE.
        rules: of the system.
    """
    n, timeout = len(requests), rules.timeout
    shared = rules.balancer == SHARED_QUEUE
    while True:
        own = requests[state.upcoming].arrival if state.upcoming < n else np.inf
        again = coming[0].time if state.coming else np.inf
        end = ending[0].time if state.ending else np.inf
        gone = slots[state.gives_up_first].arrived + timeout if state.gives_up_first != NONE else np.inf
        now = min(gone, end, own, again)
        if now == np.inf:
            return True
        if now == gone:
            gives_up(requests, slots, coming, connections, state, rules)
            continue
        if now == end:
            # A service ends: a worker of queue q is free.
            s = ending[0].slot
            drop_top(ending, state.ending)
            state.ending -= 1
            i, worker, b = slots[s].request, slots[s].worker, slots[s].backend
            if slots[s].present:
                is_gone(slots, state, s)
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
            # A request comes, by itself, again, or after another, and joins queue q.
            if own < again or (own == again and state.upcoming < coming[0].request):
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
            is_there(slots, state, s)
            if b != NONE:
                connections[b] += 1
            put(slots, queues[q], s, rules)
        # While a worker is free and somebody waits, the worker that has been free the longest takes one.
        while queues[q].free > 0 and queues[q].waiting > 0:
            s = take(slots, queues[q], rules)
            i, waited, b = slots[s].request, now - slots[s].arrived, slots[s].backend
            if drops(slots[s], queues[q], now, rules):
                if slots[s].present:
                    is_gone(slots, state, s)
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
