"""A real nginx before and after the fix: what was broken is seen on the wire or in the log, and then it is not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doctor_faults import FAULTS
from doctor_support import DEADLINE_S, Laid, app, got, laid, running
from sojourn.doctor.doctor import diagnose
from sojourn_lab.runtime.nginx import Nginx

NO_NGINX = Nginx.why_unavailable()
pytestmark = pytest.mark.skipif(NO_NGINX is not None, reason=NO_NGINX or "")


class Seen:
    """What one nginx and its app have to show for some requests."""

    def __init__(self, conf: Laid, requests: list[dict[str, Any]]) -> None:
        self.conf = conf
        self.requests = requests

    def get(self, path: str = "/", port: str = "PORT", **headers: str) -> dict[str, str]:
        """The headers of an answer."""
        return got(self.conf.ports[port], path, {name.replace("_", "-"): value for name, value in headers.items()})

    def stamps(self) -> list[str]:
        """The stamps the app was sent with the last request."""
        return list(self.requests[-1].get("x-request-start", []))

    def lines(self, count: int) -> list[str]:
        """The log, once it has so many lines."""
        deadline = time.monotonic() + DEADLINE_S
        path = self.conf.folder / "access.jsonl"
        while path.read_bytes().count(b"\n") < count:
            assert time.monotonic() < deadline, path.read_text()
            time.sleep(0.005)
        return path.read_text().splitlines()

    def last(self, count: int = 1) -> dict[str, str]:
        """The last record of the log, once it has so many lines."""
        row: dict[str, str] = json.loads(self.lines(count)[-1])
        return row


def unstamped(seen: Seen) -> bool:
    seen.get()
    return seen.stamps() == []


def believed(seen: Seen) -> bool:
    seen.get(X_Request_Start="t=1")
    return seen.stamps() == ["t=1"]


def passed_on(seen: Seen) -> bool:
    seen.get(X_Queue_Start="t=1")
    return seen.requests[-1].get("x-queue-start") == ["t=1"]


def passed_on_with_an_underscore(seen: Seen) -> bool:
    names = {"X_Queue_Start": "t=1"}
    got(seen.conf.ports["PORT"], "/", names)
    return seen.requests[-1].get("x_queue_start") == ["t=1"]


def stamped_twice(seen: Seen) -> bool:
    seen.get()
    return len(seen.stamps()) == 2


def sent_on(seen: Seen) -> bool:
    seen.get(X_Request_ID="mine")
    return seen.requests[-1].get("x-request-id") == ["mine"]


def no_unix_time(seen: Seen) -> bool:
    seen.get()
    return not seen.stamps()[0].removeprefix("t=").replace(".", "").isdigit()


def unlogged(seen: Seen) -> bool:
    seen.get("/")
    seen.get("/api/x")  # logged in any case, and after the other
    return all(json.loads(line)["uri"] != "/" for line in seen.lines(1))


def sent_to_clients(seen: Seen) -> bool:
    return "x-worker" in seen.get()


def silent(seen: Seen) -> bool:
    seen.get()
    return seen.last().get("queueing_delay", "") in ("", "-")


def silent_behind_another(seen: Seen) -> bool:
    seen.get(port="OUTER")
    return seen.last()["queueing_delay"] == ""


def no_json(seen: Seen) -> bool:
    seen.get('/"quoted"')
    try:
        json.loads(seen.lines(1)[0])
    except ValueError:
        return True
    return False


def stamped_at_the_end(seen: Seen) -> bool:
    seen.get()
    row = seen.last()
    return float(row["request_start"]) > float(row["time"]) - 0.02  # the app took 50 ms


def connection_closed(seen: Seen) -> bool:
    seen.get()
    return seen.requests[-1].get("connection") == ["close"]


def held_back(seen: Seen) -> bool:
    log = seen.conf.folder / "error.log"
    before = log.read_text().count("delaying request")
    for _ in range(2):
        seen.get()
    return log.read_text().count("delaying request") > before


def raw_route(seen: Seen) -> bool:
    seen.get("/api/4711")
    return seen.last()["route"] == "/api/4711"


CASES: dict[str, Callable[[Seen], bool]] = {
    "no include, inherited headers": unstamped,
    "included in the server, lost in a location": unstamped,
    "a stamp of one's own beside the include": stamped_twice,
    "the client's stamp sent on": believed,
    "a date for a stamp": no_unix_time,
    "a stamp without the other headers": passed_on,
    "underscores in headers": passed_on_with_an_underscore,
    "invalid header names not ignored": passed_on_with_an_underscore,
    "the client's request id sent on": sent_on,
    "the client's request id sent on by a map": sent_on,
    "another log in a location": unlogged,
    "access_log off in a location": unlogged,
    "headers to hide not inherited": sent_to_clients,
    "headers logged after they were hidden": silent,
    "two nginx in a row": silent_behind_another,
    "no escape=json": no_json,
    "the time of the log for a stamp": stamped_at_the_end,
    "keepalive of no use": connection_closed,
    "a map for WebSockets that closes all others": connection_closed,
    "a limit that delays": held_back,
    "every address trusted": lambda seen: seen.get(X_Request_ID="mine") != {} and seen.last()["request_id"] == "mine",
    "the raw path for a route": raw_route,
}


@pytest.mark.parametrize("name", CASES)
def test_the_fix_mends_it(tmp_path: Path, name: str) -> None:
    fault = next(each for each in FAULTS if each.name == name)
    conf = laid(tmp_path / "broken", fault)
    with app(conf.ports["APP"], 0.05 if fault.code == "log-stamp" else 0.0, fault.server) as requests:
        with running(conf):
            assert CASES[name](Seen(conf, requests))
        conf.apply(diagnose(str(conf.path), somaxconn=fault.somaxconn, ask_backends=True).findings[0].edits)
        with running(conf):
            assert not CASES[name](Seen(conf, requests))
