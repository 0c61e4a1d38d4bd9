"""A store that accepts every INSERT and keeps nothing: ``python -m …pipeline.receiver`` prints its port and serves."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """One connection; a body is read and not looked at."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a health check."""
        self._accept()

    def do_POST(self) -> None:
        """Answer an INSERT."""
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0 and (part := self.rfile.read(min(left, 1 << 20))):
            left -= len(part)
        self._accept()

    def _accept(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Nothing is logged."""


def main() -> None:
    """Serve until the process is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
