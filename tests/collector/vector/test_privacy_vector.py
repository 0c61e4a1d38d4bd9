"""What the agent sends is redacted by the store, unless the queries of its sinks are those of the page on privacy."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from clickhouse_http import StandIn
from collector_support import eventually
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from vector_config import ROOT, VECTOR
from vector_run import Vector, vector_program

pytest.importorskip("chdb")

ARRIVES_S = 60
LINE = {
    "time": "1767225600.123", "request_time": "0.25", "status": "200", "uri": "/login?token=x",
    "remote_addr": "203.0.113.77",
}  # fmt: skip
ATTRIBUTES = {"url.query": "token=x", "client.address": "203.0.113.77", "url.full": "https://shop.example/a?token=x"}


def config(folder: Path, agent: str, *, redacted: bool) -> list[Path]:
    """The configuration of an agent; not redacted: with the sinks that the page on privacy has."""
    files = sorted((VECTOR / agent).glob("*.yaml"))
    if redacted:
        return files
    page = (ROOT / "docs" / "how-to" / "privacy.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(sinks:\n.*?)```", page, re.DOTALL)
    store = yaml.safe_load((VECTOR / agent / "clickhouse.yaml").read_text("utf-8"))
    options = yaml.safe_load(block)["sinks"]
    assert options.keys() & store["sinks"].keys()
    for name, sink in store["sinks"].items():
        sink.update(options.get(name, {}))
    target = folder / agent
    target.mkdir()
    (target / "clickhouse.yaml").write_text(yaml.safe_dump(store))
    return [*(file for file in files if file.name != "clickhouse.yaml"), target / "clickhouse.yaml"]


def send_span(endpoint: str) -> None:
    """Send one span with ``ATTRIBUTES``."""
    export = ExportTraceServiceRequest()
    span = export.resource_spans.add().scope_spans.add().spans.add()
    span.name, span.trace_id, span.span_id = "GET", b"1" * 16, b"1" * 8
    span.start_time_unix_nano = span.end_time_unix_nano = 1_767_225_600_000_000_000
    for key, value in ATTRIBUTES.items():
        span.attributes.add(key=key).value.string_value = value
    request = urllib.request.Request(
        f"{endpoint}/v1/traces", export.SerializeToString(), {"Content-Type": "application/x-protobuf"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def span_arrived(agent: Vector, store: StandIn) -> bool:
    """Whether the span is stored; it is sent again each time: Vector's disk buffer can hold an event until the next."""
    send_span(agent.otlp)
    return bool(store.ask("SELECT 1 FROM spans"))


@pytest.mark.parametrize("redacted", [True, False])
def test_the_store_redacts_unless_the_query_says_otherwise(
    tmp_path: Path, store_in: Callable[[Path], StandIn], *, redacted: bool
) -> None:
    vector_program()
    with store_in(tmp_path) as store:
        files, of_spans = (config(tmp_path, name, redacted=redacted) for name in ("config", "spans"))
        with (
            Vector(tmp_path / "agent", store.url, files) as agent,
            Vector(tmp_path / "of-spans", store.url, of_spans) as spans_agent,
        ):
            (agent.logs / "access.jsonl").write_text(json.dumps(LINE) + '\nGET /a?token=x "203.0.113.77"\n')
            for table in ("requests", "dead_letters"):
                eventually(lambda table=table: store.ask(f"SELECT 1 FROM {table}"), f"a row of {table}", ARRIVES_S)
            eventually(lambda: span_arrived(spans_agent, store), "a row of spans", ARRIVES_S)
        (request,) = store.ask("SELECT uri, remote_addr, source FROM requests")
        (letter,) = store.ask("SELECT raw, position FROM dead_letters")
        (span,) = store.ask("SELECT attributes FROM spans FINAL")
    assert request["source"].endswith(f":{agent.logs / 'access.jsonl'}")
    assert letter["position"] == len(json.dumps(LINE)) + 1
    values = (request["uri"], request["remote_addr"], letter["raw"], span["attributes"])
    if redacted:
        attributes = {"client.address": "203.0.113.0", "url.full": "https://shop.example/a"}
        assert values == ("/login", "203.0.113.0", 'GET /a? "203.0.113.0"', attributes)
    else:
        assert values == ("/login?token=x", "203.0.113.77", 'GET /a?token=x "203.0.113.77"', ATTRIBUTES)
