"""A minimal server that records when requests arrive: the same reference for every load generator.

    python arrivals.py PORT FILE

answers every request at once with three bytes and supports keep-alive. SIGTERM ends it; FILE then holds the arrivals,
in nanoseconds of the monotonic clock, as binary int64. An arrival is the instant at which its first bytes are read.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import sys
import time
from array import array
from pathlib import Path

# Raw bytes and no parser: the reference must cost less than the generators that it measures.
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"
BACKLOG = 4096


def serve(port: int, file: Path) -> None:
    """Answer requests on ``port`` until SIGTERM, then write the arrivals to ``file``."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    arrivals = array("q")
    listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    listener.setblocking(False)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    while not ended:
        for number, _ in poll.poll(0.1):
            if number == listener.fileno():
                with contextlib.suppress(BlockingIOError):
                    while True:
                        connection, _address = listener.accept()
                        connection.setblocking(False)
                        connections[connection.fileno()] = connection
                        poll.register(connection, select.EPOLLIN)
                continue
            now = time.monotonic_ns()
            try:
                data = connections[number].recv(8192)
                if data:
                    arrivals.append(now)
                    connections[number].sendall(ANSWER)
                    continue
            except OSError:
                pass
            poll.unregister(number)
            connections.pop(number).close()
    file.write_bytes(arrivals.tobytes())


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
