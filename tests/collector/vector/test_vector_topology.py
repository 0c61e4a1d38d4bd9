"""The configuration hangs together: nothing ends nowhere, nothing is dropped, and every table gets its lines."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hostile_lines import LONGEST
from sojourn.store.schema import schema_files
from vector_config import VECTOR, components, sink_parameters, sink_table

FOLDERS = ("config", "spans")  # an agent each
BY_AGENT = {name: components(VECTOR / name) for name in FOLDERS}
COMPONENTS = {name: c for each in BY_AGENT.values() for name, c in each.items()}
SINKS = {name: c for name, c in COMPONENTS.items() if c["group"] == "sinks"}
STORES = {name: c for name, c in SINKS.items() if c["type"] == "http"}
LEAST_DISK_BUFFER = 268435488  # bytes; Vector takes no smaller one
OF_LINES = ("store_lines", "store_listen_queue", "store_log_files")
OF_METRICS = ("store_pipeline_metrics", "store_spans_agent_metrics")
OF_EVENTS = ("store_spans", *OF_METRICS)


def outputs(name: str, component: dict[str, Any]) -> set[str]:
    """What others can take from a component."""
    if component["type"] == "opentelemetry":
        return {f"{name}.logs", f"{name}.metrics", f"{name}.traces"}
    return {name}


def columns(table: str) -> set[str]:
    """The columns of a table, as its SQL has them."""
    (file,) = (each for each in schema_files() if each.name == f"tables/{table}")
    body = re.search(r"\n\((.*?)\n\)\nENGINE", file.text, re.DOTALL)
    assert body, table
    return set(re.findall(r"^    ([a-z_]+) +[A-Z]\w*", body[1], re.MULTILINE))


@pytest.mark.parametrize("agent", FOLDERS)
def test_every_output_is_taken_and_every_input_exists(agent: str) -> None:
    parts = BY_AGENT[agent]
    values = {output for name, c in parts.items() if c["group"] != "sinks" for output in outputs(name, c)}
    by_name = {name for c in parts.values() for name in c.get("inputs", [])}
    assert by_name == values


def test_the_agents_share_no_name_no_address_and_no_folder() -> None:
    """Counters of two components with one name and one host would be one counter; a folder has one process."""
    assert len(COMPONENTS) == sum(map(len, BY_AGENT.values()))
    texts = {name: "".join(f.read_text("utf-8") for f in (VECTOR / name).glob("*.yaml")) for name in FOLDERS}
    ports = {name: set(re.findall(r"127\.0\.0\.1:(\d+)", text)) for name, text in texts.items()}
    assert not ports["config"] & ports["spans"]
    folders = {name: re.findall(r"(?m)^data_dir: (\S+)$", text) for name, text in texts.items()}
    assert folders == {"config": ["/var/lib/vector"], "spans": ["/var/lib/vector-spans"]}
    assert not [name for name, c in BY_AGENT["config"].items() if c["type"] == "opentelemetry"]
    assert not [name for name, c in BY_AGENT["spans"].items() if c["type"] == "file"]


def test_lines_are_not_parsed() -> None:
    """One program of one statement, the length of the line; an event that it cannot handle passes unchanged."""
    remaps = [c for c in COMPONENTS.values() if c["type"] == "remap"]
    assert len(remaps) == len(OF_LINES)
    for remap in remaps:
        assert set(remap) == {"type", "inputs", "source", "group", "config_file"}
        assert remap["source"] == ".line_bytes = length(string!(.line)) + 1"
    assert {c["type"] for c in COMPONENTS.values() if c["group"] == "transforms"} == {
        "remap", "metric_to_log", "trace_to_log",
    }  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_a_store_sink_gives_up_no_batch(name: str) -> None:
    sink = STORES[name]
    assert len(sink["inputs"]) == 1
    assert sink["framing"] == {"method": "newline_delimited"}
    assert sink["retry_strategy"] == {"type": "all"}
    assert sink["request"]["retry_attempts"] > 1e18
    assert sink["buffer"]["when_full"] == "block"
    assert sink["compression"] == "zstd"
    assert "{{" not in sink["uri"]
    assert "%" not in sink["uri"], "Vector takes it for a format of time"
    assert sink["auth"]["password"].startswith("SECRET[")


@pytest.mark.parametrize("name", OF_LINES)
def test_fields_of_a_line_are_columns(name: str) -> None:
    sink = STORES[name]
    assert sink_parameters(sink)["query"].endswith(" FORMAT JSONEachRow")
    assert sink_parameters(sink)["input_format_skip_unknown_fields"] == "1"
    (transform,) = sink["inputs"]
    (source,) = COMPONENTS[transform]["inputs"]
    agent = yaml.safe_load((VECTOR / "config" / "agent.yaml").read_text("utf-8"))
    fields = {agent["log_schema"]["message_key"], COMPONENTS[source]["offset_key"], "file", "host", "line_bytes"}
    assert fields == columns(sink_table(sink)) - {"redact"}
    assert sink["encoding"] == {"codec": "json", "except_fields": ["source_type", "timestamp"]}


@pytest.mark.parametrize("name", OF_EVENTS)
def test_an_event_is_a_line(name: str) -> None:
    sink = STORES[name]
    table = sink_table(sink)
    assert sink_parameters(sink)["query"] == f"INSERT INTO {table} (line) FORMAT LineAsString"
    assert sink["encoding"] == {"codec": "json"}
    assert "line" in columns(table)


@pytest.mark.parametrize("name", STORES)
def test_file_sources_have_no_further_buffer(name: str) -> None:
    """A disk buffer loses records when the agent is killed; only what is pushed, and kept nowhere, has one."""
    sink = STORES[name]
    pushed = name == "store_spans"
    assert sink["buffer"]["type"] == ("disk" if pushed else "memory")
    assert sink["acknowledgements"] == {"enabled": name not in OF_METRICS}
    if pushed:
        assert sink["buffer"]["max_size"] >= LEAST_DISK_BUFFER


def test_every_table_for_lines_has_a_sink() -> None:
    assert STORES.keys() == {*OF_LINES, *OF_EVENTS}
    assert sorted(sink_table(sink) for sink in STORES.values()) == [
        "incoming", "incoming_listen_queue", "incoming_log_files",
        "incoming_pipeline_metrics", "incoming_pipeline_metrics", "incoming_spans",
    ]  # fmt: skip


def test_other_sinks_only_count_or_show() -> None:
    assert {c["type"] for name, c in SINKS.items() if name not in STORES} == {"blackhole", "prometheus_exporter"}


def test_no_variable_and_no_password_in_the_files() -> None:
    for file in [file for folder in (*FOLDERS, "compose") for file in VECTOR.glob(f"{folder}/*.yaml")]:
        text = file.read_text("utf-8")
        assert "${" not in text
        assert not re.search(r"(?i)password: (?!SECRET\[)", text)


def test_every_line_up_to_16_mib_is_sent() -> None:
    for source in ("access_log", "listen_log", "log_files_log"):
        assert COMPONENTS[source]["max_line_bytes"] == LONGEST >= 2**24
        # A row of an insert may have ten times min_chunk_bytes_for_parallel_parsing. A byte is up to six of JSON.
        assert 6 * LONGEST + 10_000 < 100 * 2**20
        assert COMPONENTS[source]["offset_key"] == "position"
        assert COMPONENTS[source]["read_from"] == "beginning"
        assert COMPONENTS[source]["internal_metrics"]["include_file_tag"] is True


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_counters_never_begin_again(folder: str) -> None:
    agent = yaml.safe_load((VECTOR / folder / "agent.yaml").read_text("utf-8"))
    assert agent["expire_metrics_secs"] < 0
    assert "acknowledgements" not in agent  # set at the sinks: for all, the source of the counters would warn


@pytest.mark.parametrize(("folder", "file"), [("config", "listeners.yaml"), ("spans", "spans_listeners.yaml")])
def test_a_container_listens_where_a_machine_does_but_for_all(folder: str, file: str) -> None:
    machine, container = (
        yaml.safe_load((VECTOR / path).read_text("utf-8")) for path in (f"{folder}/listeners.yaml", f"compose/{file}")
    )
    assert "0.0.0.0" not in str(machine)
    assert container["api"] == machine["api"]
    assert yaml.safe_load(str(container).replace("0.0.0.0", "127.0.0.1")) == yaml.safe_load(str(machine))


def test_the_version_is_written_once() -> None:
    readme = (VECTOR / "README.md").read_text("utf-8")
    assert set(re.findall(r"\b0\.5\d\.\d+\b", readme)) == {"0.57.0"}
    assert not any("0.57" in file.read_text("utf-8") for f in FOLDERS for file in VECTOR.glob(f"{f}/*.yaml"))
