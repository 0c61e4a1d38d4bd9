"""The packet sequence chart: arrows, shaded queues and figures agree with the request."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from sojourn.analyses.pcap.charts_packet_request import Sequence, sequence_of
from sojourn.analyses.pcap.charts_packet_spans import Span
from sojourn.analyses.pcap.charts_packets import example_rows, packet_sequence
from sojourn.present.pictures import Drawings
from sojourn.present.section import Picture
from timeline_builder import TimelineBuilder


def sequence(produced: TimelineBuilder, row: int = 0, *, connections: bool = True) -> Sequence:
    frames = produced.frames()
    return sequence_of(frames[0], row, *(frame if connections else frame.clear() for frame in frames[1:]))


def one(**how: Any) -> TimelineBuilder:
    produced = TimelineBuilder()
    produced.request(**how)
    return produced


def spans(sequence: Sequence, kind: str, *, at_proxy: bool = False) -> list[Span]:
    return [span for span in sequence.spans if span.kind == kind and span.at_proxy == at_proxy]


def svg(produced: TimelineBuilder, row: int = 0) -> str:
    frames = produced.frames()
    return str(Drawings().of(Picture("p", "t", "c", lambda: packet_sequence(frames[0], row, *frames[1:]))).svg)


def data(produced: TimelineBuilder, mark: str) -> list[dict[str, Any]]:
    """The values behind every layer of that mark."""
    frames = produced.frames()
    chart = packet_sequence(frames[0], 0, *frames[1:]).to_dict()
    layers = [layer for layer in chart["vconcat"][0]["layer"] if layer["mark"]["type"] == mark]
    return [value for layer in layers for value in chart["datasets"].get(layer["data"].get("name"), [])] or [
        value for layer in layers for value in layer["data"]["values"]
    ]


def test_packets_are_in_the_order_of_time_with_both_sides() -> None:
    result = sequence(one(handshake=0.05, wait=300, service=20))
    assert [step.at for step in result.steps] == sorted(step.at for step in result.steps)
    labels = [(step.where, step.label) for step in result.steps if step.label]
    assert labels[:5] == [
        ("client", "SYN"), ("client", "SYN-ACK"), ("client", "ACK"), ("client", "GET /orders"), ("backend", "SYN"),
    ]  # fmt: skip
    assert labels[-4:] == [
        ("backend", "answer 200"), ("backend", "last byte"), ("client", "answer 200"), ("client", "last byte"),
    ]  # fmt: skip
    assert (result.client, result.backend) == ("10.0.0.9:51234", "10.0.0.2:8001")
    assert not any(step.lost for step in result.steps)


def test_a_known_start_gives_the_exact_wait() -> None:
    result = sequence(one(handshake=0.05, wait=300, service=20))
    (queue,), (service,) = spans(result, "accept_queue"), spans(result, "service")
    assert (queue.length, queue.begin, queue.end) == (300_000_000, "backend_established", "app_start")
    assert "300.0 ms" in queue.label
    assert service.length == 20_000_000
    assert spans(result, "accept_queue_at_most") == []
    (syn,) = spans(result, "syn_queue")
    assert syn.length == 50_000


def test_without_a_start_the_lower_bound_is_drawn_over_the_upper_bound() -> None:
    result = sequence(one(wait=300, service=20, reports_start=False, acks_dropped=1))
    (most,), (least,) = spans(result, "accept_queue_at_most"), spans(result, "accept_queue")
    assert most.length == pytest.approx(1_300_060_000, abs=10)
    assert least.length == pytest.approx(1_000_000_000, abs=10)
    assert "1,000 … 1,300 ms" in most.label
    assert (most.end, least.end) == ("latest_start", "backend_ack_taken")
    assert "1 × SYN-ACK again" in spans(result, "syn_queue")[0].label
    # They are next to the SYN queue, which the connection had not left.
    assert (most.column, least.column, spans(result, "syn_queue")[0].column) == (1, 1, 0)
    assert "or earlier" in spans(result, "service")[0].label


def test_an_unknown_service_time_is_within_the_bound() -> None:
    produced = one(wait=300, service=20, reports_start=False)
    row = produced.timeline[0]
    row["accept_wait_upper"] = (row["backend_response_first"] - row["backend_established"]) / 1e9
    (most,) = spans(sequence(produced), "accept_queue_at_most")
    assert most.label == "accept queue\n0 … 320.1 ms,\nservice time included"
    assert spans(sequence(produced), "service") == []


@pytest.mark.parametrize(("count", "text"), [(1, "1 SYN without an answer"), (3, "3 SYNs without an answer")])
def test_unanswered_syns_end_in_a_cross_and_are_counted(count: int, text: str) -> None:
    produced = one(dropped=count)
    result = sequence(produced)
    (dropped,) = spans(result, "dropped")
    assert dropped.length == count * 1_000_000_000
    assert dropped.label.startswith(text)
    assert [step.key for step in result.steps if step.lost] == ["backend_syn"]
    again = next(step for step in result.steps if step.key == "backend_syn_answered")
    assert again.label == ("SYN again" if count == 1 else "SYN, the 4th")
    # Only SYNs in the frames are drawn: the times of the others are unknown.
    assert sum(mark["shape"].startswith("M") for mark in data(produced, "point")) == 1
    (unknown,) = spans(sequence(produced, connections=False), "dropped")
    assert unknown.label.startswith("SYNs without")


def test_the_proxys_queues_are_bounded_by_nginxs_clock_if_it_is_earlier() -> None:
    produced = one(handshake=0.05)
    (most,) = spans(sequence(produced), "accept_queue_at_most", at_proxy=True)
    assert (most.begin, most.end, most.length) == ("client_established", "backend_syn", 130_000)
    timeline = produced.frames()[0]
    late = timeline.with_columns(
        pl.col("backend_syn", "backend_syn_answered") + timedelta(milliseconds=50),
        nginx_start=pl.col("client_established") + timedelta(milliseconds=2),
    )
    (most,) = spans(sequence_of(late, 0, *produced.frames()[1:]), "accept_queue_at_most", at_proxy=True)
    # The log truncates milliseconds: nginx read the byte before the end of that millisecond.
    assert (most.end, most.length) == ("nginx_start", 3_000_000)


def test_a_kept_connection_has_no_handshake_and_the_wait_is_for_the_app() -> None:
    result = sequence(one(keepalive=True, wait=12))
    assert not [step for step in result.steps if "SYN" in step.label]
    (wait,) = spans(result, "waiting")
    assert "waiting for the app\n12.0 ms" in wait.label
    assert [span.kind for span in result.spans if span.at_proxy] == ["proxy"]


def test_title_names_the_attempt_that_is_drawn() -> None:
    produced = one(status=502)
    assert sequence(produced).title == "GET /orders → 502"
    produced.timeline[0]["attempts"] = 3
    assert sequence(produced).title == "GET /orders → 502, the last of 3 attempts"


def test_an_app_that_starts_before_the_handshake_ends_is_drawn_unchanged() -> None:
    """With different clocks the wait is negative and not clamped."""
    produced = one(wait=-0.02, service=1)
    (queue,) = spans(sequence(produced), "accept_queue")
    assert (queue.length, queue.label) == (-20_000, "accept queue\n-0.020 ms")
    assert "NaN" not in svg(produced)


def test_a_single_side_is_drawn() -> None:
    assert {step.where for step in sequence(one(backend_leg=False)).steps} == {"client"}
    assert {step.where for step in sequence(one(client_leg=False)).steps} == {"backend", "app"}
    for how in ({"backend_leg": False}, {"client_leg": False}):
        assert "<svg" in svg(one(**how))


def test_a_reset_is_drawn_from_the_side_that_sent_it() -> None:
    result = sequence(one(end="reset_by_server"))
    (reset,) = [step for step in result.steps if "RST" in step.label]
    assert not reset.to_server
    assert reset == result.steps[-1]
    (reset,) = [step for step in sequence(one(end="reset_by_client")).steps if "RST" in step.label]
    assert reset.to_server


def test_both_a_short_handshake_and_a_long_gap_have_room() -> None:
    """Both 50 µs and 3 s are visible: every packet has its line, and longer periods are longer."""
    bars = {bar["kind"]: bar["until"] - bar["y"] for bar in data(one(dropped=3, wait=300), "rect") if "kind" in bar}
    assert bars["syn_queue"] >= 40
    assert bars["dropped"] > bars["accept_queue"] > bars["syn_queue"]
    assert bars["dropped"] < 150
    times = [text["text"] for text in data(one(dropped=3, wait=300), "text")]
    assert {"0.000", "0.025", "0.180", "3,000.180"} <= set(times)


def test_the_longest_span_is_bold() -> None:
    bold = [text["text"] for text in data(one(dropped=1, wait=30), "text") if text.get("bold")]
    assert bold == ["1 SYN without an answer\n1,000 ms"]


def test_control_characters_are_removed_and_long_texts_cut() -> None:
    produced = one(path="/\x1b[31m\x00<script>" + "é" * 500)
    produced.timeline[0]["client"] = "[" + "fe80:" * 12 + "]:80"
    drawn = svg(produced)
    assert "\x1b" not in drawn
    assert "<script>" not in drawn
    assert "…" in drawn


def test_the_longest_and_the_median_request_are_shown() -> None:
    produced = TimelineBuilder()
    for wait in (5, 1, 900, 2, 4):
        produced.request(wait=wait)
    produced.request(dropped=1, wait=0.1)
    produced.request(wait=5_000, client_leg=False)
    (longest, remark), (middle, other) = example_rows(produced.frames()[0])
    assert (longest, middle) == (5, 4)  # the SYN counts; a request on one side only does not
    assert remark == "the longest queue before the app of 6 requests"
    assert other == "the median queue before the app of 6 requests, for comparison"


def test_incomplete_requests_are_shown_if_none_is_complete() -> None:
    assert example_rows(TimelineBuilder().frames()[0]) == []
    assert example_rows(one(client_leg=False).frames()[0]) == [(0, "the longest queue before the app of 1 request")]
    assert example_rows(one(keepalive=True).frames()[0])[0][1].startswith("the longest wait for the backend")
    assert example_rows(one(backend_leg=False).frames()[0])[0][1].startswith("the longest wait for an answer")


def test_a_request_without_an_answer_or_a_head_is_drawn() -> None:
    produced = one(reports_start=False)
    for name in ("method", "path", "status", "response_first", "response_last", "backend_response_first",
                 "backend_response_last", "accept_wait_upper"):  # fmt: skip
        produced.timeline[0][name] = None
    result = sequence(produced)
    assert result.title == "a request without a visible head → no answer"
    assert result.steps[-1].label == "request (head not seen)"
    assert "<svg" in svg(produced)
