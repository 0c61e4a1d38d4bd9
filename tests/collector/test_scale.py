"""The way past one machine: its files agree with one another, with the tables, and with what Vector accepts."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent / "vector"))

# The path comes first.
from hostile_lines import LONGEST
from vector_config import adapted_config, sink_parameters, sink_table
from vector_run import LEAST_BUFFER, vector_program

ROOT = Path(__file__).parents[2]
VECTOR = ROOT / "collector" / "vector"
CLUSTER = ROOT / "collector" / "clickhouse" / "cluster"
SIZING = ROOT / "lab" / "benchmarks" / "sizing.py"


def loaded(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


AGGREGATOR = loaded(VECTOR / "scale/aggregator.yaml")
# Of the agent for lines, and of that for spans.
SINKS = {**loaded(VECTOR / "scale/kafka.yaml")["sinks"], **loaded(VECTOR / "scale/kafka_spans.yaml")["sinks"]}
ONE_MACHINE = [
    sink for agent in ("config", "spans") for sink in loaded(VECTOR / agent / "clickhouse.yaml")["sinks"].values()
]
TABLES = {sink_table(sink) for sink in ONE_MACHINE}


def topic_of(table: str) -> str:
    """The topic of a table: incoming has lines."""
    return "sojourn.lines" if table == "incoming" else table.replace("incoming_", "sojourn.")


def test_every_table_has_its_topic_and_every_topic_its_way_into_the_table() -> None:
    topics = {topic_of(table): table for table in TABLES}
    assert {sink["topic"] for sink in SINKS.values()} == topics.keys()
    consumed = {source["topics"][0]: name for name, source in AGGREGATOR["sources"].items() if "topics" in source}
    assert consumed.keys() == topics.keys()
    stored = {sink_table(sink): sink for sink in AGGREGATOR["sinks"].values() if sink["type"] == "http"}
    for topic, table in topics.items():
        assert stored[table]["inputs"] == [consumed[topic]]
    assert stored.keys() == TABLES


def test_the_agents_send_what_they_would_have_stored() -> None:
    before = {(topic_of(sink_table(sink)), *sink["inputs"]): sink["encoding"] for sink in ONE_MACHINE}
    after = {(sink["topic"], *sink["inputs"]): sink["encoding"] for sink in SINKS.values()}
    assert after == before


def test_the_largest_line_passes_every_hop() -> None:
    largest = 6 * LONGEST + 10_000  # a byte of a line is up to six of JSON
    for sink in SINKS.values():
        assert int(sink["librdkafka_options"]["message.max.bytes"]) > largest
    for source in AGGREGATOR["sources"].values():
        if source["type"] == "kafka":
            assert int(source["librdkafka_options"]["receive.message.max.bytes"]) > 2 * largest
    compose = loaded(ROOT / "docker-compose.yml")["services"]["kafka"]["environment"]
    assert int(compose["KAFKA_MESSAGE_MAX_BYTES"]) > largest
    assert "max.message.bytes=104857600" in (ROOT / "docs/how-to/scale-out.md").read_text()


def test_every_topic_has_a_consumer_group_of_its_own() -> None:
    sources = [source for source in AGGREGATOR["sources"].values() if source["type"] == "kafka"]
    groups = {source["group_id"] for source in sources}
    assert len(groups) == len(sources)
    page = (ROOT / "docs/how-to/scale-out.md").read_text()
    assert groups == {group for group in groups if f"`{group}`" in page}


@pytest.mark.parametrize("sink", SINKS.values(), ids=SINKS)
def test_sinks_acknowledge_encrypt_and_retry_indefinitely(sink: dict[str, Any]) -> None:
    table = sink["topic"].removeprefix("sojourn.")
    assert sink["acknowledgements"]["enabled"] is (table != "pipeline_metrics")
    assert sink["librdkafka_options"]["acks"] == "all"
    # test_vector_kafka lost the first lines on a topic in one run of six, on a busy machine, with several.
    assert sink["librdkafka_options"]["max.in.flight.requests.per.connection"] == "1"
    assert sink["message_timeout_ms"] == 0
    assert (sink["buffer"]["type"], sink["buffer"]["when_full"]) == ("disk" if table == "spans" else "memory", "block")
    assert sink["tls"]["enabled"] is True
    assert sink["sasl"]["mechanism"] == "SCRAM-SHA-512"
    assert sink["sasl"]["password"].startswith("SECRET[")
    assert sink["key_field"] == ("trace_id" if table == "spans" else "host")


def test_an_offset_is_committed_after_the_store_said_yes() -> None:
    for source in AGGREGATOR["sources"].values():
        if source["type"] == "kafka":
            assert "acknowledgements" not in source  # Vector warns: those of the sink are what counts
            assert source["decoding"] == {"codec": "bytes"}
            assert source["tls"]["enabled"] is True
            assert source["auto_offset_reset"] == "earliest"
    for sink in AGGREGATOR["sinks"].values():
        if sink["type"] == "http":
            assert sink["acknowledgements"]["enabled"] is True
            assert sink["retry_strategy"] == {"type": "all"}
            assert sink["encoding"] == {"codec": "text"}
            assert sink_parameters(sink)["query"].endswith(" FORMAT LineAsString")
            assert sink["uri"].startswith("https://")


def test_every_input_exists_and_every_output_is_taken() -> None:
    assert "transforms" not in AGGREGATOR
    assert {i for sink in AGGREGATOR["sinks"].values() for i in sink["inputs"]} == AGGREGATOR["sources"].keys()


def test_vector_accepts_the_aggregator(tmp_path: Path) -> None:
    program = vector_program()
    if "kafka" not in subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this vector was built without Kafka")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for name in ("ca.crt", "client.crt", "client.key", "kafka_aggregator", "clickhouse_writer"):
        (secrets / name).write_text("x")
    text = (VECTOR / "scale/aggregator.yaml").read_text().replace("/run/secrets", str(secrets))
    (tmp_path / "aggregator.yaml").write_text(text)
    done = subprocess.run(
        [program, "validate", "--no-environment", tmp_path / "aggregator.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("agent", "sinks"), [("config", "kafka.yaml"), ("spans", "kafka_spans.yaml")])
def test_vector_accepts_an_agent_that_sends_to_kafka(tmp_path: Path, agent: str, sinks: str) -> None:
    program = vector_program()
    if "kafka" not in subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this vector was built without Kafka")
    config = adapted_config(tmp_path, agent)
    for name in ("ca.crt", "client.crt", "client.key", "kafka_agent"):
        (tmp_path / "secrets" / name).write_text("x")
    text = (VECTOR / "scale" / sinks).read_text().replace("/run/secrets", str(tmp_path / "secrets"))
    # Vector wants room for the whole buffer on the disk of its folder.
    text = text.replace("max_size: 4294967296", f"max_size: {LEAST_BUFFER}")
    (config / "clickhouse.yaml").write_text(text)
    command = [program, "validate", "--no-environment", "--config-dir", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_cluster_files_are_well_formed_and_agree() -> None:
    trees = {path.name: ET.parse(path).getroot() for path in (CLUSTER / "config.d").glob("*.xml")}
    assert set(trees) == {"cluster.xml", "keeper.xml", "macros.xml", "tls.xml"}
    assert {tree.tag for tree in trees.values()} == {"clickhouse"}
    shards = trees["cluster.xml"].findall("./remote_servers/sojourn/shard")
    assert len(shards) == 2
    port = trees["tls.xml"].findtext("tcp_port_secure")
    for replica in trees["cluster.xml"].iter("replica"):
        assert (replica.findtext("port"), replica.findtext("secure")) == (port, "1")
    hosts = {host.text for host in trees["cluster.xml"].findall("./remote_servers//host")}
    keepers = {host.text for host in trees["cluster.xml"].findall("./zookeeper/node/host")}
    raft = {host.text for host in trees["keeper.xml"].iter("hostname")}
    assert keepers == raft <= hosts
    assert len(raft) % 2 == 1
    assert trees["keeper.xml"].findtext(".//tcp_port_secure") == trees["cluster.xml"].findtext("./zookeeper/node/port")
    assert not re.search(r"<(password|secret)>", "".join(path.read_text() for path in (CLUSTER / "config.d").iterdir()))


def test_the_sizes_of_the_document_are_computed() -> None:
    sys.path.insert(0, str(SIZING.parent))
    import sizing  # noqa: PLC0415

    text = (ROOT / "docs/scale.md").read_text()
    assert sizing.written(text, sizing.table(sizing.RATES)) == text
    small, large = sizing.size(1_000), sizing.size(5_000_000)
    assert large.agent_cores == pytest.approx(5_000 * small.agent_cores)
    assert large.partitions >= 2 * large.aggregators, "an aggregator without a partition has nothing to do"
    assert large.shards * large.shard_rate == pytest.approx(5_000_000)
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="positive number"):
            sizing.size(bad)
    inserts = 5_000_000 / 200_000
    assert f"{inserts:.0f} inserts/s, and each shard gets {inserts:.0f} parts/s of " in text
    assert f"{round(200_000 / large.shards, -2):,.0f} rows" in text
    measured = sizing.Measured()
    for figure in (
        f"{measured.log_bytes:.0f} B",
        f"{measured.message_bytes:.0f} B",
        *(
            f"{1e6 * cost:.1f} µs"
            for cost in (
                measured.agent_seconds,
                measured.aggregator_seconds,
                measured.insert_seconds,
                measured.merge_seconds,
                measured.rollup_seconds,
            )
        ),
        f"{measured.stored_bytes:.1f} B",
    ):
        assert figure in text
