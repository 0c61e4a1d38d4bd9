"""Answers of application servers, parsed: one function for each kind.

Each takes the text of the answer and raises ValueError, with a reason fit for a message, for any other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from sojourn.host.sample import LONGEST, MOST, TOTAL, Raindrops, WorkerQueue

T = TypeVar("T")

UNLIMITED = (1 << 31) - 1  # Java's largest int: the usual maxQueueSize

Count = Annotated[int, Meta(ge=0, lt=MOST)]
Total = Annotated[int, Meta(ge=0, lt=TOTAL)]
Seconds = Annotated[float, Meta(ge=0, lt=LONGEST)]


class _Fpm(Struct):
    listen_queue: Count = field(name="listen queue")
    listen_queue_length: Count = field(name="listen queue len")
    active: Count = field(name="active processes")
    total: Count = field(name="total processes")
    reached: Total = field(name="max children reached")
    accepted: Total = field(name="accepted conn")


def php_fpm_queue(text: str) -> WorkerQueue:
    """Return the figures of PHP-FPM's status page, ``?json``."""
    status = _decoded(text, _Fpm, "PHP-FPM's status page in JSON")
    # Of a Unix socket PHP-FPM does not know the queue: both numbers are 0.
    has_queue = status.listen_queue_length > 0
    return WorkerQueue(
        kind="php-fpm",
        waiting=status.listen_queue if has_queue else None,
        limit=status.listen_queue_length if has_queue else None,
        busy=status.active,
        workers=status.total,
        limit_reached=status.reached,
        requests=status.accepted,
    )


class _UwsgiSocket(Struct):
    queue: Count = 0
    max_queue: Count = 0


class _UwsgiCore(Struct):
    in_request: Count = 0


class _UwsgiWorker(Struct):
    status: str
    requests: Total = 0
    cores: list[_UwsgiCore] = []


class _Uwsgi(Struct):
    listen_queue_errors: Total
    workers: list[_UwsgiWorker]
    sockets: list[_UwsgiSocket] = []


def uwsgi_queue(text: str) -> WorkerQueue:
    """Return the figures of uWSGI's stats server."""
    stats = _decoded(text, _Uwsgi, "uWSGI's stats server")
    # Of a Unix socket uWSGI does not know the queue: both numbers are 0.
    sockets = [each for each in stats.sockets if each.max_queue > 0]
    running = [worker for worker in stats.workers if worker.status != "cheap"]
    return WorkerQueue(
        kind="uwsgi",
        waiting=_sum(each.queue for each in sockets),
        limit=_sum(each.max_queue for each in sockets),
        busy=sum(
            sum(core.in_request > 0 for core in worker.cores) if worker.cores else worker.status.startswith("busy")
            for worker in running
        ),
        workers=sum(len(worker.cores) or 1 for worker in running),
        limit_reached=stats.listen_queue_errors,
        requests=sum(worker.requests for worker in stats.workers),
    )


class _PumaThreads(Struct):
    backlog: Count | None = None
    pool_capacity: Count | None = None
    max_threads: Count | None = None
    requests_count: Total | None = None


class _PumaWorker(Struct):
    last_status: _PumaThreads


class _Puma(_PumaThreads):
    worker_status: list[_PumaWorker] | None = None


def puma_queue(text: str) -> WorkerQueue:
    """Return the figures of ``/stats`` of Puma's control app, single or cluster mode."""
    stats = _decoded(text, _Puma, "Puma's control app")
    if stats.worker_status is None:
        pools: list[_PumaThreads] = [stats]
    else:
        pools = [worker.last_status for worker in stats.worker_status]
    pools = [pool for pool in pools if pool.backlog is not None]  # a worker has no status before its first report
    if not pools and not stats.worker_status:
        raise ValueError("the answer is not from Puma's control app: it has no backlog")
    capacities = [
        (pool.max_threads, pool.max_threads - pool.pool_capacity)
        for pool in pools
        if pool.max_threads is not None and pool.pool_capacity is not None
    ]
    return WorkerQueue(
        kind="puma",
        waiting=_sum(pool.backlog for pool in pools),
        busy=_sum(max(busy, 0) for _, busy in capacities),
        workers=_sum(threads for threads, _ in capacities),
        requests=_sum(pool.requests_count for pool in pools),
    )


class _NodeDelay(Struct):
    mean: Seconds | None = None
    p50: Seconds | None = None
    p99: Seconds | None = None
    max: Seconds | None = None


class _Node(Struct):
    sojourn: Count
    kind: str
    requests_in_progress: Count
    requests: Total | None = None
    worker: str | None = None
    event_loop_delay: _NodeDelay | None = None
    event_loop_utilisation: Annotated[float, Meta(ge=0, le=1)] | None = None


def node_queue(text: str) -> WorkerQueue:
    """Return the figures of ``statsHandler`` of the npm package sojourn-middleware."""
    stats = _decoded(text, _Node, "sojourn-middleware's statsHandler")
    if stats.kind != "node":
        raise ValueError("the answer is not from sojourn-middleware's statsHandler: its kind is not node")
    delay = stats.event_loop_delay or _NodeDelay()
    return WorkerQueue(
        kind="node",
        busy=stats.requests_in_progress,
        requests=stats.requests,
        instance=(stats.worker or "")[:200],
        event_loop_delay_mean=delay.mean,
        event_loop_delay_p50=delay.p50,
        event_loop_delay_p99=delay.p99,
        event_loop_delay_max=delay.max,
        event_loop_utilisation=stats.event_loop_utilisation,
    )


_BEAN = re.compile(r"Name: (?P<name>\S.*)")
_ATTRIBUTE = re.compile(r"(?P<name>[A-Za-z]{1,40}): (?P<value>-?[0-9]{1,10})")
_TYPE = re.compile(r"[:,]type=(?P<type>ThreadPool|Executor)(?:,|$)")


def tomcat_queue(text: str) -> WorkerQueue:
    """Return the figures of ThreadPool and Executor, as Tomcat's JMX proxy prints them."""
    pools: list[dict[str, int]] = []
    executors: list[dict[str, int]] = []
    bean: dict[str, int] | None = None
    for line in text.splitlines():
        if match := _BEAN.fullmatch(line.strip()):
            kind = _TYPE.search(match["name"])
            # A connector's ThreadPool has a second bean, with the properties of its sockets.
            bean = None if kind is None or "subType=" in match["name"] else {}
            if kind is not None and bean is not None:
                (pools if kind["type"] == "ThreadPool" else executors).append(bean)
        elif bean is not None and (match := _ATTRIBUTE.fullmatch(line.strip())):
            bean[match["name"]] = int(match["value"])
    # maxThreads of a connector is -1 if it has a shared executor, which has a bean of its own.
    own = [pool for pool in pools if pool.get("maxThreads", 0) > 0]
    shared = [executor for executor in executors if executor.get("maxThreads", 0) > 0]
    if not own and not shared:
        raise ValueError("the answer is not from Tomcat's JMX proxy: it has no thread pool")
    queues = [executor["queueSize"] for executor in shared if executor.get("queueSize", -1) >= 0]
    limits = [executor.get("maxQueueSize", UNLIMITED) for executor in shared]
    busy = [pool.get("currentThreadsBusy", -1) for pool in own] + [each.get("activeCount", -1) for each in shared]
    return WorkerQueue(
        kind="tomcat",
        waiting=_sum(queues),
        limit=sum(limits) if limits and all(0 <= limit < UNLIMITED for limit in limits) else None,
        busy=_sum(each for each in busy if each >= 0),
        workers=sum(each["maxThreads"] for each in own + shared),
    )


_LISTENER = re.compile(r"(?P<address>\S+) (?P<kind>active|queued): (?P<count>[0-9]{1,10})")
_COUNT = re.compile(r"(?P<kind>calling|writing): (?P<count>[0-9]{1,10})")


def raindrops_of(text: str, seconds: float = 0.0) -> Raindrops:
    """Return the figures of a response of ``Raindrops::Middleware``; ``seconds``: its duration.

    Raises:
        ValueError: there is nothing of raindrops' in it.
    """
    totals: dict[str, int] = {}
    listeners: dict[str, list[int]] = {}
    for line in text.splitlines():
        if match := _COUNT.fullmatch(line.strip()):
            totals[match["kind"]] = int(match["count"])
        elif match := _LISTENER.fullmatch(line.strip()):
            listeners.setdefault(match["address"], [0, 0])[match["kind"] == "queued"] = int(match["count"])
    if not totals and not listeners:
        raise ValueError("the answer is not from raindrops")
    return Raindrops(
        totals.get("calling"),
        totals.get("writing"),
        {address: (active, queued) for address, (active, queued) in listeners.items()},
        round(seconds, 6),
    )


def _decoded(text: str, form: type[T], source: str) -> T:
    try:
        return msgspec.json.decode(text.encode(errors="replace"), type=form)
    except msgspec.DecodeError as error:  # it names at most a key of the expected form
        raise ValueError(f"the answer is not from {source}: {error}") from None
    except RecursionError:
        raise ValueError(f"the answer is not from {source}: it is nested too deeply") from None


def _sum(values: Iterable[int | None]) -> int | None:
    """Return the sum of the known values; None without any."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None
