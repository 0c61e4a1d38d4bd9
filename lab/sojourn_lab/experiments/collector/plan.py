"""The plan of the generator of heartbeats, and its results."""

from __future__ import annotations

import msgspec

from sojourn_lab.load.plan import Plan, Summary

HEARTBEAT, VIEWERS = "/heartbeat", "/viewers"
BEAT_SECONDS = 10.0
"""A viewer sends one heartbeat in this many seconds, as the article's do."""


class Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The load of one case: `plan` as for requests (its load is unused), heartbeats and reads per second."""

    plan: Plan
    rate: float
    read_rate: float
    viewers: int


class Offered(msgspec.Struct, frozen=True):
    """Summaries of heartbeats and reads, which share one event loop. None: nothing was read."""

    heartbeats: Summary
    reads: Summary | None
