"""The project's configurations of Vector, run for a test: addresses, folders and waits replaced, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.runtime.process import Process

PIPELINE = Path(__file__).parents[3] / "collector" / "vector"
OF_SPANS = sorted((PIPELINE / "spans").glob("*.yaml"))  # the configuration of the agent for spans
LEAST_BUFFER = 268435488  # bytes; Vector takes no smaller one on disk
START_S = 60
# On a disk of $1 KiB of its own, at $2, a program is started again whenever it ends, as with Restart=always.
STARTED_AGAIN = (
    'mount -t tmpfs -o size="$1"k tmpfs "$2" && shift 2; while :; do "$@"; echo "ended: $?"; sleep 0.5; done'
)
ACCOUNT = ("sojourn_writer", "pass-for-the-test-only")  # Vector puts it into the text of its YAML


def vector_program() -> str:
    """Path of ``vector``; the test is skipped where there is none."""
    setting = os.environ.get("SOJOURN_VECTOR") or shutil.which("vector")
    if not setting:
        pytest.skip("no vector: install Vector 0.57.0 (vector.dev/docs/setup/installation) or set SOJOURN_VECTOR to it")
    return setting


class Vector:
    """An agent in ``folder`` that ships ``logs`` to the store at ``endpoint``. A context manager.

    After ``kill`` or ``stop`` it can be started again, on the state it left.

    Args:
        folder: for its files; it must not exist.
        endpoint: the URL of the store.
        files: the configuration; by default that of the agent for lines.
        broker: address of a Kafka broker without TLS and SCRAM: options for these are removed.
        topics: what the names of its topics begin with, and its consumer groups: those of a test are its own.
        disk: KiB of a disk for the folder of an agent for spans, which is then started again whenever it ends.

    Attributes:
        logs: the folder it reads logs from.
        data: its ``data_dir``.
        otlp: the endpoint for spans over HTTP.
    """

    def __init__(
        self,
        folder: Path,
        endpoint: str,
        files: Sequence[Path] = (),
        broker: str = "",
        topics: str = "sojourn",
        disk: int = 0,
    ) -> None:
        self._program = vector_program()
        self._folder = folder
        self._endpoint = endpoint
        self._files = files or sorted((PIPELINE / "config").glob("*.yaml"))
        self._broker = broker
        self._topics = topics
        self._disk = disk
        self._starts = 0
        self._process: Process | None = None
        self._health = ""
        self.otlp = ""
        self.logs = folder / "logs"
        self.data = folder / "data"
        # The third is the folder of an agent for spans.
        for part in (self.logs, self.data, folder / "data-spans", folder / "secrets", folder / "config"):
            part.mkdir(parents=True)
        (folder / "secrets" / "clickhouse_writer").write_text(ACCOUNT[1] + "\n")

    def start(self) -> None:
        """Start it and wait until it says it is well."""
        for attempt in range(3):  # a free port may be taken before it is used
            self._starts += 1
            self._configure()
            command = [self._program, "--config-dir", str(self._folder / "config")]
            if self._disk:
                own = ["sh", str(self._disk), str(self._folder / "data-spans")]
                command = ["unshare", "--mount", "sh", "-c", STARTED_AGAIN, *own, *command]
            self._process = Process(
                command,
                name=f"vector-{self._starts}",
                folder=self._folder,
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "VECTOR_LOG": "info",
                    "VECTOR_THREADS": "2",
                    "VECTOR_INTERNAL_LOG_RATE_LIMIT": "1",  # s in which a message is not repeated
                    # With a full disk it takes all of this time, by default 60 s, before it ends.
                    **({"VECTOR_GRACEFUL_SHUTDOWN_LIMIT_SECS": "2"} if self._disk else {}),
                },
            )
            self._process.start()
            try:
                self._process.wait_until(self.healthy, START_S, "the agent's health")
                return
            except LabError:
                output = self.output()
                self._process.stop()
                if attempt == 2 or "in use" not in output:
                    raise

    def kill(self) -> None:
        """End it at once, with no chance to save anything."""
        assert self._process is not None
        assert self._process.running(), self.output()
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait(60) == -signal.SIGKILL
        self._process.stop()

    def stop(self) -> None:
        """End it in good order."""
        if self._process is not None:
            self._process.stop(deadline_s=20)

    def disk(self) -> Path:
        """Its disk, as the programs on it see it."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root{self._folder}/data-spans")

    def exit_codes(self) -> list[int]:
        """With what it has ended, each time; of one that is started again."""
        assert self._process is not None
        lines = self._process.out_path.read_text().splitlines()
        return [int(line.removeprefix("ended: ")) for line in lines if line.startswith("ended: ")]

    def healthy(self) -> bool:
        """Whether it says it is well."""
        try:
            with urllib.request.urlopen(self._health, timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def warnings(self) -> list[str]:
        """Lines of its log, of this start, that are warnings or errors."""
        assert self._process is not None
        lines = self._process.err_path.read_text().splitlines() + self._process.out_path.read_text().splitlines()
        return [line for line in lines if " WARN " in line or " ERROR " in line]

    def output(self) -> str:
        """The last lines of its log."""
        return self._process.last_lines(40) if self._process is not None else ""

    def __enter__(self) -> Vector:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _configure(self) -> None:
        places = {
            "/var/log/sojourn": str(self.logs),
            "/var/lib/vector": str(self._folder / "data"),
            "/run/secrets": str(self._folder / "secrets"),
            "http://clickhouse:8123": self._endpoint,
            "https://clickhouse:8443": self._endpoint,
            "kafka:9093": self._broker,
            "sojourn.": f"{self._topics}.",
        }
        ports: dict[str, int] = {}
        for file in self._files:
            config = replaced(yaml.safe_load(file.read_text()), places, ports)
            for part in (*config.get("sources", {}).values(), *config.get("sinks", {}).values()):
                for lock in ("tls", "sasl") if self._broker else ():
                    part.pop(lock, None)
            for source in config.get("sources", {}).values():
                hurried(source, {"scrape_interval_secs": 0.5, "glob_minimum_cooldown_ms": 100})
                if source["type"] == "kafka":
                    # One that was killed keeps its partitions until its session ends, by default 10 s later.
                    source["group_id"] = source["group_id"].replace("sojourn", self._topics)
                    source |= {"session_timeout_ms": 1500, "drain_timeout_ms": 1000}
                    source["librdkafka_options"] |= {
                        "heartbeat.interval.ms": "300", "topic.metadata.refresh.interval.ms": "300",
                        "reconnect.backoff.max.ms": "300",
                    }  # fmt: skip
            for sink in config.get("sinks", {}).values():
                hurried(sink.get("batch", {}), {"timeout_secs": 0.4})
                hurried(sink.get("request", {}), {"retry_initial_backoff_secs": 1, "retry_max_duration_secs": 1})
                hurried(sink.get("buffer", {}), {"max_size": LEAST_BUFFER})
                if sink["type"] == "kafka":
                    sink.setdefault("librdkafka_options", {})["reconnect.backoff.max.ms"] = "300"
            (self._folder / "config" / file.name).write_text(yaml.safe_dump(config))
        self._health = f"http://127.0.0.1:{ports.get('8686') or ports['8687']}/health"
        self.otlp = f"http://127.0.0.1:{ports['4318']}" if "4318" in ports else ""


def hurried(part: dict[str, Any], values: dict[str, Any]) -> None:
    """Waits and sizes replaced where the configuration has them; nothing is added."""
    part.update({name: value for name, value in values.items() if name in part})


def replaced(value: Any, places: dict[str, str], ports: dict[str, int]) -> Any:
    """``value`` with the places a test has of its own, and a free port for every address it listens at."""
    if isinstance(value, dict):
        return {key: replaced(item, places, ports) for key, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, places, ports) for item in value]
    if not isinstance(value, str):
        return value
    for own, theirs in places.items():
        if value.startswith(own):
            return theirs + value.removeprefix(own)
    host, _, port = value.rpartition(":")
    if host == "127.0.0.1":
        # Repeated calls may return the same port.
        ports[port] = next(free for free in iter(free_port, None) if free not in ports.values())
        return f"127.0.0.1:{ports[port]}"
    assert not value.startswith(("/", "http:", "https:")), f"{value}: a test has no replacement for it"
    return value
