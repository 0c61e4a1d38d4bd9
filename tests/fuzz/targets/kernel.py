"""What the kernel, ss, and raindrops print, and recordings of it: read, or refused with one of its own errors."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from sojourn.host.counters import tcp_ext
from sojourn.host.raindrops import raindrops_of
from sojourn.host.samples import read_samples
from sojourn.host.sock_diag import handshakes, listening_sockets_of_ss, syn_recv_counts_of_ss
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
    refusal(lambda: raindrops_of(text, 0.1), ValueError)
    path = Path(_FOLDER.name, "kernel.jsonl")
    path.write_bytes(data)
    output = refusal(lambda: _recording(path), SojournError)
    assert output is None or "\n" not in output, output


def _recording(path: Path) -> None:
    samples = read_samples([path])
    assert samples.records.accepted == len(samples.times)
    json.dumps(samples.counters.to_dicts(), default=str, allow_nan=False)


def generated(rng: Random) -> bytes:
    """One of the texts, with some of its figures replaced; or a sample of a recording."""
    if rng.random() < 0.6:
        return rng.choice(_TEXTS)(lambda: _number(rng), rng).encode("utf-8", "replace")
    return _sample(rng)


def _number(rng: Random) -> str:
    return nasty.number(rng) if rng.random() < 0.3 else str(rng.randrange(1000))


_LOCAL = ("127.0.0.1", "[::]", "*", "0.0.0.0%lo", "[fe80::1]%eth0", "[::ffff:127.0.0.1]")
_TEXTS: tuple[Callable[[Callable[[], str], Random], str], ...] = (
    lambda n, _: f"TcpExt: ListenOverflows ListenDrops\nTcpExt: {n()} {n()}\nIpExt: A\nIpExt: 1\n",
    lambda n, rng: f"LISTEN {n()} {n()} {rng.choice(_LOCAL)}:{n()} 0.0.0.0:*\n",
    lambda n, rng: f"{n()} {n()} {rng.choice(_LOCAL)}:{n()} 10.0.0.1:5\n",
    lambda n, _: f"calling: {n()}\nwriting: {n()}\n0.0.0.0:80 active: {n()}\n/s queued: {n()}\n",
)
_ODD = (2**31, 2**63, -1, 1e300, 4_102_444_799.0)


def _sample(rng: Random) -> bytes:
    socket: dict[str, Any] = {"name": "a", "address": "0.0.0.0", "port": 80, "depth": 1, "limit": 128, "syn_recv": None}
    drops: dict[str, Any] = {"calling": 1, "writing": 1, "listeners": {"a": [1, 2]}, "seconds": 0.1}
    sample: dict[str, Any] = {
        "time": 1767225600.0, "counters": {"ListenOverflows": 1}, "settings": {"somaxconn": 128}, "sockets": [socket],
        "raindrops": {"http://x": drops}, "unavailable": {},
    }  # fmt: skip
    for _ in range(rng.randrange(3)):
        inner = rng.choice((sample, socket, drops))
        inner[rng.choice(tuple(inner))] = nasty.value(rng) if rng.random() < 0.5 else rng.choice(_ODD)
    return nasty.dumped(sample, rng)
