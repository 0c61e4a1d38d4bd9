"""HAProxy's older and partial times, and the queue of an upstream of NGINX Plus and Angie PRO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from sojourn.components.expressions import component_sum
from sojourn.model.components import COMPONENTS
from sojourn.readers.formats.haproxy import PARTIAL
from sojourn.store import load

OLD = "%ci:%cp [%t] %ft %b/%s %Tq/%Tw/%Tc/%Tr/%Tt %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r"
# Of a real HAProxy 2.6, which had waited 54 ms on the connection for this request.
OLD_LINE = (
    "127.0.0.1:33666 [28/Nov/2026:23:17:30.882] old a/one 54/0/0/41/155 200 135 - - ---- 1/1/0/0/0 0/0 "
    '"GET /x?ms=40&drip=60 HTTP/1.1"'
)
PARTIAL_LINE = (
    "127.0.0.1:45190 [28/Nov/2026:23:17:31.403] asap a/one 0/0/0/41/+41 200 +115 - - ---- 1/1/1/1/0 0/0 "
    '"GET /x?ms=40&drip=60 HTTP/1.1"'
)
WHOLE_LINE = PARTIAL_LINE.replace("+41", "101").replace("+115", "135")
QUEUED = "$msec $status $request_time $upstream_queue_time $upstream_response_time $upstream_addr"


def split_of(folder: Path, form: str, *lines: str, columns: tuple[str, ...] = ("uri",)) -> Any:
    path = folder / "access.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return sojourn.split(sojourn.log_file(path, form) if form else path, columns=columns)


def row_of(folder: Path, form: str, *lines: str, columns: tuple[str, ...] = ("uri",)) -> dict[str, Any]:
    """Return the first row of a log of which no line is refused, and whose parts add up."""
    result = split_of(folder, form, *lines, columns=columns)
    assert result.records.reasons == {}
    rows = result.rows.with_columns(component_sum().alias("sum")).collect()
    assert rows.select((pl.col("sum") - pl.col("request_time")).abs().max()).item() < 1e-9
    assert rows.select(pl.min_horizontal(pl.col(name).fill_null(0.0).min() for name in COMPONENTS)).item() >= -1e-9
    return rows.row(0, named=True)


def test_idle_time_before_a_request_is_none_of_its_response_time(tmp_path: Path) -> None:
    """%Tq and %Tt begin with the accept of the connection, or with the end of the request before."""
    row = row_of(tmp_path, OLD, OLD_LINE)
    assert (row["request_time"], row["upload"], row["header"]) == (pytest.approx(0.101), 0.0, pytest.approx(0.041))
    assert row["time"].isoformat(timespec="milliseconds") == "2026-11-28T23:17:31.037+00:00"
    assert row["start"].isoformat(timespec="milliseconds") == "2026-11-28T23:17:30.936+00:00"


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("%t %ST %Th/%Ti/%TR/%Tw/%Tc/%Tr/%Td %Tt", "28/Nov/2026:23:17:30.882 200 0/50/4/0/0/41/60 155"),
        ("%t %ST %Tq/%TR/%Tw/%Tc/%Tr/%Td %Tt", "28/Nov/2026:23:17:30.882 200 54/4/0/0/41/60 155"),
        ("%t %ST %Th/%Ti/%TR/%Tw/%Tc/%Tr %Ta", "28/Nov/2026:23:17:30.882 200 0/50/4/0/0/41 105"),
        ("%tr %t %ST %TR/%Tw/%Tc/%Tr %Ta %Tt",
         "28/Nov/2026:23:17:30.932 28/Nov/2026:23:17:30.882 200 4/0/0/41 105 155"),
        ("%[request_date(ms)] %[txn.status] %[req.timer.hdr] %[req.timer.queue] %[bc.timer.connect] "
         "%[res.timer.hdr] %[txn.timer.total] %[be_name]", "1795907850932 200 4 0 0 41 105 a"),
    ],
    ids=["handshake and idle", "reading", "active time", "both instants", "expressions"],
)  # fmt: skip
def test_the_request_begins_after_the_idle_time(tmp_path: Path, form: str, line: str) -> None:
    row = row_of(tmp_path, form, line)
    assert row["start"].isoformat(timespec="milliseconds") == "2026-11-28T23:17:30.932+00:00"
    assert (row["request_time"], row["upload"]) == (pytest.approx(0.105), pytest.approx(0.004))


def test_refuses_a_session_without_the_idle_time_in_it(tmp_path: Path) -> None:
    with pytest.raises(sojourn.SojournError, match=r"request_time \(%Ta\)"):
        split_of(tmp_path, "%t %ST %Tt %Tw %Tc", "28/Nov/2026:23:17:30.882 200 155 0 0")


def test_partial_times_are_named_and_have_no_transfer(tmp_path: Path) -> None:
    for form in ("", "haproxy"):
        result = split_of(tmp_path, form, PARTIAL_LINE, PARTIAL_LINE)
        assert result.records.formats[0].notes[-1] == PARTIAL
        assert PARTIAL not in split_of(tmp_path, form, WHOLE_LINE, WHOLE_LINE).records.formats[0].notes
    form = "%tr %ST %TR/%Tw/%Tc/%Tr/%Td %Ta %B %b %s"
    partial, whole = (
        row_of(tmp_path, form, f"28/Nov/2026:23:17:32.023 200 0/0/0/41/{line} a one", columns=("response",))
        for line in ("0 +41 +115", "60 101 135")
    )
    assert (partial["header"], partial["response"]) == (pytest.approx(0.041), None)
    assert (whole["header"], whole["response"]) == (pytest.approx(0.041), pytest.approx(0.101))


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("%{+Q}o %tr %{-Q}s %ST %{-Q}HM %Ta %Tr %[capture.req.hdr(0)] %r",
         '28/Nov/2026:23:17:31.717 one 200 GET 101 41 "a "q" b" "GET /x HTTP/1.1"'),
        ("%tr %s %st %HM %Ta %Tr %{+Q}[capture.req.hdr(0)] %{+Q,+E}o %r",
         '28/Nov/2026:23:17:31.717 one 200 GET 101 41 "a "q" b" "GET /x HTTP/1.1"'),
        ("%{+Q}o %tr %ft %s %ST %tsc %Ta %Tr %[capture.req.hdr(0)] %hr %{-Q}o %HM %{+Q}r",
         '28/Nov/2026:23:17:31.717 "web~" "one" 200 ---- 101 41 "a "q" b" "{a #22q#22 b|}" GET "GET /x HTTP/1.1"'),
    ],
    ids=["everywhere but", "switched on", "switched off"],
)  # fmt: skip
def test_flags_decide_about_quotes(tmp_path: Path, form: str, line: str) -> None:
    row = row_of(tmp_path, form, line, columns=("uri", "capture_req_hdr_0", "method"))
    assert (row["uri"], row["capture_req_hdr_0"], row["method"]) == ("/x", 'a "q" b', "GET")
    assert row["request_time"] == pytest.approx(0.101)


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        # The queue beside the response, within it, of two attempts, and one that timed out.
        ("0.150 0.060 0.080 10.0.0.1:80", {"proxy_queue": 0.06, "header": 0.08, "retries": 0.0, "send": 0.01}),
        ("0.090 0.060 0.080 10.0.0.1:80", {"proxy_queue": 0.06, "header": 0.02, "retries": 0.0, "send": 0.01}),
        ("0.250 0.060, 0.010 0.080, 0.080 10.0.0.1:80, 10.0.0.2:80",
         {"proxy_queue": 0.07, "header": 0.08, "retries": 0.08, "send": 0.02}),
        ("0.170 0.060, 0.010 0.080, 0.080 10.0.0.1:80, 10.0.0.2:80",
         {"proxy_queue": 0.0, "header": 0.08, "retries": 0.08, "send": 0.01}),
        ("0.081 0.000 0.080 10.0.0.1:80", {"proxy_queue": 0.0, "header": 0.08, "retries": 0.0, "send": 0.001}),
        ("0.081 - 0.080 10.0.0.1:80", {"proxy_queue": 0.0, "header": 0.08, "retries": 0.0, "send": 0.001}),
        ("60.001 60.000 - apps", {"proxy_queue": 60.0, "header": None, "unattributed": 0.001, "send": 0.0}),
    ],
    ids=["beside", "within", "beside attempts", "within attempts", "none", "blank", "timed out"],
)  # fmt: skip
def test_the_queue_of_an_upstream(tmp_path: Path, values: str, parts: dict[str, float | None]) -> None:
    row = row_of(tmp_path, QUEUED, f"1769860800.000 {502 if ' - apps' in values else 200} {values}")
    assert {name: row[name] for name in parts} == pytest.approx(parts, abs=1e-9)


def test_the_queue_of_an_upstream_in_json_and_in_a_store(tmp_path: Path, store_dsn: str) -> None:
    line = {
        "time_iso8601": "2026-01-31T12:00:00+00:00", "status": 200, "request_time": "0.150", "request_id": "a",
        "upstream_queue_time": "0.060", "upstream_response_time": "0.080", "upstream_addr": "10.0.0.1:80",
    }  # fmt: skip
    path = tmp_path / "access.jsonl"
    path.write_text(f"{json.dumps(line)}\n")
    load(store_dsn, [path])
    for source in (path, store_dsn):
        (row,) = sojourn.split(source).rows.collect().to_dicts()
        assert (row["proxy_queue"], row["header"]) == (pytest.approx(0.06), pytest.approx(0.08))
