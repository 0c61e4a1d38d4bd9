"""Made-up frames of a capture: what each queue took is given, in ms, and instants follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import polars as pl
from sojourn.analyses.pcap.frames import CONNECTIONS, EXCHANGES, TIMELINE
from sojourn.analyses.pcap.notes import findings, join_notes
from sojourn.analyses.pcap.result import FIGURES, WireResult
from sojourn.analyses.pcap.tallies import counts_of, servers, syn_steps
from sojourn.model.statistics import summaries
from sojourn.readers.capture.batch import Counts

BEGAN = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
US, MS = 1_000, 1_000_000


@dataclass
class TimelineBuilder:
    """Frames as the reader of captures makes them."""

    timeline: list[dict[str, Any]] = field(default_factory=list)
    connections: list[dict[str, Any]] = field(default_factory=list)
    exchanges: list[dict[str, Any]] = field(default_factory=list)

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """TIMELINE, CONNECTIONS, EXCHANGES."""
        return (
            _frame(self.timeline, TIMELINE),
            _frame(self.connections, CONNECTIONS),
            _frame(self.exchanges, EXCHANGES),
        )

    def request(
        self,
        *,
        handshake: float = 0.05,
        dropped: int = 0,
        wait: float = 0.2,
        service: float = 20.0,
        reports_start: bool = True,
        acks_dropped: int = 0,
        client_leg: bool = True,
        backend_leg: bool = True,
        keepalive: bool = False,
        path: str = "/orders",
        status: int = 200,
        end: str = "fin",
    ) -> None:
        """Add a request. ``dropped``: SYNs to the backend without an answer, 1 s apart; ``keepalive``: both connections
        were there before; ``reports_start``: the app's own start is known. Times in ms."""
        began = int(BEGAN.timestamp() * 1e9) + len(self.timeline) * 100 * MS
        hand = round(handshake * MS)
        row: dict[str, Any] = {
            "request_id": f"{len(self.timeline):032x}", "joined_by": "request_id", "log_row": len(self.timeline),
            "attempts": 1, "method": "GET", "path": path, "status": status,
        }  # fmt: skip
        requested = began + hand + 10 * US
        opens = requested + 120 * US
        answered_syn = opens + dropped * 1_000 * MS
        established = answered_syn + hand
        used = established + acks_dropped * 1_000 * MS
        if keepalive:
            established = used = opens
        begins = used + round(wait * MS)
        done = begins + round(service * MS)
        back = done + 60 * US
        if client_leg:
            row |= {
                "client": "10.0.0.9:51234", "client_exchange": len(self.exchanges),
                "request_first": requested, "request_last": requested,
                "response_first": back + 40 * US, "response_last": back + 90 * US,
            }  # fmt: skip
            if not keepalive:
                row |= {"client_syn": began, "client_syn_ack": began + hand // 2, "client_established": began + hand}
            self._connection(("10.0.0.9", 51234, "10.0.0.1", 80), began, began, began + hand, 0, 0, "fin", keepalive)
        if backend_leg:
            row |= {
                "backend": "10.0.0.2:8001", "backend_exchange": len(self.exchanges),
                "backend_request_first": established + 8 * US, "backend_request_last": established + 8 * US,
                "backend_response_first": back, "backend_response_last": back + 30 * US,
            }  # fmt: skip
            if not keepalive:
                row |= {
                    "backend_syn": opens, "backend_syn_answered": answered_syn,
                    "backend_syn_ack": answered_syn + hand // 2, "backend_established": established,
                    "backend_ack_taken": used, "syn_dropped": (answered_syn - opens) / 1e9,
                    "syn_queue": (used - answered_syn) / 1e9, "accept_wait_lower": (used - established) / 1e9,
                    "accept_wait_upper": (back - established) / 1e9 - service / 1e3,
                }  # fmt: skip
            if reports_start:
                row |= {"app_start": begins, "app_end": done}
                row |= {} if keepalive else {"accept_wait": (begins - established) / 1e9}
            at = ("10.0.0.1", 40000, "10.0.0.2", 8001)
            self._connection(
                at, opens, answered_syn, established, dropped, acks_dropped, end, keepalive, accepted=used,
                ended=back + 100 * US,
            )  # fmt: skip
        self.timeline.append(row)

    def attempt(self, *, syns: int, end: str) -> None:
        """Add a connection that nothing was said on: ``syns`` SYNs, ``end`` refused or unanswered."""
        began = int(BEGAN.timestamp() * 1e9)
        at = ("10.0.0.1", 41000 + len(self.connections), "10.0.0.2", 8001)
        self._connection(at, began, None, None, syns - 1, 0, end, False, exchange=False)

    def _connection(
        self, ends: tuple[str, int, str, int], syn: int, answered: int | None, established: int | None, repeats: int,
        acks_dropped: int, end: str, keepalive: bool, accepted: int | None = None, ended: int | None = None,
        exchange: bool = True,
    ) -> None:  # fmt: skip
        number = len(self.connections)
        produced: dict[str, Any] = {name: 0 for name, kind in CONNECTIONS.items() if kind.is_integer()}
        produced |= {
            "connection": number, "client": ends[0], "client_port": ends[1], "server": ends[2], "server_port": ends[3],
            "first": syn, "last": ended or syn + repeats * 1_000 * MS, "syn_retransmissions": repeats,
            "acks_dropped": acks_dropped,
            "syn_ack_retransmissions": acks_dropped, "end": end, "protocol": "http" if exchange else "none",
            "exchanges": int(exchange), "packets": 10,
        }  # fmt: skip
        if not keepalive:
            produced |= {
                "syn": syn,
                "syn_answered": answered,
                "established": established,
                "ack_taken": accepted or established,
            }
            produced |= {"syn_ack": None if answered is None else answered + 20 * US}
        if end.startswith("reset"):
            produced["reset"] = ended
        self.connections.append(produced)
        if exchange:
            self.exchanges.append({"exchange": len(self.exchanges), "connection": number, "number": 1})


def _frame(rows: Iterable[dict[str, Any]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    dicts = list(rows)
    if not dicts:
        return pl.DataFrame(schema=schema)
    as_ints = {name: pl.Int64() if isinstance(kind, pl.Datetime) else kind for name, kind in schema.items()}
    return pl.DataFrame(dicts, schema=as_ints).cast(dict(schema))  # type: ignore[arg-type]


def result_of(produced: TimelineBuilder, **more: Any) -> WireResult:
    """A result of these frames as ``wire`` makes it; ``more`` replaces attributes."""
    timeline, connections, exchanges = produced.frames()
    legs = pl.when(pl.col("server_port") == 80).then(pl.lit("client")).otherwise(pl.lit("backend"))
    connections = connections.with_columns(leg=legs, endpoint=pl.format("{}:{}", "server", "server_port"))
    connections = connections.with_columns(vantage=pl.lit("both"))
    exchanges = exchanges.join(connections.select("connection", "leg"), on="connection", how="left")
    columns = [name for name in FIGURES if name in timeline.columns]
    lasted = (pl.col("backend_established") - pl.col("backend_syn")).dt.total_nanoseconds() / 1e9
    measured = timeline.with_columns(handshake=lasted)
    sizes = {name: measured[name].count() for name in (*columns, "handshake")}
    reported = [name for name, size in sizes.items() if size]
    values: dict[str, Any] = {
        "names": ("made.pcap",), "interfaces": ("lo",), "counts": Counts(packets=1_000, segments=1_000),
        "window": None, "connections": connections, "exchanges": exchanges, "timeline": timeline,
        "figures": summaries(measured.lazy(), reported) if reported else {}, "sizes": sizes,
        "steps": syn_steps(connections), "servers": servers(connections), "ends": counts_of(connections, "end"),
    }  # fmt: skip
    result = WireResult(**{**values, **more})
    return replace(
        result,
        findings=more.get("findings", findings(result)),
        notes=more.get("notes", join_notes(result)),
    )
