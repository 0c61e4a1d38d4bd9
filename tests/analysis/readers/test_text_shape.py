"""Lines of nginx's own formats are read the short way, and every figure is what the SQL makes of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.model.frame import COLUMNS
from sojourn.readers.formats.catalogue import COMBINED
from sojourn.readers.formats.from_text import format_from_text
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import RECORD
from sojourn.readers.scan import CLOCK, scan, words_of
from sojourn.readers.text_shape import scanned_text
from test_shape import check

FORMATS = {
    "timed": f"{COMBINED} $msec $request_time $upstream_addr $upstream_response_time",
    "seconds": f"{COMBINED} $request_time $upstream_response_time",
    "without a backend": f"{COMBINED} rt=$request_time",
    "address alone": f"{COMBINED} rt=$request_time ua=$upstream_addr",
    "header alone": f"{COMBINED} $request_time $upstream_header_time",
    "all": (
        '$remote_addr [$msec] "$request_method $request_uri $server_protocol" $status $bytes_sent rt=$request_time '
        'uct="$upstream_connect_time" uht="$upstream_header_time" urt="$upstream_response_time" ua="$upstream_addr" '
        "us=$upstream_status id=$request_id host=$host rl=$request_length"
    ),
    "connection": f"{COMBINED} $request_time $connection $connection_requests",
}
VALUES: dict[str, Sequence[str]] = {
    "$msec": ("1767225600.123", "1767225600", "176722560.1", "-", "", "1e9", "9999999999.999"),
    "$time_local": (
        "01/Jan/2026:00:00:07 +0000", "29/Feb/2028:23:59:59 +0530", "29/Feb/2026:00:00:00 +0000", "-",
        "31/Dec/1999:23:59:59 -0800", "1/Jan/2026:00:00:07 +0000", "01/jan/2026:00:00:07 +0000",
        "01/Jan/2026:24:00:00 +0000",
        "01/Jan/2026:00:00:60 +0000", "00/Jan/2026:00:00:00 +0000", "31/Apr/2026:00:00:00 +0000",
        "01/Jan/2026 00:00:07 +0000",
    ),
    "$request": (
        "GET /a/1234?x=1 HTTP/1.1", "GET /a", "-", "", "GET  /a HTTP/1.1", "\\x16\\x03", "GET /a b c HTTP/1.1", "é",
    ),
    "$request_uri": ("/a/1234?x=1", "/", "-", "/a#b", "/ü"),
    "$request_method": ("GET", "POST", "-"),
    "$status": ("200", "499", "504", "000", "99", "1000", "-", "2o0"),
    "$request_time": ("0.100", "0", "-", "-1", "1.2345678", "12345678901", "nan"),
    "$remote_user": ("-", "jane", "jane doe", ""),
    "$remote_addr": ("192.0.2.1", "::1", ""),
    "$http_user_agent": ("-", "Mozilla/5.0 (X; Y) [z]", 'a\\x22b', ""),
    "$body_bytes_sent": ("512", "-", "1.5", "123456789012345678901"),
    "$upstream_addr": ("10.0.0.1:80", "-", "10.0.0.1:80, 10.0.0.2:80", "unix:/run/a.sock", "a : b", ""),
    "$upstream_status": ("200", "-", "502, 200"),
    "$request_id": ("0123456789abcdef0123456789abcdef", "-", ""),
    "$connection": ("7", "-"),
    **dict.fromkeys(
        (f"$upstream_{name}_time" for name in ("connect", "header", "response")),
        ("0.050", "-", "0.1, 0.2", "", "-0.1", "0.1 : -"),
    ),
}  # fmt: skip
ORDINARY = {name: values[0] for name, values in VALUES.items()}


def line_of(text: str, changes: dict[str, str], number: int = 0) -> str:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    own = {"$time_local": f"{at:%d/%b/%Y:%H:%M:%S +0000}", "$msec": f"{at.timestamp():.3f}"}
    values = {**ORDINARY, "$request_id": f"{number:032x}", **own, **changes}
    values |= {"$server_protocol": "HTTP/1.1", "$http_referer": "-", "$host": "shop", "$bytes_sent": "77"}
    values |= {"$request_length": "77", "$connection_requests": "77"}
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(name, values[name])
    return text


@pytest.mark.parametrize("name", FORMATS)
def test_every_value_of_every_variable(name: str, tmp_path: Path) -> None:
    text = FORMATS[name]
    lines = [line_of(text, {}, number) for number in range(1_500)]
    lines += [line_of(text, {variable: value}, 1) for variable, values in VALUES.items() for value in values]
    lines += [
        "",
        "no such line",
        line_of(text, {}, 3) + " ",
        line_of(text, {}, 4) + "\r",
        line_of(text, {}, 5) + " more",
    ]
    lines += lines[:20]
    random.Random(1).shuffle(lines)
    log = tmp_path / "access.log"
    log.write_text("\n".join(lines) + "\n")
    check(log)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_any_values_together(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    text = FORMATS[name]
    lines = [line_of(text, {}, number) for number in range(600)]
    variables = [variable for variable in VALUES if variable in text]
    changes = st.fixed_dictionaries({}, optional={each: st.sampled_from(VALUES[each]) for each in variables})
    lines += [line_of(text, changed, 7) for changed in data.draw(st.lists(changes, max_size=60))]
    log = tmp_path_factory.mktemp("log") / "access.log"
    log.write_text("\n".join(lines) + "\n")
    check(log)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "connection"])
def test_nearly_all_lines_go_the_short_way(name: str, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("".join(line_of(FORMATS[name], {}, number) + "\n" for number in range(900)))
    inputs = opened_inputs([log])
    (block,) = blocks_of_lines(inputs.logs[0])
    result = scanned_text(block, (*COLUMNS, RECORD), format_from_text(FORMATS[name]))
    inputs.close()
    assert result is not None
    assert (len(result[0]), len(result[1])) == (900, 0)


@settings(deadline=None)
@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)), st.integers(-14 * 4, 14 * 4))
def test_instants_of_the_common_log_format(at: datetime, quarters: int) -> None:
    moment = at.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=15 * quarters)))
    assert clock(f"{moment:%d/%b/%Y:%H:%M:%S %z}") == round(moment.timestamp() * 1e6)


def clock(text: str) -> int:
    data = np.frombuffer(text.encode() + b"\n", np.uint8)
    numbers, nothing = np.zeros((1, 1), np.int64), np.zeros(0, np.uint8)
    scan(
        data, words_of(data), np.array([0, len(data)], np.int32), nothing, words_of(nothing),
        np.array([0, 0], np.int32), np.array([10], np.uint8), np.zeros(1, np.int32), np.array([CLOCK], np.int32), False,
        np.zeros((1, 2, 2), np.int32), numbers, np.zeros((2, 1), np.int64),
    )  # fmt: skip
    return int(numbers[0, 0])
