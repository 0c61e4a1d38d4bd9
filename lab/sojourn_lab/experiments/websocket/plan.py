"""The plan of a generator of WebSocket connections, and its results."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sojourn_lab.load.plan import Quantiles, Window
from sojourn_lab.scenario.load import NotNegative, Positive, Rate


class ConnectionPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stage for one generator process; times in seconds.

    With `sequential` that many connections are made one after the other, each closed before the next; then `users`
    connect at the same time for `saturated` seconds. Without it new connections are made at a rate that goes from 0
    to `rate` a second in `ramp` seconds, and all are held until `hold` seconds after the last of them got its
    answer.
    """

    case: str
    url: str
    seed: list[int]
    timeout: Positive
    client_log: str
    summary: str
    sequential: Annotated[int, msgspec.Meta(ge=0)] = 0
    users: Annotated[int, msgspec.Meta(ge=1)] = 8
    saturated: Positive = 2.0
    rate: Rate = 1.0
    ramp: Positive = 1.0
    hold: NotNegative = 0.0


class ServerTimes(msgspec.Struct, gc=False):
    """The app's record of one connection; lab/backend/websocket_server.py defines the instants, unix s."""

    stamp: float | None
    accepted: float
    entered: float
    started: float
    ended: float
    cpu: float
    pid: int
    request_id: str | None = None


class Connection(msgspec.Struct, gc=False):
    """One connection as its client saw it: one line of client.jsonl. Instants are unix s, from one monotonic clock.

    `intended`: when the schedule wanted it. `began`: before the connect. `connected`: TCP, to nginx (None: the
    generator cannot tell). `upgraded`: the 101 was there. `sent`, `answered`: the data-sync. `lost`: when it ended
    although it was to be held. `error`: one word for why there was no answer.
    """

    case: str
    number: int
    intended: float
    began: float
    connected: float | None = None
    upgraded: float | None = None
    sent: float | None = None
    answered: float | None = None
    lost: float | None = None
    error: str | None = None
    server: ServerTimes | None = None

    @property
    def made(self) -> bool:
        """Whether it was upgraded and its data-sync answered."""
        return self.answered is not None and self.server is not None


class ConnectionSummary(msgspec.Struct):
    """How a stage went: `window` from the first possible instant to the end of the ramp, unix s.

    `settled`: when the last connection had its answer, `ended`: when the holding was over. `offered` is what the
    schedule intended, `late` how late connections were begun; `loop_lag` is the lateness of the event loop, and `cpu`
    the share of a core that the generator used; None: unknown. `capacity`: answers a second while all users
    send at the same time; None after a ramp.
    """

    window: Window
    settled: float
    ended: float
    offered: int
    late: Quantiles
    loop_lag: Quantiles | None = None
    cpu: float | None = None
    dropped: int = 0
    capacity: float | None = None
