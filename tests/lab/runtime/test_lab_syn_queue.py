"""Half-open connections: they fill a SYN queue, and are made nowhere but inside a namespace of the run's own."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from lab_support import eventually, missed, needs_namespace, sound_run
from sojourn.host.kernel_queues import KernelProbe
from sojourn.host.sample import Sample
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.half_open import HalfOpen
from sojourn_lab.runtime.namespace import network_namespace, own_namespace
from sojourn_lab.scenario.case import MOST_HALF_OPEN

pytestmark = pytest.mark.alone

BACKLOG = 4


def looked_at(port: int) -> Sample:
    return KernelProbe({"app": port}).sample()


@needs_namespace
def test_half_open_connections_fill_the_syn_queue() -> None:
    outside = own_namespace()
    with network_namespace({"tcp_syncookies": 0}), socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as server:
        host, port = server.getsockname()
        half_open = HalfOpen(outside)
        assert looked_at(port).sockets[0].syn_recv == 0
        half_open.begin(host, port, 12)
        samples: list[Sample] = []

        def full() -> bool:
            """Return whether all that are above the limit were dropped."""
            samples.append(looked_at(port))
            handshakes = samples[-1].sockets[0].syn_recv or 0
            return handshakes > BACKLOG and handshakes + samples[-1].counters["TCPReqQFullDrop"] == 12

        eventually(full, 60.0, "a full SYN queue, and drops of all others")
        (app,) = samples[-1].sockets
        # The accept queue is not involved.
        assert (app.depth, samples[-1].counters["ListenOverflows"]) == (0, 0)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as real:
            real.settimeout(0.3)
            with pytest.raises(TimeoutError):
                real.connect((host, port))
        assert half_open.sent == 12


@needs_namespace
def test_with_cookies_who_is_real_connects_all_the_same() -> None:
    outside = own_namespace()
    with network_namespace({"tcp_syncookies": 1}), socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as server:
        address = server.getsockname()
        HalfOpen(outside).begin(*address, 12)
        eventually(lambda: looked_at(address[1]).counters["SyncookiesSent"] > 0, 60.0, "cookies")
        socket.create_connection(address, timeout=0.8).close()
        # A client is connected a moment before the server knows it.
        eventually(lambda: looked_at(address[1]).counters["SyncookiesRecv"] == 1, 60.0, "the cookie to come back")


def test_outside_of_a_namespace_none_is_made() -> None:
    with pytest.raises(LabError, match="never outside"):
        HalfOpen(own_namespace())


@needs_namespace
def test_no_half_open_connections_after_leaving_the_namespace() -> None:
    outside = own_namespace()
    with network_namespace({}):
        half_open = HalfOpen(outside)
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(LabError, match="never outside"):
            half_open.begin(*server.getsockname(), 1)
        with network_namespace({}), pytest.raises(LabError, match="never outside"):
            half_open.begin(*server.getsockname(), 1)
    assert half_open.sent == 0


@needs_namespace
def test_number_of_half_open_connections_is_bounded() -> None:
    outside = own_namespace()
    with network_namespace({}), socket.create_server(("127.0.0.1", 0)) as server:
        half_open = HalfOpen(outside)
        with pytest.raises(LabError, match=f"exceed the limit of {MOST_HALF_OPEN}"):
            half_open.begin(*server.getsockname(), MOST_HALF_OPEN + 1)
        half_open.begin(*server.getsockname(), MOST_HALF_OPEN)
        with pytest.raises(LabError, match=f"exceed the limit of {MOST_HALF_OPEN}"):
            half_open.begin(*server.getsockname(), 1)


@pytest.mark.scenario
@needs_namespace
def test_a_full_syn_queue_with_other_arrivals(tmp_path: Path) -> None:
    record = sound_run(tmp_path, "syn-queue", "--seed", "8", "--set", "cases.*.load.rate=30")
    assert missed(record) == []
    off, on = record["cases"]
    assert off["figures"]["accept_queue"]["steps"]["3"] > on["figures"]["accept_queue"]["steps"]["3"] == 0.0
