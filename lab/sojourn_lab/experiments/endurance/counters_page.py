"""A page with nginx's counters in the form of `stub_status`, of requests that arrive evenly at a rate."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RESPONSE = 0.031  # s, mean of the records of `log_writer`


@contextlib.contextmanager
def counters_page(rate: float) -> Iterator[str]:
    """Serve it on a free port of this machine, and yield its address."""
    begun, reads = time.monotonic(), 0

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal reads
            reads += 1
            requests = int((time.monotonic() - begun) * rate) + reads
            writing = round(rate * RESPONSE) + 1
            text = (
                f"Active connections: {writing}\nserver accepts handled requests\n {requests} {requests} {requests}\n"
                f"Reading: 0 Writing: {writing} Waiting: 0\n"
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the class above
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/status"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
