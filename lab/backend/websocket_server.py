"""The lab's WebSocket app, one event loop: it evaluates a user's flags on request, and holds the connection.

    python lab/backend/websocket_server.py --fd 3 --flags 40000 --heartbeat 10

    GET /sync            WebSocket. To {"type": "data-sync", "user": "u17"} it answers
                         {"type": "data-sync", "variations": {…}, "server": {…}}
    GET /ready           {"open": connections held now, "most": the most ever held, "syncs": answers given}

Evaluating one flag is one SHA-256 of its key and the user, as flag services do to roll a variation out to a share of
the users: real work of the processor, the same for every user. Meanwhile the event loop does nothing else:
other connections and requests wait, which is the queue.

`server` in an answer has the instants, unix s on the clock of this machine:
    stamp       X-Request-Start of the upgrade: nginx opened the connection to this app (steps of 1 ms)
    accepted    accept() returned it
    entered     the event loop called the handler of the upgrade
    started     the evaluation began: the first instant at which this app acts on the message
    ended       the answer is ready
and `cpu`, the seconds of processor this process has used so far, `pid`, and `request_id` as nginx logs it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from hashlib import sha256
from typing import Any

from aiohttp import WSMsgType, web

ROLLED_OUT = 100
"""Of 10,000 users, the number with another variation than the default; only those are sent."""

MOST_REMEMBERED = 100_000
"""Accepted connections whose upgrade has not come; beyond it the oldest are forgotten."""


class TimedListener(socket.socket):
    """A listening socket that records when accept() returned each connection, by the peer's address.

    asyncio calls the protocol's factory one turn of its loop later, which under load is a long time.
    """

    def __init__(self, fileno: int) -> None:
        super().__init__(fileno=fileno)
        self.accepted: dict[Any, float] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection, and record the instant."""
        connection, peer = super().accept()
        if len(self.accepted) >= MOST_REMEMBERED:
            self.accepted.pop(next(iter(self.accepted)))
        self.accepted[peer] = time.monotonic()
        return connection, peer


def keys_of(flags: int) -> list[bytes]:
    """Return the keys of that many flags."""
    return [f"flag-{number}:".encode() for number in range(flags)]


def variations_of(user: str, keys: list[bytes]) -> dict[str, int]:
    """Return the flags of which the user gets the rare variation: about one in a hundred."""
    octets = user.encode()
    variations = {}
    for key in keys:
        bucket = int.from_bytes(sha256(key + octets).digest()[:4]) % 10_000
        if bucket < ROLLED_OUT:
            variations[key[:-1].decode()] = 1 + bucket % 3
    return variations


class App:
    """Shared state of the handlers. `heartbeat`: seconds between two pings of a connection."""

    def __init__(self, listener: TimedListener, flags: int, heartbeat: float) -> None:
        self._listener = listener
        self._keys = keys_of(flags)
        self._heartbeat = heartbeat
        # Looked at once: differences between instants are exact, whatever becomes of the wall clock.
        self._wall = time.time() - time.monotonic()
        self._pings: deque[tuple[float, web.WebSocketResponse]] = deque()
        self.open = 0
        self.most = 0
        self.syncs = 0

    def unix(self, instant: float) -> float:
        """Return a monotonic instant as unix seconds."""
        return round(instant + self._wall, 6)

    async def sync(self, request: web.Request) -> web.WebSocketResponse:
        """Upgrade, answer requests, hold the connection until the other side closes it."""
        entered = time.monotonic()
        peer = request.transport.get_extra_info("peername") if request.transport is not None else None
        accepted = self._listener.accepted.pop(peer, entered)
        facts = {
            "stamp": _stamp(request.headers.get("X-Request-Start", "")),
            "accepted": self.unix(accepted),
            "entered": self.unix(entered),
            "request_id": request.headers.get("X-Request-ID"),
            "pid": os.getpid(),
        }
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        self.open += 1
        self.most = max(self.most, self.open)
        self._pings.append((entered + self._heartbeat, connection))
        try:
            async for message in connection:
                if message.type == WSMsgType.TEXT:
                    await connection.send_str(self._answer(message.data, facts))
        finally:
            self.open -= 1
        return connection

    def _answer(self, text: str, facts: dict[str, Any]) -> str:
        started = time.monotonic()
        try:
            query = json.loads(text)
            if query["type"] != "data-sync":
                raise KeyError(query["type"])
            user = str(query["user"])
        except (ValueError, TypeError, KeyError):
            return json.dumps({"type": "error", "error": 'only {"type": "data-sync", "user": "…"} is understood'})
        variations = variations_of(user, self._keys)
        self.syncs += 1
        times = {"started": self.unix(started), "ended": self.unix(time.monotonic()), "cpu": time.process_time()}
        return json.dumps({"type": "data-sync", "variations": variations, "server": {**facts, **times}})

    async def ready(self, _: web.Request) -> web.Response:
        """Answer the number of open connections."""
        return web.json_response({"open": self.open, "most": self.most, "syncs": self.syncs})

    async def keep_alive(self) -> None:
        """Ping every connection held, one after the other, each every `heartbeat` seconds.

        A late pong closes no connection: a busy event loop reads all of them late.
        """
        while True:
            due, connection = self._pings.popleft() if self._pings else (time.monotonic() + self._heartbeat, None)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if connection is None or connection.closed:
                continue
            try:
                await connection.ping()
            except (ConnectionError, RuntimeError):
                continue  # it went while we slept
            self._pings.append((due + self._heartbeat, connection))


def _stamp(header: str) -> float | None:
    try:
        return float(header.removeprefix("t="))
    except ValueError:
        return None


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    listener = TimedListener(fileno=arguments.fd)
    app = App(listener, arguments.flags, arguments.heartbeat)
    routes = web.Application()
    routes.add_routes([web.get("/sync", app.sync), web.get("/ready", app.ready)])
    runner = web.AppRunner(routes, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=arguments.backlog).start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    pinging = asyncio.create_task(app.keep_alive())
    await stop.wait()
    pinging.cancel()
    await runner.cleanup()


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description="The lab's WebSocket app.")
    parser.add_argument("--fd", type=int, required=True, help="a socket that listens already")
    parser.add_argument("--flags", type=int, default=40_000, help="flags to evaluate for each data-sync")
    parser.add_argument("--heartbeat", type=float, default=10.0, help="seconds between two pings of a connection")
    parser.add_argument("--backlog", type=int, default=64, help="of the listening socket")
    arguments = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(serve(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
