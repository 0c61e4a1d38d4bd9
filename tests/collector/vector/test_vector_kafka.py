"""The way past one machine with a real broker: agent, Kafka, aggregator, store. No line is lost, whatever fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from clickhouse_http import StandIn
from collector_support import eventually
from hostile_lines import HOSTILE, TOO_LONG, log_of
from kafka_run import Broker, kafka_jars

# The path comes first.
from split_support import Settings, as_lines, simulated_log
from vector_run import PIPELINE, Vector, vector_program

pytest.importorskip("chdb")

ARRIVES_S = 90
AGENT = [*(file for file in sorted((PIPELINE / "config").glob("*.yaml")) if file.name != "clickhouse.yaml")]
AGENT.append(PIPELINE / "scale" / "kafka.yaml")
# Messages of another program, on the topic of lines.
FOREIGN = ["not json", "[1, 2]", '"text"', "7", "{}", '{"position": "abc", "line": {"x": 1}}', '{"line": "no file"}']


class Way:
    """A store, a broker with topics of their own, an aggregator and an agent."""

    def __init__(self, folder: Path, store: StandIn, broker: Broker) -> None:
        self.folder, self.store, self.broker = folder, store, broker
        self.agent = self.vector("agent", AGENT)
        self.log = self.agent.logs / "access.jsonl"
        self.aggregator = self.vector("aggregator", [PIPELINE / "scale" / "aggregator.yaml"])

    def vector(self, name: str, files: Sequence[Path]) -> Vector:
        """Return a Vector with these files, before the broker and the store; it is not started."""
        return Vector(self.folder / name, self.store.url, files, self.broker.address, self.folder.name)

    def reasons(self) -> list[str]:
        """Reasons of the dead letters of the log, by position."""
        sql = "SELECT reason FROM dead_letters FINAL WHERE kind = 'requests' AND source != '' ORDER BY position"
        return [row["reason"] for row in self.store.ask(sql)]

    def count(self, table: str, condition: str = "1") -> int:
        """Rows of a table, each once."""
        return int(self.store.ask(f"SELECT count() AS n FROM {table} FINAL WHERE {condition}")[0]["n"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    vector_program()
    kafka_jars()
    with Broker(tmp_path_factory.mktemp("broker") / "kafka") as broker:
        yield broker


@pytest.fixture
def way(tmp_path: Path, store_in: Callable[[Path], StandIn], broker: Broker) -> Iterator[Way]:
    with store_in(tmp_path) as store:
        way = Way(tmp_path, store, broker)
        try:
            yield way
        finally:
            way.agent.stop()
            way.aggregator.stop()


@pytest.mark.timeout(400)
def test_lines_pass_the_broker_whatever_they_contain(way: Way) -> None:
    way.log.write_bytes(log_of(HOSTILE))
    (way.agent.logs / "listen-app.jsonl").write_text(
        '{"time":1767225600.25,"socket":"app","port":8000,"depth":1,"limit":64}\n'
    )
    way.agent.start()
    way.aggregator.start()
    expected = [reason for line, reason in HOSTILE if reason and reason != TOO_LONG]
    good = sum(reason == "" for _, reason in HOSTILE)
    eventually(lambda: way.count("requests") >= good, "the lines without a fault", ARRIVES_S)
    eventually(lambda: len(way.reasons()) >= len(expected), "the dead letters", ARRIVES_S)
    eventually(lambda: way.count("listen_queue") == 1, "the sample", ARRIVES_S)
    eventually(lambda: way.count("pipeline_metrics") > 0, "the agent's counters", ARRIVES_S)
    assert way.reasons() == expected
    assert way.count("requests") == good
    (source,) = way.store.ask("SELECT DISTINCT source FROM requests")
    assert source["source"].endswith(f":{way.log}")


@pytest.mark.timeout(300)
def test_messages_of_another_program_become_dead_letters(way: Way) -> None:
    config = {
        "data_dir": "/var/lib/vector",
        "api": {"enabled": True, "address": "127.0.0.1:8686"},
        "sources": {"messages": {"type": "file", "include": ["/var/log/sojourn/messages"]}},
        "sinks": {
            "topic": {
                "type": "kafka", "inputs": ["messages"], "bootstrap_servers": "kafka:9093",
                "topic": "sojourn.lines", "encoding": {"codec": "text"},
            }
        },
    }  # fmt: skip
    (way.folder / "other.yaml").write_text(yaml.safe_dump(config))
    other = way.vector("other", [way.folder / "other.yaml"])
    (other.logs / "messages").write_text("".join(f"{message}\n" for message in FOREIGN))
    records, _ = simulated_log(Settings(requests=100))
    way.log.write_bytes(b"".join(as_lines(records)))
    with other:
        way.agent.start()
        way.aggregator.start()
        eventually(lambda: way.count("dead_letters", "source = ''") >= len(FOREIGN), "the messages", ARRIVES_S)
    eventually(lambda: way.count("requests") == 100, "the lines", ARRIVES_S)
    texts = way.store.ask("SELECT raw FROM dead_letters FINAL WHERE source = ''")
    assert sorted(row["raw"] for row in texts) == sorted(FOREIGN)


@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_kills_of_every_part_lose_nothing(way: Way) -> None:
    records, _ = simulated_log(Settings(requests=6000))
    lines = as_lines(records)
    way.aggregator.start()
    way.agent.start()
    with way.log.open("ab", buffering=0) as log:
        for number, end in enumerate(range(1000, 7000, 1000)):
            log.write(b"".join(lines[end - 1000 : end]))
            eventually(lambda least=end - 1000: way.count("requests") > least, "the first of them", ARRIVES_S)
            match number:
                case 1:
                    way.aggregator.kill()
                    way.aggregator.start()
                case 2:
                    way.agent.kill()
                    way.agent.start()
                case 3:
                    way.broker.kill()
                    way.broker.start()
    eventually(lambda: way.count("requests") >= 6000, "every line", ARRIVES_S)
    stored = way.store.ask("SELECT request_id FROM requests FINAL")
    assert sorted(row["request_id"] for row in stored) == sorted(record["request_id"] for record in records)
    assert way.store.ask("SELECT * FROM line_gaps") == []
