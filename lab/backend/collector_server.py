"""A collector: takes heartbeats over HTTP, puts them into a bounded channel, and lets consumers bring them to a broker.

    POST /heartbeat   {"id": text, "viewer": number}; 202 once it is in the channel, 503 when the channel is full
    GET /viewers      number of viewers in the last ten seconds, of acknowledged heartbeats
    GET /stats        counts of events in the channel, with consumers, and acknowledged
    GET /ready        200 once every consumer has its connection to the broker

One thread answers HTTP. A consumer is a thread with a connection of its own: it takes what is in the channel, up to
`--batch` events, works `--event-cpu` seconds of a core on each (hashing, which runs beside Python), sends the batch and
waits for the acknowledgement. While it waits nothing runs: a channel with one consumer can be full on an idle machine.

`--cores` is how many cores the process may use. Leaves two files of JSON lines: `--log`, one line per batch
acknowledged, and `--samples`, ten a second: processor time used so far, events in the channel.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import queue
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from collector_broker import LENGTH

RECENT = 10.0
SAMPLE_SECONDS = 0.1
BLOCK = bytes(65_536)
MOST_BODY = 4_096
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Event:
    """A heartbeat in the channel; `accepted` in unix seconds."""

    id: str
    viewer: int
    accepted: float


class Recent:
    """Viewers with a recent heartbeat; instants in monotonic seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._heard: deque[tuple[float, int]] = deque()

    def add(self, events: list[Event]) -> None:
        """Record acknowledged events."""
        now = time.monotonic()
        with self._lock:
            self._heard.extend((now, event.viewer) for event in events)

    def viewers(self) -> int:
        """Return the number of different recent viewers."""
        over = time.monotonic() - self._seconds
        with self._lock:
            while self._heard and self._heard[0][0] < over:
                self._heard.popleft()
            return len({viewer for _, viewer in self._heard})


class Collector:
    """The channel, its consumers, and their counts."""

    def __init__(self, size: int, batch: int, event_cpu: float, log: Path) -> None:
        self.channel: queue.Queue[Event] = queue.Queue(maxsize=size)
        self.recent = Recent(RECENT)
        self.accepted = self.refused = self.processed = self.ready = 0
        self._batch = batch
        self._event_cpu = event_cpu
        self._lock = threading.Lock()
        # Line by line in one write each: nothing is lost, whenever the process ends.
        self._log = log.open("ab", buffering=0)

    def offer(self, event: Event) -> bool:
        """Put an event into the channel; return False where it is full."""
        try:
            self.channel.put_nowait(event)
        except queue.Full:
            self.refused += 1
            return False
        self.accepted += 1
        return True

    def consume(self, number: int, broker: str) -> None:
        """Send events to the broker (`host:port`) without end; a failing broker ends the whole process."""
        host, _, port = broker.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(None)
                with self._lock:
                    self.ready += 1
                while True:
                    self._bring(number, self._next_batch(), connection)
        except OSError as error:
            sys.stderr.write(f"consumer {number}: the broker at {broker} failed: {error}\n")
            sys.stderr.flush()
            os._exit(1)

    def _next_batch(self) -> list[Event]:
        """Return what is in the channel, up to a batch; waits for the first event only."""
        events = [self.channel.get()]
        while len(events) < self._batch:
            try:
                events.append(self.channel.get_nowait())
            except queue.Empty:
                break
        return events

    def _bring(self, number: int, events: list[Event], connection: socket.socket) -> None:
        received = time.time()
        for _ in events:
            work(self._event_cpu)
        lines = b"".join(json.dumps({"id": each.id, "viewer": each.viewer}).encode() + b"\n" for each in events)
        connection.sendall(LENGTH.pack(len(lines)) + lines)
        if not connection.recv(1):
            raise ConnectionError("it hung up")
        line = {"consumer": number, "taken": received, "acknowledged": time.time(), "ids": [each.id for each in events]}
        encoded = json.dumps(line).encode() + b"\n"
        self.recent.add(events)
        with self._lock:
            self._log.write(encoded)
            self.processed += len(events)

    def stats(self) -> dict[str, int]:
        """Return the counts; `held` is what was accepted and not yet acknowledged."""
        with self._lock:
            processed = self.processed
        return {
            "accepted": self.accepted,
            "refused": self.refused,
            "processed": processed,
            "held": self.accepted - processed,
        }


def work(seconds: float) -> None:
    """Use that many seconds of a core. Hashing a large block releases Python's lock, so threads run in parallel."""
    if seconds <= 0.0:
        return
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        hashlib.sha256(BLOCK).digest()


def sample(collector: Collector, out: Path) -> None:
    """Write the processor time of the process and the depth of the channel ten times per second."""
    with out.open("ab", buffering=0) as samples:
        while True:
            line = {"time": time.time(), "cpu": time.process_time(), "depth": collector.channel.qsize()}
            samples.write(json.dumps(line).encode() + b"\n")
            time.sleep(SAMPLE_SECONDS)


def application(collector: Collector, consumers: int, broker: str, samples: Path) -> web.Application:
    """Return the WSGI application; its threads start with it."""

    async def heartbeat(request: web.Request) -> web.Response:
        try:
            body: Any = json.loads(await request.read())
            event = Event(str(body["id"]), int(body["viewer"]), time.time())
        except (ValueError, KeyError, TypeError):
            return web.Response(status=400, text="not a heartbeat\n")
        if not collector.offer(event):
            return web.Response(status=503, text="the channel is full\n")
        return web.Response(status=202)

    async def viewers(_: web.Request) -> web.Response:
        return web.json_response({"viewers": collector.recent.viewers(), "seconds": RECENT})

    async def stats(_: web.Request) -> web.Response:
        return web.json_response(collector.stats())

    async def ready(_: web.Request) -> web.Response:
        return web.Response(status=200 if collector.ready == consumers else 503)

    async def threads(_: web.Application) -> AsyncIterator[None]:
        # Daemons: what they wait for may never come.
        for number in range(consumers):
            threading.Thread(target=collector.consume, args=(number + 1, broker), daemon=True).start()
        threading.Thread(target=sample, args=(collector, samples), daemon=True).start()
        yield

    app = web.Application(client_max_size=MOST_BODY)
    app.cleanup_ctx.append(threads)
    app.add_routes([web.post("/heartbeat", heartbeat), web.get("/viewers", viewers)])
    app.add_routes([web.get("/stats", stats), web.get("/ready", ready)])
    return app


def main(arguments: list[str]) -> None:
    """Serve with the command line's arguments."""
    parser = argparse.ArgumentParser(description="A collector with a bounded channel.")
    parser.add_argument("--fd", type=int, required=True, help="a listening socket, inherited")
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--channel", type=int, required=True, help="events it holds")
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1, help="events a consumer sends at once, at most")
    parser.add_argument("--event-cpu", type=float, default=0.0, help="s of a core for every event")
    parser.add_argument("--cores", type=int, help="how many the process may use; default: all")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--samples", type=Path, required=True)
    options = parser.parse_args(arguments)
    if options.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    collector = Collector(options.channel, options.batch, options.event_cpu, options.log)
    app = application(collector, options.consumers, options.broker, options.samples)
    listener = socket.socket(fileno=options.fd)
    # A loop of its own: the default would be whatever policy is installed.
    web.run_app(app, sock=listener, access_log=None, print=None, shutdown_timeout=1.0, loop=asyncio.new_event_loop())


if __name__ == "__main__":
    main(sys.argv[1:])
