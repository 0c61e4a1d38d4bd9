"""What a case says about an experiment that is not plain requests through nginx; one struct each.

They stand apart from what runs them, so that a scenario can be read without anything it needs being installed. Each
has `with_time_scaled(scale)`, which returns it with every duration multiplied by `scale` and every rate divided by it.
"""

from __future__ import annotations

from typing import Self

import msgspec

OTHER_KINDS = ("websocket", "grpc", "collector", "pipeline")
"""Keys of a case that stand in place of a `load`."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What they have in common."""

    def with_time_scaled(self, scale: float) -> Self:
        """Return the same with every duration multiplied by `scale`."""
        del scale
        return self


class Websocket(Settings, frozen=True):
    """WebSocket connections through nginx."""


class Grpc(Settings, frozen=True):
    """Long-lived gRPC connections through nginx."""


class Collector(Settings, frozen=True):
    """A collector with a bounded channel behind it."""


class Pipeline(Settings, frozen=True):
    """The toolkit's own pipeline."""
