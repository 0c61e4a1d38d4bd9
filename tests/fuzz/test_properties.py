"""Properties that hypothesis looks for counterexamples to, and makes small."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.readers.spans import read_spans
from sojourn.sources.traces import read_traces
from sojourn_middleware.stamp import parse_stamp

from fuzz import store_peer
from fuzz.corpus import FOLDER
from fuzz.store_peer import rows_by_store
from fuzz.targets import log_lines

seconds = st.decimals(min_value=0, max_value=10**10, places=6).map(str)
microseconds = st.integers(10**15, 10**16 - 1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(us=microseconds, blanks=st.text(" \t", max_size=3), prefix=st.sampled_from(["t=", ""]))
def test_a_stamp_is_the_same_in_every_unit(us: int, blanks: str, prefix: str) -> None:
    """Of one instant, whole microseconds: seconds, milliseconds, microseconds and nanoseconds."""
    texts = (f"{us // 10**6}.{us % 10**6:06d}", f"{us // 1000}.{us % 1000:03d}", str(us), f"{us}000")
    values = {parse_stamp(f"{blanks}{prefix}{text}{blanks}") for text in texts}
    assert values == {us}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(value=st.text(max_size=30))
def test_no_header_is_read_in_part(value: str) -> None:
    """What is a stamp holds nothing but its digits, a point, t= and blanks at its ends."""
    if isinstance(parse_stamp(value), int):
        rest = value.strip(" \t").removeprefix("t=")
        assert rest.replace(".", "", 1).isdigit()
        assert rest.isascii()


@settings(max_examples=12, deadline=None, derandomize=True)
@given(times=st.lists(seconds, min_size=1, max_size=20))
def test_a_duration_counts_to_the_microsecond_or_not_at_all(times: list[str]) -> None:
    """Upstream times below 1e9 s are whole microseconds of what is written; others are dropped."""
    lines = [json.dumps({**log_lines.SOUND, "upstream_connect_time": text}) for text in times]
    rows, _ = log_lines.read("".join(f"{line}\n" for line in lines).encode())
    for number, text in enumerate(times, 1):
        if Decimal(text) >= 10**9:
            assert (rows[number]["connect"], rows[number]["dropped"]) == (None, "invalid_upstream_time")
        else:
            assert rows[number]["connect"] == int(Decimal(text) * 10**6)


@pytest.fixture(scope="module")
def store(make_lasting_store: Callable[[], str]) -> None:
    """The store of the process that the lines are sent to."""
    store_peer.use(make_lasting_store())


@pytest.mark.parametrize("attempts", [1, 2, 3, 40_000])
def test_times_of_a_list_add_up_to_less_than_is_absurd(store: None, attempts: int) -> None:
    """However many attempts there were: the sum goes by the rule of one."""
    for each, sound in ((10**9 / attempts / 2, True), (10**9 / attempts + 1, False)):
        times = ", ".join([f"{each:.6f}"] * attempts)
        record = {**log_lines.SOUND, "upstream_addr": ", ".join(["a:1"] * attempts), "upstream_status": "200"}
        record |= {f"upstream_{name}_time": "" for name in ("connect", "header")}
        line = json.dumps({**record, "upstream_response_time": times}).encode()
        rows, refused = log_lines.read(line + b"\n")
        assert (rows[1]["dropped"] is None) == sound, refused
        (stored,) = rows_by_store([line])
        assert isinstance(stored, dict)
        assert (stored["dropped"] == "") == sound


def test_a_truth_is_no_duration() -> None:
    """``true`` is an integer to Python, and no figure of a span's to Vector's program."""
    file = FOLDER / "spans/truth-for-a-delay"
    (reported,) = read_spans([file]).to_dicts()
    (trace,) = read_traces([str(file)]).spans.to_dicts()
    assert reported["span_queueing_delay"] is reported["span_service_time"] is trace["queueing_delay"] is None
