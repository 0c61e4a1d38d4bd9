"""The configuration hangs together: nothing ends nowhere, nothing is dropped, and every row fits its table."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from vrl_support import ROOT, VECTOR, components, program_files, sink_parameters, sink_table

COMPONENTS = components()
SINKS = {name: c for name, c in COMPONENTS.items() if c["group"] == "sinks"}
STORES = {name: c for name, c in SINKS.items() if c["type"] == "http"}
REMAPS = {name: c for name, c in COMPONENTS.items() if c["type"] == "remap"}
LEAST_DISK_BUFFER = 268435488  # bytes; Vector takes no smaller one


def outputs(name: str, component: dict[str, Any]) -> set[str]:
    """What others can take from a component."""
    if component["type"] == "opentelemetry":
        return {f"{name}.logs", f"{name}.metrics", f"{name}.traces"}
    if component["type"] == "remap":
        return {name, f"{name}.dropped"}
    return {name}


def columns(table: str) -> set[str]:
    """The columns of a table that are stored and have no default, as its SQL has them."""
    text = "".join(file.read_text("utf-8") for file in sorted((ROOT / "collector" / "clickhouse").glob("0*.sql")))
    body = re.search(rf"CREATE TABLE IF NOT EXISTS {table}\$\{{local\}} [^\n]*\n\((.*?)\n\)\nENGINE", text, re.DOTALL)
    assert body, table
    lines = re.findall(r"^    ([a-z_]+) +[A-Z]\w*(.*)$", body[1], re.MULTILINE)
    for change in re.findall(rf"ALTER TABLE {table}\$\{{local\}} (.*?);\n", text, re.DOTALL):
        lines += re.findall(r"ADD COLUMN IF NOT EXISTS ([a-z_]+) +[A-Z]\w*(.*)", change)
    return {name for name, rest in lines if not re.search(r"\b(ALIAS|MATERIALIZED|DEFAULT)\b", rest)}


def produced(component: dict[str, Any]) -> set[str]:
    """The fields of the rows a program makes: the keys of the object it ends with."""
    text = "".join(file.read_text("utf-8") for file in program_files(component))
    ends = text[text.rindex("\n. = {\n") :] if "\n. = {\n" in text else text[text.index("\nrow = {") :]
    return set(re.findall(r'^    "([a-z_]+)":', ends, re.MULTILINE)) or set(
        re.findall(r'"([a-z_]+)":', ends.splitlines()[1])
    )


def test_every_output_is_taken_and_every_input_exists() -> None:
    values = {output for name, c in COMPONENTS.items() if c["group"] != "sinks" for output in outputs(name, c)}
    by_name = {name for c in COMPONENTS.values() for name in c.get("inputs", [])}
    assert by_name == values


@pytest.mark.parametrize("name", REMAPS)
def test_events_refused_by_a_program_are_kept(name: str) -> None:
    remap = REMAPS[name]
    assert [remap[option] for option in ("drop_on_error", "drop_on_abort", "reroute_dropped")] == [True] * 3
    takers = [taker for taker, c in COMPONENTS.items() if f"{name}.dropped" in c.get("inputs", [])]
    assert takers == (["lost"] if name in ("dead_letters", "pipeline_metrics") else ["dead_letters"])


@pytest.mark.parametrize("name", REMAPS)
def test_every_program_is_there_once(name: str) -> None:
    assert all(file.is_file() for file in program_files(REMAPS[name]))


def test_no_program_is_without_use() -> None:
    used = {file for remap in REMAPS.values() for file in program_files(remap)}
    assert used == set((VECTOR / "vrl").rglob("*.vrl"))


@pytest.mark.parametrize("name", STORES)
def test_a_store_sink_is_strict_and_gives_up_no_batch(name: str) -> None:
    sink = STORES[name]
    assert sink_parameters(sink)["input_format_skip_unknown_fields"] == "0"
    assert sink["framing"] == {"method": "newline_delimited"}
    assert sink["retry_strategy"] == {"type": "all"}
    assert sink["request"]["retry_attempts"] > 1e18
    assert sink["buffer"]["when_full"] == "block"
    assert sink["compression"] == "gzip"
    assert "{{" not in sink["uri"]
    assert "%" not in sink["uri"], "Vector takes it for a format of time"
    assert sink["auth"]["password"].startswith("SECRET[")


@pytest.mark.parametrize("name", STORES)
def test_file_sources_have_no_further_buffer(name: str) -> None:
    """A disk buffer loses records when the agent is killed; only what is pushed, and kept nowhere, has one."""
    sink = STORES[name]
    pushed = name == "store_spans"
    assert sink["buffer"]["type"] == ("disk" if pushed else "memory")
    assert sink["acknowledgements"] == {"enabled": name != "store_pipeline_metrics"}
    if pushed:
        assert sink["buffer"]["max_size"] >= LEAST_DISK_BUFFER


@pytest.mark.parametrize("name", STORES)
def test_a_row_has_exactly_the_columns_of_its_table(name: str) -> None:
    sink = STORES[name]
    assert len(sink["inputs"]) == 1
    built = produced(COMPONENTS[sink["inputs"][0]])
    if sink_table(sink) == "pipeline_metrics":
        built |= {"value"}
    assert built == columns(sink_table(sink))


def test_every_table_of_the_agent_has_a_sink() -> None:
    assert sorted(sink_table(sink) for sink in STORES.values()) == [
        "dead_letters", "listen_queue", "pipeline_metrics", "requests", "spans",
    ]  # fmt: skip


def test_other_sinks_only_count_or_show() -> None:
    assert {c["type"] for name, c in SINKS.items() if name not in STORES} == {"blackhole", "prometheus_exporter"}


def test_no_variable_and_no_password_in_the_files() -> None:
    for file in [*VECTOR.glob("config/*.yaml"), *VECTOR.glob("compose/*.yaml")]:
        text = file.read_text("utf-8")
        assert "${" not in text
        assert not re.search(r"(?i)password: (?!SECRET\[)", text)


def test_lines_over_a_mebibyte_reach_the_program() -> None:
    for source in ("access_log", "listen_log"):
        assert COMPONENTS[source]["max_line_bytes"] > 8 * 2**20
        assert COMPONENTS[source]["offset_key"] == "offset"
        assert COMPONENTS[source]["read_from"] == "beginning"
        assert COMPONENTS[source]["internal_metrics"]["include_file_tag"] is True


def test_the_counters_never_begin_again() -> None:
    agent = yaml.safe_load((VECTOR / "config" / "agent.yaml").read_text("utf-8"))
    assert agent["expire_metrics_secs"] < 0
    assert "acknowledgements" not in agent  # set at the sinks: for all, the source of the counters would warn


def test_a_container_listens_where_a_machine_does_but_for_all() -> None:
    machine, container = (
        yaml.safe_load((VECTOR / d / "listeners.yaml").read_text("utf-8")) for d in ("config", "compose")
    )
    assert "0.0.0.0" not in str(machine)
    assert container["api"] == machine["api"]
    assert yaml.safe_load(str(container).replace("0.0.0.0", "127.0.0.1")) == yaml.safe_load(str(machine))


def test_the_version_is_written_once() -> None:
    readme = (VECTOR / "README.md").read_text("utf-8")
    assert set(re.findall(r"\b0\.5\d\.\d+\b", readme)) == {"0.57.0"}
    assert not any("0.57" in file.read_text("utf-8") for file in VECTOR.glob("config/*.yaml"))
