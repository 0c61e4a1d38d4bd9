"""Queues that servers and instrumentations report: which one a request's delay comes from, and what it is then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn

BEGIN_S = 1_767_225_600.0  # nginx builds the upstream request
FORMAT = (
    "$msec $status $request_time $upstream_addr $upstream_connect_time $upstream_header_time $upstream_response_time "
    "$request_id"
)
STAMPED = f"{FORMAT} $sojourn_start"


def log_of(folder: Path, *, header: float, response: float, stamped: bool = True, status: int = 200) -> Any:
    """A log with one request, which was connected in a millisecond."""
    stamp = f" {BEGIN_S:.3f}" if stamped else ""
    headers = "-" if status == 504 else f"{header:.3f}"
    (folder / "access.log").write_text(
        f"{BEGIN_S + response:.3f} {status} {response:.3f} 10.0.0.1:80 0.001 {headers} {response:.3f} r1{stamp}\n"
    )
    return sojourn.log_file(folder / "access.log", STAMPED if stamped else FORMAT)


def span(name: str, begin: float, end: float, kind: int = 2, parent: str = "", **attributes: float) -> dict[str, Any]:
    """A span with its begin and end in seconds after nginx built the request; double underscores are dots."""
    named = [{"key": key.replace("__", "."), "value": {"doubleValue": value}} for key, value in attributes.items()]
    identified = {"key": "http.request.header.x-request-id", "value": {"stringValue": "r1"}}
    return {
        "traceId": "0" * 31 + "1", "spanId": name.encode().hex()[:16], "parentSpanId": parent, "name": name,
        "kind": kind, "attributes": [*named, identified],
        "startTimeUnixNano": str(round((BEGIN_S + begin) * 1e9)), "endTimeUnixNano": str(round((BEGIN_S + end) * 1e9)),
    }  # fmt: skip


def spans_of(folder: Path, *spans: dict[str, Any]) -> Path:
    (folder / "spans.jsonl").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n")
    return folder / "spans.jsonl"


def only_row(log: Any, **options: Any) -> dict[str, Any]:
    columns = ("queue", "service_time", "queue_source", "network", "transfer")
    return sojourn.split(log, **options).rows.select(columns).collect().row(0, named=True)


def test_processing_of_ebpf_instrumentation_is_the_service(tmp_path: Path) -> None:
    server = span("GET", 0.1, 0.6)
    children = [
        span("in queue", 0.1, 0.25, kind=1, parent=server["spanId"]),
        span("processing", 0.25, 0.6, kind=1, parent=server["spanId"]),
    ]
    row = only_row(log_of(tmp_path, header=0.602, response=0.602), spans=spans_of(tmp_path, server, *children))
    assert row["queue_source"] == "span"
    assert row["queue"] == pytest.approx(0.25 - 0.001, abs=0.002)
    assert row["service_time"] == pytest.approx(0.35, abs=1e-6)
    alone = only_row(log_of(tmp_path, header=0.602, response=0.602), spans=spans_of(tmp_path, server))
    assert alone["queue"] == pytest.approx(0.1 - 0.001, abs=0.002)
    assert alone["service_time"] == pytest.approx(0.5, abs=1e-6)


def test_queue_of_vllm_precedes_the_headers_of_a_whole_answer(tmp_path: Path) -> None:
    request = span("llm_request", 0.01, 1.0, gen_ai__latency__time_in_queue=0.4)
    row = only_row(log_of(tmp_path, header=1.003, response=1.003), spans=spans_of(tmp_path, request))
    assert row["queue_source"] == "span"
    assert row["queue"] == pytest.approx(0.41 - 0.001, abs=0.005)
    assert row["service_time"] == pytest.approx(0.59, abs=1e-6)


def test_queue_of_vllm_behind_the_headers_of_a_stream_is_not_taken_for_a_wait_before_them(tmp_path: Path) -> None:
    request = span("llm_request", 0.01, 1.0, gen_ai__latency__time_in_queue=0.4)
    row = only_row(log_of(tmp_path, header=0.015, response=1.003), spans=spans_of(tmp_path, request))
    assert (row["queue_source"], row["queue"], row["service_time"]) == ("none", None, None)
    assert row["transfer"] == pytest.approx(0.988)


def test_delay_reported_by_sentry_counts_where_nothing_else_is_known(tmp_path: Path) -> None:
    spans = spans_of(tmp_path, span("http.server", 0.2, 0.9, http__server__request__time_in_queue=180.0))
    abandoned = only_row(log_of(tmp_path, header=0, response=0.5, stamped=False, status=504), spans=spans)
    assert (abandoned["queue_source"], abandoned["queue"]) == ("span", pytest.approx(0.18 - 0.001))
    # The start of the span counts more, and durations need no clock.
    stamped = only_row(log_of(tmp_path, header=0, response=0.5, status=504), spans=spans)
    assert (stamped["queue_source"], stamped["queue"]) == ("span", pytest.approx(0.2 - 0.0015))
    answered = only_row(log_of(tmp_path, header=0.95, response=0.95, stamped=False), spans=spans)
    assert (answered["queue_source"], answered["queue"]) == ("duration", pytest.approx(0.95 - 0.001 - 0.7))


INFERENCE = "$upstream_http_x_queue_time $upstream_http_x_inference_time $upstream_http_x_total_time"


def tgi_rows(folder: Path, form: str, *values: str, header: float = 1.99) -> pl.DataFrame:
    """The rows of requests that text-generation-inference answered with these headers."""
    lines = [f"{BEGIN_S + k:.3f} 200 2.000 10.0.0.1:80 0.001 {header:.3f} 1.990 r{k} {each}\n"
             for k, each in enumerate(values)]  # fmt: skip
    (folder / "access.log").write_text("".join(lines))
    split = sojourn.split(sojourn.log_file(folder / "access.log", f"{FORMAT} {form}"))
    return split.rows.select("queue", "service_time", "queue_source", "network").collect()


def test_queue_of_text_generation_inference_is_the_wait(tmp_path: Path) -> None:
    (row,) = tgi_rows(tmp_path, INFERENCE, "1200 700 1985").to_dicts()
    # 1985 - 1200 ms are validation and inference; 4 ms are on the way.
    assert row["queue_source"] == "duration"
    assert row["service_time"] == pytest.approx(0.785)
    assert row["queue"] == pytest.approx(1.99 - 0.001 - 0.785)


def test_inference_time_alone_leaves_validation_in_the_wait(tmp_path: Path) -> None:
    (row,) = tgi_rows(tmp_path, "$upstream_http_x_inference_time", "700").to_dicts()
    assert row["service_time"] == pytest.approx(0.7)
    assert row["queue"] == pytest.approx(1.99 - 0.001 - 0.7)


@pytest.mark.parametrize("form", [INFERENCE, INFERENCE.replace("$upstream_http_x_total_time", "$other")])
def test_sums_over_several_prompts_are_not_used(tmp_path: Path, form: str) -> None:
    rows = tgi_rows(tmp_path, form, "2400 1400 3985", "1200 700 1985")
    assert rows["queue"].is_null().to_list() == [True, False]


def test_streamed_answers_of_text_generation_inference_say_nothing(tmp_path: Path) -> None:
    (row,) = tgi_rows(tmp_path, INFERENCE, "- - -", header=0.02).to_dicts()
    assert (row["queue_source"], row["queue"], row["service_time"]) == ("none", None, None)
