"""The worker's name: small, stable numbers for threads, whatever happens to them."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from collector_support import eventually
from sojourn_middleware.worker import worker_name


def numbers_of(threads: int) -> list[int]:
    """The numbers of threads that live at the same time, in ascending order."""
    gate = threading.Barrier(threads)

    def name() -> str:
        gate.wait(60)  # so that every task has a thread of its own
        return worker_name(True, os.getpid())

    with ThreadPoolExecutor(threads) as pool:
        names = [future.result() for future in [pool.submit(name) for _ in range(threads)]]
    assert {name.partition(".")[0] for name in names} == {str(os.getpid())}
    return sorted(int(name.partition(".")[2]) for name in names)


def test_single_threaded_is_the_process() -> None:
    assert worker_name(False, os.getpid()) == str(os.getpid())


def test_a_thread_keeps_its_number() -> None:
    assert worker_name(True, os.getpid()) == worker_name(True, os.getpid())


def test_threads_at_the_same_time_have_different_numbers_and_later_ones_reuse_them() -> None:
    first = numbers_of(8)
    assert len(set(first)) == 8
    # Eight threads after eight threads: no number is burnt, however many threads a server starts.
    for _ in range(5):
        eventually(lambda: numbers_of(8) == first, "the numbers of ended threads to be given back")


def name_in_a_forked_child() -> tuple[int, str]:
    """The child's process id and what it calls the thread it has."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, worker_name(True, os.getpid()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        name = answer.read()
    os.waitpid(child, 0)
    return child, name


def test_a_forked_child_restarts_the_count() -> None:
    worker_name(True, os.getpid())  # this thread holds a number, so the one that forks has another than 1
    result: list[tuple[int, str]] = []
    forks: list[str] = []

    def fork() -> None:
        forks.append(worker_name(True, os.getpid()))
        result.append(name_in_a_forked_child())

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join(60)
    ((child, name),) = result
    assert forks != [f"{os.getpid()}.1"]
    assert name == f"{child}.1"
