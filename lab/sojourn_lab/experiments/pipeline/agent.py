"""The agent as it is shipped, adapted to the folders and ports of a measurement, and Vector's own counts."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.ports import free_ports
from sojourn_lab.runtime.process import Process

SINK = "store_lines"
"""The sink of nginx's lines: what it has sent, the store has accepted."""

PORTS = ("8686", "9598")
STORE = "http://clickhouse:8123"
START_SECONDS = 60.0


@dataclass(frozen=True)
class Count:
    """The count of events that a component had sent at an instant (unix s), and of events discarded by the agent."""

    time: float
    events: float
    discarded: float


def vector_program() -> str | None:
    """Return the program: $SOJOURN_VECTOR, or the one on PATH; None without either."""
    return os.environ.get("SOJOURN_VECTOR") or shutil.which("vector")


def started_receiver(folder: Path) -> tuple[Process, str]:
    """Start a store that accepts everything; return its process and its URL."""
    command = [sys.executable, "-m", "sojourn_lab.experiments.pipeline.receiver"]
    receiver = Process(command, name="receiver", folder=folder).start()
    try:
        receiver.wait_until(lambda: receiver.out_path.read_bytes().endswith(b"\n"), START_SECONDS, "its port")
    except LabError:
        receiver.stop()
        raise
    return receiver, f"http://127.0.0.1:{int(receiver.out_path.read_text())}"


def lay_out_agent(work: Path, logs: Path, store: str, interval: float) -> Path:
    """Write the agent's configuration to ``work/config``, for the logs in ``logs`` and the store at the URL ``store``.

    Args:
        work: an existing folder.
        logs: the folder of the logs.
        store: what is accepted there counts as sent.
        interval: seconds between two counts.

    Returns:
        The file that Vector writes its own counters to.
    """
    config, data, secrets = (work / name for name in ("config", "data", "secrets"))
    for folder in (config, data, secrets):
        folder.mkdir()
    (secrets / "clickhouse_writer").write_text("none\n")
    places = {
        "/var/log/sojourn": str(logs),
        "/var/lib/vector": str(data),
        "/run/secrets": str(secrets),
        STORE: store,
        **{
            f"127.0.0.1:{port}": f"127.0.0.1:{free}"
            for port, free in zip(PORTS, free_ports(len(PORTS)), strict=True)
        },
    }  # fmt: skip
    replaced: set[str] = set()
    for file in sorted(resource_file("vector", "config").glob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        for original, local in places.items():
            if original in text:
                replaced.add(original)
                text = text.replace(original, local)
        (config / file.name).write_text(text, encoding="utf-8")
    if missing := places.keys() - replaced:
        raise LabError(f"the agent's configuration does not contain {min(missing)}: the lab cannot replace it")
    (config / "lab.json").write_bytes(msgspec.json.encode(counters_to(work / "metrics.jsonl", interval)))
    return work / "metrics.jsonl"


def counters_to(metrics: Path, interval: float) -> dict[str, Any]:
    """Return a source and a sink that write Vector's own counters to a file, every ``interval`` seconds."""
    return {
        "sources": {"own": {"type": "internal_metrics", "scrape_interval_secs": interval}},
        "sinks": {"counters": {"type": "file", "inputs": ["own"], "path": str(metrics), "encoding": {"codec": "json"}}},
    }


def counts_in(text: bytes, component: str = SINK) -> list[Count]:
    """Return the counts of events that a component has sent, ordered by time, without an incomplete last line."""
    sent: dict[float, float] = {}
    discarded: dict[float, float] = {}
    for line in text.split(b"\n")[:-1]:
        if b'"component_sent_events_total"' in line:
            counts = sent
        elif b'"component_discarded_events_total"' in line:
            counts = discarded
        else:
            continue
        metric = msgspec.json.decode(line)
        if counts is discarded or metric["tags"].get("component_id") == component:
            # Nanoseconds are more than Python's own instants hold.
            instant = datetime.fromisoformat(metric["timestamp"][:26].rstrip("Z") + "+00:00").timestamp()
            counts[instant] = counts.get(instant, 0.0) + metric["counter"]["value"]
    return [Count(instant, events, discarded.get(instant, 0.0)) for instant, events in sorted(sent.items())]
