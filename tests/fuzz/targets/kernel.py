"""What the kernel, ss and servers print, and recordings of it: read, or refused with one of its own errors."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from sojourn.host.counters import tcp_ext
from sojourn.host.samples import read_samples
from sojourn.host.servers.kinds import KINDS
from sojourn.host.sock_diag import handshakes, listening_sockets_of_ss, syn_recv_counts_of_ss
from sojourn.host.unix_diag import listening_unix_sockets_of_ss
from sojourn.model.errors import KernelUnavailableError, SojournError

from fuzz import nasty
from fuzz.refusals import refusal

PACKAGES: tuple[str, ...] = ("sojourn",)
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")


def check(data: bytes) -> None:
    """Every reader gets every text."""
    text = data.decode("utf-8", "replace")
    assert all(isinstance(value, int) for value in tcp_ext(text).values())
    counts = syn_recv_counts_of_ss(text)

    def listening() -> None:
        assert sum(handshakes(listening_sockets_of_ss(text), counts).values()) <= sum(counts.values())

    refusal(listening, KernelUnavailableError)
    refusal(lambda: listening_unix_sockets_of_ss(text), KernelUnavailableError)
    for kind in KINDS.values():
        refusal(partial(kind.parse, text), ValueError)
    path = Path(_FOLDER.name, "kernel.jsonl")
    path.write_bytes(data)
    output = refusal(lambda: _recording(path), SojournError)
    assert output is None or "\n" not in output, output


def _recording(path: Path) -> None:
    samples = read_samples([path])
    assert samples.records.accepted == len(samples.times)
    json.dumps([samples.counters.to_dicts(), samples.servers.to_dicts()], default=str, allow_nan=False)


def generated(rng: Random) -> bytes:
    """One of the texts, with some of its figures replaced; or a sample of a recording."""
    if rng.random() < 0.6:
        return rng.choice(_TEXTS)(lambda: _number(rng), rng).encode("utf-8", "replace")
    return _sample(rng)


def _number(rng: Random) -> str:
    return nasty.number(rng) if rng.random() < 0.3 else str(rng.randrange(1000))


_LOCAL = ("127.0.0.1", "[::]", "*", "0.0.0.0%lo", "[fe80::1]%eth0", "[::ffff:127.0.0.1]")
_PATHS = ("/run/app.sock", "@abstract", "/a b", "@")
_TEXTS: tuple[Callable[[Callable[[], str], Random], str], ...] = (
    lambda n, _: f"TcpExt: ListenOverflows ListenDrops\nTcpExt: {n()} {n()}\nIpExt: A\nIpExt: 1\n",
    lambda n, rng: f"LISTEN {n()} {n()} {rng.choice(_LOCAL)}:{n()} 0.0.0.0:*\n",
    lambda n, rng: f"{n()} {n()} {rng.choice(_LOCAL)}:{n()} 10.0.0.1:5\n",
    lambda n, _: f"calling: {n()}\nwriting: {n()}\n0.0.0.0:80 active: {n()}\n/s queued: {n()}\n",
    lambda n, rng: f"u_str LISTEN {n()} {n()} {rng.choice(_PATHS)} {n()} * 0\n",
    lambda n, _: f"Name: Catalina:type=Executor,name=a\nactiveCount: {n()}\nqueueSize: {n()}\nmaxThreads: {n()}\n",
    lambda n, _: f'Name: C:type=ThreadPool,name="a"\ncurrentThreadsBusy: {n()}\nmaxThreads: {n()}\n',
    lambda n, _: (
        f'{{"listen queue": {n()}, "listen queue len": {n()}, "active processes": {n()}, "total processes": {n()}, '
        f'"max children reached": {n()}, "accepted conn": {n()}}}'
    ),
    lambda n, _: (
        f'{{"listen_queue_errors": {n()}, "sockets": [{{"queue": {n()}, "max_queue": {n()}}}], "workers": '
        f'[{{"status": "busy", "requests": {n()}, "cores": [{{"in_request": {n()}}}]}}]}}'
    ),
    lambda n, _: f'{{"backlog": {n()}, "pool_capacity": {n()}, "max_threads": {n()}, "requests_count": {n()}}}',
    lambda n, _: (
        f'{{"sojourn": 1, "kind": "node", "requests_in_progress": {n()}, "event_loop_delay": {{"p99": {n()}}}, '
        f'"event_loop_utilisation": {n()}}}'
    ),
)
_ODD = (2**31, 2**63, -1, 1e300, 4_102_444_799.0)


def _sample(rng: Random) -> bytes:
    socket: dict[str, Any] = {"name": "a", "address": "0.0.0.0", "port": 80, "depth": 1, "limit": 128, "syn_recv": None}
    drops: dict[str, Any] = {"calling": 1, "writing": 1, "listeners": {"a": [1, 2]}, "seconds": 0.1}
    queue: dict[str, Any] = {"kind": "puma", "seconds": 0.1, "waiting": 2, "busy": 1, "workers": 4, "requests": 9}
    sample: dict[str, Any] = {
        "time": 1767225600.0, "counters": {"ListenOverflows": 1}, "settings": {"somaxconn": 128}, "sockets": [socket],
        "raindrops": {"http://x": drops}, "servers": {"http://y": queue}, "unavailable": {},
    }  # fmt: skip
    for _ in range(rng.randrange(3)):
        inner = rng.choice((sample, socket, drops, queue))
        inner[rng.choice(tuple(inner))] = nasty.value(rng) if rng.random() < 0.5 else rng.choice(_ODD)
    return nasty.dumped(sample, rng)
