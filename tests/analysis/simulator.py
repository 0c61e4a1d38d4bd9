"""An exact simulator of requests through nginx to two one-worker backends, which knows the truth it hides in the log.

Every instant is real-valued; nginx's clock shows it truncated to a millisecond, each backend's clock is off by its
skew. Retries, slow uploads, slow downloads and network delays are all drawn per request.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from dataclasses import dataclass, field

EPOCH = 1_767_225_600.0


@dataclass
class Truth:
    """Means over all requests, s; and what was written."""

    requests: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    skews: dict[str, float] = field(default_factory=dict)

    def add(self, **parts: float) -> None:
        self.requests += 1
        for name, seconds in parts.items():
            self.sums[name] = self.sums.get(name, 0.0) + seconds

    def mean(self, name: str) -> float:
        return self.sums[name] / self.requests


@dataclass(frozen=True)
class Settings:
    requests: int = 20_000
    rate: float = 14.0
    service: float = 0.1
    skews: tuple[float, ...] = (0.137, -0.052)
    one_way: float = 0.0003
    retry_share: float = 0.03
    retry_seconds: float = 0.25
    slow_upload: float = 0.05
    slow_download: float = 0.05
    seed: int = 7


def simulated_log(settings: Settings = Settings()) -> tuple[list[dict[str, str]], Truth]:
    """Records in the order nginx writes them, and the truth about them."""
    rng = random.Random(settings.seed)
    truth = Truth(skews={f"10.0.0.{i + 1}:8080": skew for i, skew in enumerate(settings.skews)})
    addresses = list(truth.skews)
    free_at = [0.0] * len(addresses)
    starting: list[tuple[float, int]] = []
    arrivals: list[tuple[float, ...]] = []
    clock = EPOCH
    for number in range(settings.requests):
        clock += rng.expovariate(settings.rate)
        upload = rng.uniform(0.1, 2.0) if rng.random() < settings.slow_upload else rng.uniform(0, 0.0005)
        failed = settings.retry_seconds + rng.random() * 0.1 if rng.random() < settings.retry_share else 0.0
        arrivals.append((clock, upload, failed))
        heapq.heappush(starting, (clock + upload + failed + 2 * settings.one_way, number))
    done: list[tuple[float, dict[str, str]]] = []
    turn = 0
    while starting:  # requests reach the backends in the order of their connections: first come, first served
        connected, number = heapq.heappop(starting)
        start, upload, failed = arrivals[number]
        backend = turn % len(addresses)
        turn += 1
        stamp = start + upload
        reached = connected + rng.uniform(0.5, 1.5) * settings.one_way
        begun = max(reached, free_at[backend])
        service = rng.expovariate(1 / settings.service)
        free_at[backend] = begun + service
        header = free_at[backend] + rng.uniform(0.5, 1.5) * settings.one_way
        received = header + rng.uniform(0, 0.002)
        end = received + (rng.uniform(0.2, 3.0) if rng.random() < settings.slow_download else rng.uniform(0, 0.0005))
        skew = settings.skews[backend]
        attempt = stamp + failed
        truth.add(
            upload=upload, retries=failed, connect=connected - attempt, queue=begun - connected, service_time=service,
            send=end - received, transfer=received - header, response=end - start,
        )  # fmt: skip
        other = addresses[1 - backend]
        first = {
            "addr": f"{other}, ",
            "status": "504, ",
            "none": "-, ",
            "time": f"{_between(stamp, attempt)}, ",
        }
        before = first if failed else dict.fromkeys(first, "")
        record = {
            "time": _ms(end),
            "request_id": f"{rng.getrandbits(128):032x}",
            "service": "shop",
            "route": "",
            "method": "GET",
            "uri": f"/orders/{number}?q=1",
            "status": "200",
            "request_time": _between(start, end),
            "request_start": _ms(stamp),
            "upstream_addr": before["addr"] + addresses[backend],
            "upstream_status": before["status"] + "200",
            "upstream_connect_time": before["none"] + _between(attempt, connected),
            "upstream_header_time": before["none"] + _between(attempt, header),
            "upstream_response_time": before["time"] + _between(attempt, received),
            "queueing_delay": f"{begun + skew - math.floor(stamp * 1000) / 1000:.6f}",
            "service_time": f"{service:.6f}",
            "worker": str(1000 + backend),
            "proxy": "edge-1",
        }
        done.append((end, record))
    done.sort(key=lambda pair: pair[0])
    return [record for _, record in done], truth


def _ms(instant: float) -> str:
    return f"{math.floor(instant * 1000) / 1000:.3f}"


def _between(earlier: float, later: float) -> str:
    return f"{(math.floor(later * 1000) - math.floor(earlier * 1000)) / 1000:.3f}"


def as_lines(records: list[dict[str, str]]) -> list[bytes]:
    return [json.dumps(record).encode() + b"\n" for record in records]


BAD_LINES: tuple[tuple[bytes, str], ...] = (
    (b"\n", "empty_line"),
    (b"   \r\n", "empty_line"),
    (b"not json at all\n", "invalid_json"),
    (b'{"time":"1767225600.000","request_time":"0.1"\n', "invalid_json"),
    (b'{"time":"1767225600.000","request_time":"0.100","status":"200"}{"time":"1"}\n', "invalid_json"),
    (b"\x00\x00\x00\x00\n", "invalid_json"),
    (b"\xff\xfe\n", "invalid_json"),
    (b"[1, 2, 3]\n", "not_an_object"),
    (b'"text"\n', "not_an_object"),
    (b"null\n", "not_an_object"),
    (b"{}\n", "missing_time"),
    (b'{"time":"-","request_time":"0.1","status":"200"}\n', "missing_time"),
    (b'{"time":"yesterday","request_time":"0.1","status":"200"}\n', "invalid_time"),
    (b'{"time":"0.000","request_time":"0.1","status":"200"}\n', "invalid_time"),
    (b'{"time":"nan","request_time":"0.1","status":"200"}\n', "invalid_time"),
    (b'{"time":"1767225600.000","status":"200"}\n', "missing_request_time"),
    (b'{"time":"1767225600.000","request_time":"-1.5","status":"200"}\n', "invalid_request_time"),
    (b'{"time":"1767225600.000","request_time":"1,3","status":"200"}\n', "invalid_request_time"),
    (b'{"time":"1767225600.000","request_time":"0.1"}\n', "missing_status"),
    (b'{"time":"1767225600.000","request_time":"0.1","status":"OK"}\n', "invalid_status"),
    (b'{"time":"1767225600.000","request_time":"inf","status":"200"}\n', "invalid_request_time"),
)
