"""Internal redirects in nginx's lists of attempts, read by both ways of the reader."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import sojourn
from sojourn.readers.internal_redirects import redirect_times
from sojourn.sources.log_files import with_log_format

FORMAT = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" '
    "$msec $request_time $upstream_addr $upstream_response_time $upstream_status"
)
CASES = [
    # statuses, response times, seconds before internal redirects
    ("200 : 200", "0.300 : 0.100", 0.3),
    ("302 : 200", "0.300 : 0.100", 0.3),
    ("502, 200", "0.300, 0.100", 0.0),
    ("502 : 200", "0.300 : 0.100", 0.0),  # error_page after a failed attempt
    ("404 : 200", "0.300 : 0.100", 0.0),
    ("502, 200 : 200", "0.300, 0.200 : 0.100", 0.2),
    ("504, 504, 200", "0.300, 0.200, 0.100", 0.0),
    ("200", "0.300", 0.0),
    ("200 : 200", "- : 0.100", 0.0),
    ("-", "-", 0.0),
    ("", "0.300 : 0.100", 0.0),  # without statuses it is unknown
    ("200", "0.300 : 0.100", 0.0),  # a list of another length says nothing
]


@pytest.mark.parametrize(("status", "response", "seconds"), CASES)
def test_time_before_redirects(status: str, response: str, seconds: float) -> None:
    times = redirect_times(pl.Series([status]), pl.Series([response]))
    assert times.to_list() == [round(seconds * 1e6)]


def test_unknown_values_are_no_redirects() -> None:
    assert redirect_times(pl.Series([None, "200 : 200"]), pl.Series([None, None], dtype=pl.String)).to_list() == [0, 0]


def _addresses(response: str) -> str:
    for number, part in enumerate(("0.300", "0.200", "0.100", "0.800", "-"), 1):
        response = response.replace(part, f"10.0.0.{number}:80")
    return response


def _json(status: str, response: str) -> str:
    addresses = _addresses(response)
    return (
        f'{{"time":"1767225600.500","request_time":"0.900","status":"200","upstream_addr":"{addresses}",'
        f'"upstream_status":"{status}","upstream_response_time":"{response}"}}\n'
    )


def _text(status: str, response: str) -> str:
    addresses = _addresses(response)
    request = '198.51.100.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"'
    return f"{request} 1767225600.500 0.900 {addresses} {response} {status}\n"


@pytest.mark.parametrize("line", [_json, _text])
def test_reader_finds_them(tmp_path: Path, line) -> None:  # type: ignore[no-untyped-def]
    sound = [case for case in CASES if case[0] and case[1] != "-" and case[0].count(" ") == case[1].count(" ")]
    log = tmp_path / "access.log"
    log.write_text("".join(line(status, response) for status, response, _ in sound) * 3)
    rows = (
        sojourn.read(with_log_format([str(log)], None if line is _json else FORMAT))
        .rows.select("redirects", "retries")
        .collect()
    )
    assert rows["redirects"].to_list() == pytest.approx([seconds for _, _, seconds in sound] * 3)
    assert (rows["redirects"] <= rows["retries"]).all()


def test_verdict_does_not_say_that_they_failed(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_text(_json("200 : 200", "0.300 : 0.100") * 500 + _json("200", "0.100") * 20)
    result = sojourn.split(log)
    assert result.verdict.cause == "unknown"
    assert any("internal redirect" in note for note in result.notes)
    log.write_text(_json("502, 200", "0.800, 0.100") * 500)
    assert sojourn.split(log).verdict.cause == "retries"
