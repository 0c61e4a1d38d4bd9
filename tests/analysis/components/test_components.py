"""The identity, row by row: every case of attempts and answers, and that the sum always closes."""

from __future__ import annotations

import polars as pl
import pytest
from analysis_support import frame, span, spans
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.components.expressions import REWRITTEN, component_sum
from sojourn.components.split import checked_split
from sojourn.model.components import COMPONENTS


def split_of(*rows: dict[str, object], spans: pl.DataFrame | None = None) -> list[dict[str, object]]:
    return checked_split(frame(*rows), spans).to_dicts()


def parts(row: dict[str, object]) -> dict[str, float]:
    rounded = {name: round(row[name] or 0.0, 9) for name in COMPONENTS}  # type: ignore[call-overload]
    return {name: value for name, value in rounded.items() if value}


ANSWERED = {"request_start": 0.05, "request_time": 1.0, "header": 0.9, "response": 0.92, "connect": 0.001}


def test_an_answered_request_is_split_by_its_stamp() -> None:
    # Two rows of one backend: the first waited for nothing and fixes the clock.
    free = {**ANSWERED, "app_queueing_delay": 0.001, "app_service_time": 0.898}
    busy = {**ANSWERED, "app_queueing_delay": 0.601, "app_service_time": 0.298}
    _, row = split_of(free, busy)
    assert row["queue_source"] == "stamp"
    assert row["queue"] == pytest.approx(0.6, abs=0.0011)
    assert row["queueing_delay"] == pytest.approx(row["queue"] + 0.001, abs=1e-12)
    assert row["service_time"] == 0.298
    assert row["upload"] == pytest.approx(0.05)
    assert row["transfer"] == pytest.approx(0.02)
    assert row["send"] == pytest.approx(0.03)
    assert row["queue_by_duration"] == pytest.approx(0.9 - 0.001 - 0.298)


def test_a_retry_is_not_stamped_again_so_earlier_attempts_are_taken_off() -> None:
    row = {
        "request_start": 0.0, "request_time": 3.5, "attempts": 2, "retries": 2.0, "connect": 0.0, "header": 1.5,
        "response": 1.5, "app_queueing_delay": 3.0, "app_service_time": 0.5,
    }  # fmt: skip
    assert parts(split_of(row)[0]) == {"retries": 2.0, "queue": 0.9995, "service_time": 0.5, "network": 0.0005}


def test_a_negative_delay_is_kept() -> None:
    row = {**ANSWERED, "app_queueing_delay": -0.2, "app_service_time": 0.3, "attempts": 2, "retries": 0.0}
    (result,) = split_of(row)  # two attempts: no clock estimate, nothing to correct by
    assert result["clock_offset"] is None
    assert result["queue"] == pytest.approx(-0.2015)


@pytest.mark.parametrize(("stamp", "half_tick"), [(0.05, 0.0005), (0.050123, 0.0)])
def test_a_stamp_is_half_a_tick_too_early_on_average(stamp: float, half_tick: float) -> None:
    (result,) = split_of({**ANSWERED, "request_start": stamp, "app_queueing_delay": 0.2, "attempts": 2})
    assert result["half_tick"] == half_tick
    assert result["queue"] == pytest.approx(0.2 - half_tick - 0.001)  # the measured value remains in app_queueing_delay


def test_without_a_stamp_the_durations_alone_give_the_queue() -> None:
    (row,) = split_of({"request_start": 0.0, "request_time": 0.5, "app_service_time": 0.1})
    assert row["queue_source"] == "duration"
    assert parts(row) == {"queue": 0.3, "service_time": 0.1, "send": 0.1}


def test_an_app_that_says_nothing_leaves_its_time_unattributed() -> None:
    (row,) = split_of({"request_start": 0.1, "request_time": 0.6, "connect": 0.002})
    assert (row["queue_source"], row["queue"], row["service_time"]) == ("none", None, None)
    assert parts(row) == {"upload": 0.1, "connect": 0.002, "unattributed": 0.398, "send": 0.1}


@pytest.mark.parametrize("status", [504, 499])
def test_a_request_given_up_on_is_unattributed(status: int) -> None:
    row = {"request_start": 0.0, "status": status, "header": None, "response": 60.0, "request_time": 60.0}
    assert parts(split_of(row)[0]) == {"unattributed": 60.0}


def test_an_app_header_of_an_earlier_answer_does_not_count_without_an_answer() -> None:
    row = {"request_start": 0.0, "header": None, "app_queueing_delay": 0.1, "app_service_time": 0.1, "status": 504}
    assert split_of(row)[0]["queue_source"] == "none"


def test_a_span_tells_what_became_of_a_request_given_up_on() -> None:
    """It waited 40 s, was in service for 20 s until the timeout of 60 s, and for 45 s after it."""
    row = {
        "request_id": "a", "start": 5.0, "request_start": 5.0, "status": 504, "header": None, "response": 60.0,
        "request_time": 60.0,
    }  # fmt: skip
    (result,) = split_of(row, spans=spans(span("a", 45.0, 45.0, span_route="/slow/{id}")))
    assert result["queue_source"] == "span"
    assert result["route"] == "/slow/{id}"
    assert parts(result) == {"queue": 39.9995, "service_time": 20.0005}
    assert result["wasted"] == 45.0


def test_a_request_whose_worker_began_after_the_timeout_only_waited() -> None:
    row = {
        "request_id": "b", "start": 1.0, "request_start": 1.0, "status": 504, "header": None, "response": 60.0,
        "request_time": 60.0,
    }  # fmt: skip
    (result,) = split_of(row, spans=spans(span("b", 70.0, 8.0)))
    assert parts(result) == {"queue": 60.0}
    assert result["wasted"] == 8.0


def test_the_last_span_is_that_of_the_last_attempt() -> None:
    row = {
        "request_id": "c", "start": 0.0, "request_start": 0.0, "request_time": 3.0, "attempts": 2, "retries": 2.0,
        "header": 1.0, "response": 1.0,
    }  # fmt: skip
    (result,) = split_of(row, spans=spans(span("c", 2.25, 0.7), span("c", 0.5, 5.0)))
    assert parts(result) == {"retries": 2.0, "queue": 0.2495, "service_time": 0.7, "network": 0.0505}


def test_a_span_without_a_request_id_joins_by_trace_and_parent() -> None:
    row = {"trace_id": "t", "span_id": "p", "request_start": 0.0, "start": 0.0}
    further_down = span(None, 0.2, 0.1, trace_id="t", parent_span_id="other")
    (result,) = split_of(row, spans=spans(span(None, 0.1, 0.3, trace_id="t", parent_span_id="p"), further_down))
    assert result["queue_source"] == "span"
    assert result["service_time"] == 0.3


def test_spans_with_the_same_parent_id_in_two_traces_join_their_own_request() -> None:
    """nginx sends the same parent id in every trace that it starts."""
    rows: list[dict[str, object]] = [
        {"trace_id": trace, "span_id": "p", "request_start": 0.0, "start": 0.0} for trace in ("t", "u", "v")
    ]
    reported = spans(
        span(None, 0.1, 0.2, trace_id="u", parent_span_id="p"), span(None, 0.1, 0.3, trace_id="t", parent_span_id="p")
    )
    results = split_of(*rows, spans=reported)
    assert [row["service_time"] for row in results] == [0.3, 0.2, None]


def test_a_span_never_multiplies_rows() -> None:
    rows = [{"request_id": "same", "trace_id": "same", "request_start": 0.0} for _ in range(3)]
    assert len(split_of(*rows, spans=spans(*(span("same", 0.1, 0.1, trace_id="same") for _ in range(4))))) == 3


def test_a_trusted_stamp_from_further_out_is_not_taken_for_upload() -> None:
    """The app measures from the load balancer's stamp; nginx's own instant keeps the identity about nginx."""
    row = {
        "start": 1.0, "proxy_start": 1.2, "request_start": 0.4, "request_time": 0.7, "header": 0.5, "response": 0.5,
        "app_queueing_delay": 0.9, "app_service_time": 0.4, "attempts": 2, "stamp": "inbound",
    }  # fmt: skip
    assert parts(split_of(row)[0]) == {"upload": 0.2, "queue": 0.0995, "service_time": 0.4, "network": 0.0005}


def test_a_request_never_proxied_is_the_clients_time() -> None:
    never = {"attempts": 0, "upstream": None, "connect": None, "header": None, "response": None}
    sent, read = split_of({**never, "status": 200}, {**never, "status": 408})
    assert parts(sent) == {"send": 0.5}
    assert parts(read) == {"upload": 0.5}


def test_a_cached_answer_carries_no_delay_of_its_own() -> None:
    row = {
        "attempts": 0, "upstream": None, "connect": None, "header": None, "response": None,
        "app_queueing_delay": 5.0, "app_service_time": 1.0,
    }  # fmt: skip
    (result,) = split_of(row)
    assert (result["queue"], result["service_time"], result["queue_source"]) == (None, None, "none")


def test_nginx_may_count_less_than_its_upstream() -> None:
    row = {**ANSWERED, "request_time": 0.968, "app_service_time": 0.5, "app_queueing_delay": 0.3}
    (result,) = split_of(row)
    assert result["send"] == pytest.approx(-0.002)


def test_an_attempt_that_never_got_a_time() -> None:
    row = {"status": 499, "header": None, "connect": None, "response": None, "request_start": 0.1, "request_time": 2.0}
    assert parts(split_of(row)[0]) == {"upload": 0.1, "unattributed": 1.9}


times = st.floats(min_value=-5, max_value=5000).map(lambda x: round(x, 6))
maybe = st.none() | times
rows_of_anything = st.fixed_dictionaries(
    {
        "start": st.integers(0, 10**9).map(lambda x: x / 1e3),
        "request_time": st.integers(0, 10**7).map(lambda x: x / 1e3),
        "request_start": st.none() | st.integers(0, 10**9).map(lambda x: x / 1e3),
        "proxy_start": st.none() | st.integers(0, 10**9).map(lambda x: x / 1e3),
        "status": st.sampled_from([200, 101, 499, 502, 504, 408]),
        "attempts": st.integers(0, 4),
        "retries": times,
        "connect": maybe,
        "header": maybe,
        "response": maybe,
        "app_queueing_delay": maybe,
        "app_service_time": st.none() | times.map(abs),
        "upstream": st.sampled_from(["a:1", "b:1", None]),
        "request_id": st.sampled_from(["a", "b", "c"]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows_of_anything, min_size=1, max_size=8), st.booleans())
def test_the_identity_closes_whatever_the_row(rows: list[dict[str, object]], with_spans: bool) -> None:
    reported = spans(span("a", 3.0, 2.0), span("b", 5000.0, 0.5)) if with_spans else None
    table = checked_split(frame(*rows), reported)
    errors = table.select((component_sum() - pl.col("request_time")).abs().max()).item()
    assert errors < 1e-6
    assert len(table) == len(rows)


def test_columns_of_a_record_pass_through_but_for_those_that_are_named() -> None:
    rows = frame(
        {**ANSWERED, "app_queueing_delay": 0.001, "app_service_time": 0.898, "retries": 0.1, "attempts": 2},
        {"request_time": 0.4, "status": 499, "attempts": 0, "connect": 0.1, "retries": None, "proxy_queue": None},
        {"request_time": 0.4, "status": 504, "header": None, "request_id": "a", "proxy_start": 0.0},
        {"request_start": 0.5},
    )
    split_rows = checked_split(rows, spans(span("a", 0.1, 2.0, span_route="/late")))
    names = [name for name in rows.collect_schema() if not split_rows[name].equals(rows.collect()[name])]
    assert sorted(names) == sorted(REWRITTEN)
