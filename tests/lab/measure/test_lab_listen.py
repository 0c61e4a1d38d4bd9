"""The accept queue as the kernel tells it, against a socket whose queue is known."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from lab_support import eventually
from sojourn_lab.measure.listen import Depth, ListenQueueError, ListenSampler, listen_depths

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux netlink is not available")


@contextlib.contextmanager
def waiting(backlog: int, connections: int) -> Iterator[tuple[socket.socket, int]]:
    """Yield a listener that accepts no connection, with that many waiting."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(backlog)
        for _ in range(connections):
            stack.enter_context(socket.create_connection(listener.getsockname(), timeout=60.0))
        port = listener.getsockname()[1]
        # A client is connected a moment before the server knows it.
        eventually(lambda: listen_depths()[port].depth == connections, 60.0, "every connection in the queue")
        yield listener, port


@linux
def test_depth_and_limit_are_exact() -> None:
    with waiting(backlog=7, connections=5) as (listener, port):
        assert listen_depths()[port] == Depth(depth=5, limit=7)
        listener.accept()[0].close()
        assert listen_depths()[port] == Depth(depth=4, limit=7)
    assert port not in listen_depths()


@linux
def test_the_queue_holds_one_more_than_its_limit() -> None:
    with waiting(backlog=3, connections=4) as (_, port):
        assert listen_depths()[port] == Depth(depth=4, limit=3)


@linux
def test_many_listeners_come_in_several_answers() -> None:
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(waiting(backlog=number + 1, connections=0))[1] for number in range(300)]
        depths = listen_depths()
    assert [depths[port] for port in ports] == [Depth(0, number + 1) for number in range(300)]


@linux
def test_the_sampler_writes_every_socket_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "listen.jsonl"
    with waiting(backlog=9, connections=2) as (_, port), ListenSampler(path, {"app": port, "gone": 1}, 0.02):
        eventually(lambda: path.exists() and len(path.read_bytes().splitlines()) >= 5, 60.0, "five samples")
    samples = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    assert {(each["socket"], each["port"], each["depth"], each["limit"]) for each in samples} == {("app", port, 2, 9)}
    times = [each["time"] for each in samples]
    assert times == sorted(times)


def test_where_the_kernel_does_not_tell_the_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ListenQueueError, match=r"unavailable: .*not on darwin"):
        listen_depths()
    path = tmp_path / "listen.jsonl"
    with ListenSampler(path, {"app": 80}) as sampler:
        eventually(lambda: sampler.unavailable is not None, 60.0, "the sampler to give up")
    assert "unavailable" in msgspec.json.decode(path.read_bytes())
