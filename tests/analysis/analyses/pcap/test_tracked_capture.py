"""A capture is tracked while its log is read; only connections without a SYN wait for the ports of servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

import captures
import pytest
from captures import Frame
from reader_support import V4, conversation
from segment_builder import ACK, ADDRESSES, CLIENT, PSH, RST, SERVER, SYN, Talk, batch_of
from sojourn.analyses.pcap import tracked_capture
from sojourn.analyses.pcap.tracked_capture import READING, TrackedCapture
from sojourn.analyses.pcap.tracker import track
from sojourn.model.errors import SojournError

DEADLINE = 60.0  # s


def queries_for_ports(*talks: Talk) -> int:
    """Return how often tracking needed the ports; what it made of them is what it makes of ports given before."""
    calls = []

    def ports() -> Collection[int]:
        calls.append(True)
        return [80]

    segments = sorted((one for talk in talks for one in talk.segments), key=lambda one: one.time)
    late = track([batch_of(segments)], ADDRESSES, servers=ports)
    early = track([batch_of(segments)], ADDRESSES, servers=[80])
    assert late.connections.equals(early.connections)
    assert late.exchanges.equals(early.exchanges)
    return len(calls)


def test_connections_with_their_syn_need_no_ports() -> None:
    talks = [Talk(client_port=40_000 + number).opened() for number in range(600)]  # the tables grow
    for talk in talks:
        talk.send(3, CLIENT, PSH | ACK, b"GET / HTTP/1.1\r\n\r\n")
    assert queries_for_ports(*talks) == 0


@pytest.mark.parametrize("flags", [ACK, PSH | ACK, RST, SYN | RST])
def test_a_connection_without_its_syn_needs_the_ports_once(flags: int) -> None:
    talks = [Talk(client_port=40_000).opened(), Talk(client_port=40_001), Talk(client_port=70)]
    for talk in talks[1:]:
        talk.send(2, SERVER, flags, b"HTTP/1.1 200 OK\r\n\r\n" if flags & PSH else b"")
        talk.send(3, CLIENT, ACK)
    assert queries_for_ports(*talks) == 1


def written(folder: Path) -> Path:
    path = folder / "some.pcap"
    path.write_bytes(captures.pcap(captures.frames(conversation(V4))))
    return path


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def tracking_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "sojourn-tracking"]


def test_a_capture_is_tracked_before_its_result_is_needed(tmp_path: Path) -> None:
    with TrackedCapture(written(tmp_path)) as compiled:
        compiled.result([])
    steps: list[str] = []
    with TrackedCapture(written(tmp_path)) as capture:
        wait_until(lambda: not tracking_threads())
        tracked = capture.result([], steps.append)
    assert steps == [READING]
    assert (tracked.counts.packets, tracked.names) == (7, (str(tmp_path / "some.pcap"),))
    assert tracked.tracking.exchanges["path"].to_list() == ["/"]


def test_leaving_ends_the_tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = threading.Event()

    def track_forever(batches: object, addresses: object, servers: Callable[[], object]) -> None:
        waiting.set()
        servers()

    with TrackedCapture(written(tmp_path)) as compiled:
        compiled.result([])
    monkeypatch.setattr(tracked_capture, "track", track_forever)
    with TrackedCapture(written(tmp_path)):
        assert waiting.wait(DEADLINE)
        assert tracking_threads() == ["sojourn-tracking"]
    wait_until(lambda: not tracking_threads())


def test_an_error_of_the_thread_is_raised_by_the_result(tmp_path: Path) -> None:
    with TrackedCapture(written(tmp_path)) as compiled:
        compiled.result([])
    frames = captures.frames(conversation(V4))
    frames[-1] = Frame(frames[0].time - 2 * captures.SECOND, frames[-1].data)
    backwards = tmp_path / "backwards.pcap"
    backwards.write_bytes(captures.pcap(frames))
    with TrackedCapture(backwards) as capture, pytest.raises(SojournError, match="not in the order of time"):
        capture.result([])
    with pytest.raises(SojournError, match=r"none\.pcap: no such file"):
        TrackedCapture(tmp_path / "none.pcap")
