"""TCP ports: free ones, and waiting until one answers."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.ports import free_port, free_ports, port_answers, wait_for_port
from sojourn_lab.runtime.process import Process

DEADLINE_S = 20.0


def test_free_ports_can_be_bound_and_waited_for() -> None:
    port = free_port()
    assert not port_answers("127.0.0.1", port)
    with pytest.raises(LabError, match=f"127.0.0.1:{port} to accept"):
        wait_for_port("127.0.0.1", port, 0.05)
    with socket.create_server(("127.0.0.1", port)):
        wait_for_port("127.0.0.1", port, DEADLINE_S)


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_waiting_for_the_port_of_a_process_that_exits(tmp_path: Path) -> None:
    app = Process([sys.executable, "-c", "raise SystemExit('no socket')"], name="app", folder=tmp_path)
    with app, pytest.raises(LabError, match=r"app exited with 1.*\nno socket"):
        wait_for_port("127.0.0.1", free_port(), 100, app)
