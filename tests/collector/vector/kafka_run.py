"""One Kafka broker, controller and broker in one process, for a test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from sojourn_lab.runtime.ports import free_ports
from sojourn_lab.runtime.process import Process

STARTS_S = 60
CLUSTER = "c29qb3Vybi1vZi10ZXN0cw"  # 16 bytes in base64; one at random can begin like an option
LARGEST = 104857600  # bytes of a message, as scale/kafka.yaml has it


def kafka_jars() -> str:
    """Return the class path of Kafka; skip the test where it or Java is missing."""
    folder = os.environ.get("SOJOURN_KAFKA", "") or Path(__file__).parents[3] / ".tools/kafka"
    if not list(Path(folder, "libs").glob("kafka_2.13-*.jar")):
        pytest.skip(
            "no Kafka: `make setup-test` fetches it where Maven is, or set SOJOURN_KAFKA to a folder with libs/"
        )
    if shutil.which("java") is None:
        pytest.skip("Kafka needs java")
    return str(Path(folder, "libs", "*"))


class Broker:
    """A broker with topics that are made when they are first used, of ``partitions`` each. A context manager."""

    def __init__(self, folder: Path, partitions: int = 4) -> None:
        # It runs for seconds: the second compiler would not repay its work.
        self._java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", kafka_jars()]
        self._folder = folder
        self._partitions = partitions
        folder.mkdir(parents=True)
        port, controller = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self._settings = folder / "server.properties"
        self._settings.write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{self.address}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
num.partitions={self._partitions}
message.max.bytes={LARGEST}
log.dirs={folder / "data"}
"""
        )
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=STARTS_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        self._starts = 0
        self._process: Process | None = None

    def start(self) -> None:
        """Start it and wait until it serves."""
        self._starts += 1
        command = [*self._java, "kafka.Kafka", str(self._settings)]
        self._process = Process(command, name=f"kafka-{self._starts}", folder=self._folder)
        self._process.start()
        out, err = self._process.out_path, self._process.err_path
        self._process.wait_until(
            lambda: b"Kafka Server started" in out.read_bytes() + err.read_bytes(), STARTS_S, "the broker"
        )

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait(60) == -signal.SIGKILL
        self._process.stop()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.stop()
