"""Log rotation under load: nothing lost, nothing torn."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nginx_support import get, rows_of
from sojourn_lab.runtime.nginx import Nginx

ROTATIONS = 4


def test_rename_and_reopen_under_load(shop: Callable[..., Nginx]) -> None:
    nginx = shop()
    sent: list[str] = []
    enough = threading.Event()

    def load() -> None:
        while not enough.is_set():
            path = f"/{len(sent)}"
            assert get(nginx, path).status == 200
            sent.append(path)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        old_logs = []
        for number in range(1, ROTATIONS + 1):
            seen = len(sent)
            nginx.process.wait_until(lambda seen=seen: len(sent) >= seen + 30, 60, "30 requests")  # type: ignore[misc]
            old = nginx.access_log.with_suffix(f".jsonl.{number}")
            nginx.access_log.rename(old)
            nginx.reopen()
            old_logs.append(old)
    finally:
        enough.set()
        thread.join(timeout=60)
    assert not thread.is_alive()
    nginx.stop()
    parts = [rows_of(path) for path in [*old_logs, nginx.access_log]]
    assert all(len(part) >= 30 for part in parts[:-1])
    assert [row["uri"] for part in parts for row in part] == sent
