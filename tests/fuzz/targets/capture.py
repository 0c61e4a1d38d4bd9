"""Captures, pcap and pcapng, plain and compressed: counted or refused, and tracked without a connection too many."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from fuzz import nasty

sys.path.insert(0, str(Path(__file__).parents[2] / "analysis/wire"))
sys.path.insert(0, str(Path(__file__).parents[3] / "analysis"))
from damage import LENGTHS, containers, small_capture, tracked

PACKAGES: tuple[str, ...] = ()
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")


def check(data: bytes) -> None:
    """The reader's counts add up, the tracker's tables belong together (see tests/analysis/analyses/pcap/damage.py)."""
    tracked(data, Path(_FOLDER.name))


@cache
def _sound() -> tuple[bytes, ...]:
    return tuple(containers(small_capture(Path(_FOLDER.name))).values())


def generated(rng: Random) -> bytes:
    """A sound one with accidents, or with lengths that lie."""
    data = bytearray(rng.choice(_sound()))
    for _ in range(rng.choice((0, 1, 2))):
        at = rng.randrange(0, len(data) - 4, 4)
        data[at : at + 4] = rng.choice(LENGTHS).to_bytes(4, rng.choice(("little", "big")))
    return nasty.damaged(bytes(data), rng) if rng.random() < 0.7 else bytes(data)
