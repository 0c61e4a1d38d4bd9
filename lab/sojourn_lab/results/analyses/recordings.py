"""Recordings made during a run's load, read once for all its cases: packets, and samples of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec
from sojourn.analyses.kernel.analysis import kernel
from sojourn.analyses.kernel.result import KernelResult
from sojourn.analyses.pcap.analysis import wire_of
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.tracker import track
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.analyses.split.result import SplitResult
from sojourn.host.sample import Sample
from sojourn.host.samples import samples_of
from sojourn.readers.capture.batch import Counts
from sojourn.readers.capture.reader import Capture

MARGIN = 1.0
"""Seconds around a case's window within which the connections of its requests begin."""


class Packets(NamedTuple):
    """Connections and requests of all captures, and the counts of their packets."""

    followed: TrackingResult
    counts: Counts
    names: tuple[str, ...]
    interfaces: tuple[str, ...]


@dataclass(frozen=True)
class Recordings:
    """The captures and samples in a run's `folder`; `captures`: names of its capture files, empty without a capture."""

    folder: Path
    captures: Sequence[str]

    @cached_property
    def packets(self) -> Packets:
        """The packets of the whole run; SojournError where the files cannot be read."""
        with Capture([self.folder / name for name in self.captures]) as capture:
            followed = track(capture, capture.addresses)
            return Packets(followed, capture.counts, tuple(capture.names), tuple(capture.interfaces))

    def wire(self, split: SplitResult, since: float | None = None, until: float | None = None) -> WireResult:
        """Return the packets joined with a split of the log, of connections that began between two unix instants."""
        return wire_of(
            self.packets.followed,
            self.packets.counts,
            self.packets.names,
            self.packets.interfaces,
            rows=split.rows,
            since=None if since is None else datetime.fromtimestamp(since - MARGIN, UTC),
            until=None if until is None else datetime.fromtimestamp(until + MARGIN, UTC),
        )

    @cached_property
    def samples(self) -> list[Sample]:
        """All samples of the kernel, each with the settings then in force; empty without kernel.jsonl."""
        path = self.folder / "kernel.jsonl"
        if not path.exists():
            return []
        decoder = msgspec.json.Decoder(Sample)
        samples: list[Sample] = []
        settings: dict[str, int] = {}
        with path.open("rb") as lines:
            for line in lines:
                sample = decoder.decode(line)
                # Settings are written only where they change; every sample of a slice needs them.
                settings = {**settings, **sample.settings}
                samples.append(msgspec.structs.replace(sample, settings=settings))
        return samples

    def samples_between(self, since: float, until: float) -> list[Sample]:
        """Return the samples from the last before `since` to the first after `until`, unix s."""
        every = self.samples
        first = max((n for n, each in enumerate(every) if each.time <= since), default=0)
        last = min((n for n, each in enumerate(every) if each.time >= until), default=len(every) - 1)
        return every[first : last + 1]

    def by_servers(self) -> list[list[Sample]]:
        """Return the samples of each set of servers separately: in a new namespace the counters start at 0."""

        def ports(sample: Sample) -> frozenset[int]:
            return frozenset(each.port for each in sample.sockets)

        return [list(group) for key, group in groupby(self.samples, key=ports) if key]

    def kernel(self, samples: Sequence[Sample] | None = None) -> KernelResult | None:
        """Return the kernel's figures and findings of `samples` (None: of all); None without samples."""
        chosen = self.samples if samples is None else samples
        return kernel(samples_of(chosen)) if chosen else None
