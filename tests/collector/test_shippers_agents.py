"""The agents of the page on shippers, with its configurations: Fluent Bit and the OpenTelemetry Collector."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

pytest.importorskip("chdb")

from clickhouse_http import StandIn
from shippers_support import ACCOUNT, LOG, Store, relayed, started
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.runtime.process import Process
from split_support import BAD_LINES
from store_support import record

ARRIVES_S = 60


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, store_in: Callable[[Path], StandIn]) -> Iterator[Store]:
    with started(tmp_path_factory.mktemp("agents"), store_in) as store:
        yield store


class Agent:
    """An agent that ships a log in its folder; it can be killed and started again."""

    def __init__(self, program: str, store: Store, folder: Path, config: Callable[[Store, Path], str]) -> None:
        self._program = program
        self._folder = folder
        self._config = folder / "agent.yaml"
        self._starts = 0
        self.store = store
        self.log = folder / "sojourn.jsonl"
        self.log.touch()
        (folder / "state").mkdir()
        self._config.write_text(config(store, folder))
        self.process: Process | None = None

    def start(self) -> None:
        """Start the agent."""
        self._starts += 1
        self.process = Process(
            [self._program, "--config", str(self._config)],
            name=f"agent-{self._starts}", folder=self._folder, cwd=self._folder,
            env={"PATH": os.environ["PATH"], "SOJOURN_WRITER_PASSWORD": ACCOUNT[1]},
        )  # fmt: skip
        self.process.start()

    def use_port(self, port: int) -> None:
        """Make the next start send to another port."""
        text = self._config.read_text()
        self._config.write_text(text.replace(str(self.store.http.port), str(port)))

    def kill(self) -> None:
        """End it without a chance to save anything."""
        assert self.process is not None
        assert self.process.running(), self.process.last_lines()
        self.process.send_signal(signal.SIGKILL)
        self.process.stop()

    def write(self, first: int, count: int) -> None:
        """Append records to the log."""
        with self.log.open("ab") as log:
            log.write(b"".join(json.dumps(record(first + i)).encode() + b"\n" for i in range(count)))

    def wait(self, count: int, refused: int = 0) -> None:
        """Wait until the store has this many requests and dead letters."""
        assert self.process is not None

        def arrived() -> bool:
            requests, letters = self.store.counts()
            return requests >= count and letters >= refused

        self.process.wait_until(arrived, ARRIVES_S, f"{count} requests and {refused} dead letters")

    def missing(self) -> int:
        """Return the number of bytes that are missing."""
        return int(self.store.http.ask("SELECT sum(missing_bytes) AS n FROM reconciliation")[0]["n"])

    def refusals(self, name: str) -> int:
        """Return how often the store has refused a request."""
        return self.store.http.control()[name]

    def wait_for_refusal(self, name: str, before: int) -> None:
        """Wait until the store has refused a request of the agent."""
        assert self.process is not None
        self.process.wait_until(lambda: self.refusals(name) > before, ARRIVES_S, "a refusal")


def collector(store: Store, folder: Path) -> str:
    """Return the page's configuration of the Collector; its own metrics would take a fixed port."""
    text = store.block("otelcol.yaml", {LOG: folder / "sojourn.jsonl", "/var/lib/otelcol": folder / "state"})
    return text + "  telemetry: {metrics: {level: none}}\n"


def fluent_bit(store: Store, folder: Path) -> str:
    """Return the page's configuration of Fluent Bit, which retries sooner and looks for new files more often."""
    text = store.block(
        "fluent-bit.yaml",
        {LOG: folder / "sojourn.jsonl", "/var/lib/fluent-bit": folder / "state", "host: store": "host: 127.0.0.1",
         "port: 8123": f"port: {store.http.port}"},
    )  # fmt: skip
    text = text.replace("service:\n", "service:\n  scheduler.base: 1\n  scheduler.cap: 2\n")
    return text.replace("    - name: tail\n", "    - name: tail\n      refresh_interval: 1\n")


@pytest.fixture(params=["otelcol-contrib", "fluent-bit"])
def agent(request: pytest.FixtureRequest, running: Store, tmp_path: Path) -> Iterator[Agent]:
    program = shutil.which(request.param) or shutil.which(request.param, path="/opt/fluent-bit/bin")
    if program is None:
        pytest.skip(f"{request.param} is not installed: its configuration was only parsed")
    running.empty()
    agent = Agent(program, running, tmp_path, collector if request.param == "otelcol-contrib" else fluent_bit)
    agent.start()
    yield agent
    running.http.control(refuse=0, deny=0)
    if agent.process is not None:
        agent.process.stop()


def test_configurations_have_the_options_that_prevent_losses(running: Store, tmp_path: Path) -> None:
    otel = yaml.safe_load(collector(running, tmp_path))
    receiver, exporter = otel["receivers"]["file_log"], otel["exporters"]["otlp_http"]
    assert receiver["storage"] in otel["extensions"]
    assert receiver["retry_on_failure"] == {"enabled": True, "max_elapsed_time": 0}
    assert exporter["retry_on_failure"] == {"max_elapsed_time": 0}
    assert exporter["encoding"] == "json"
    bit = yaml.safe_load(fluent_bit(running, tmp_path))
    (tail,), (http,) = bit["pipeline"]["inputs"], bit["pipeline"]["outputs"]
    assert {tail["key"], tail["path_key"], tail["offset_key"]} == {"line", "file", "position"}
    assert (tail["storage.type"], http["retry_limit"], http["json_date_key"]) == ("filesystem", "no_limits", False)
    for url in (exporter["logs_endpoint"], exporter["traces_endpoint"], http["uri"]):
        assert " " not in url


def test_every_line_arrives_with_its_source_and_position(agent: Agent) -> None:
    agent.write(0, 150)
    # nginx writes neither an empty line nor CRLF.
    bad = [raw for raw, reason in BAD_LINES if reason != "empty_line"]
    with agent.log.open("ab") as log:
        log.write(b"".join(bad))
    agent.write(150, 150)
    agent.wait(300, len(bad))
    store = agent.store
    assert store.counts() == (300, len(bad))
    assert store.http.ask("SELECT DISTINCT source FROM requests") == [{"source": f"edge1:{agent.log}"}]
    assert agent.missing() == 0
    assert store.http.ask("SELECT min(begin) AS n FROM line_runs")[0]["n"] == 0


def test_nothing_is_lost_to_an_absent_store_a_kill_and_a_rotation(agent: Agent) -> None:
    agent.write(0, 100)
    agent.wait(100)
    before = agent.refusals("refused")
    agent.store.http.control(refuse=600)
    agent.write(100, 300)
    agent.wait_for_refusal("refused", before)
    agent.kill()
    agent.store.http.control(refuse=0)
    agent.start()
    agent.wait(400)
    before = agent.refusals("refused")
    agent.store.http.control(refuse=600)
    agent.write(400, 300)
    agent.wait_for_refusal("refused", before)
    agent.log.rename(agent.log.with_suffix(".jsonl.1"))
    agent.write(700, 300)
    agent.store.http.control(refuse=0)
    agent.wait(1000)
    assert agent.store.count("requests") == 1000
    assert agent.missing() == 0


def test_nothing_is_lost_while_connections_are_refused(agent: Agent) -> None:
    agent.kill()
    port = free_port()
    agent.use_port(port)
    agent.write(0, 200)
    agent.start()
    process = agent.process
    assert process is not None
    messages = ("connection refused", "no upstream connections available")
    process.wait_until(
        lambda: any(message in process.last_lines(100) for message in messages), ARRIVES_S, "a refused connection"
    )
    with relayed(port, agent.store.http.port):
        agent.wait(200)
        assert agent.store.count("requests") == 200


def test_lines_lost_to_a_final_error_are_reported_as_missing(agent: Agent) -> None:
    agent.write(0, 100)
    agent.wait(100)
    before = agent.refusals("denied")
    agent.store.http.control(deny=600)
    size = agent.log.stat().st_size
    agent.write(100, 50)
    lost = agent.log.stat().st_size - size
    agent.wait_for_refusal("denied", before)
    agent.store.http.control(deny=0)
    agent.write(150, 50)
    agent.wait(150)
    assert agent.store.count("requests") == 150
    assert agent.missing() == lost
