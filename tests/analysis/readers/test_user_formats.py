"""Formats that the user states: any text of nginx's variables, units, and what is said where the log contradicts it."""

from __future__ import annotations

import functools
import io
import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
import sojourn
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.readers.blocks import reading_engine
from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.dividing import divided
from sojourn.readers.formats.fields import UNITS
from sojourn.readers.formats.from_text import format_from_text
from sojourn.readers.formats.json_template import json_values
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.template import EVERY_ELEMENT, joined_path, path_keys
from sojourn.readers.formats.units import units_from_text, with_units
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import records_query
from sojourn.readers.text_shape import scanned_text
from sojourn.sources.log_files import format_of_text

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
COLUMNS = (
    "time", "status", "request_time", "upstream", "upstream_addr", "upstream_status", "attempts", "retries", "connect",
    "header", "response", "bytes_sent", "request_id",
)  # fmt: skip
LONG_S = 5.0  # of processor time


def written(folder: Path, lines: Sequence[str]) -> Path:
    path = folder / "access.log"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    return path


def read(folder: Path, text: str, lines: Sequence[str], columns: Sequence[str] = COLUMNS) -> sojourn.Requests:
    return sojourn.read(sojourn.log_file(written(folder, lines), text), columns=columns)


def rows(folder: Path, text: str, lines: Sequence[str], columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    requests = read(folder, text, lines, columns)
    assert requests.records.reasons == {}
    return requests.rows.collect().to_dicts()


# ---- Random formats of nginx's variables

escapes = st.sampled_from(("default", "json", "none"))
# Without quotes, a text that holds a number or - could be the value of another variable.
bare_texts = st.text(st.sampled_from("ab \"'\\é]|,:{}=/$%"), max_size=12).map(str.strip)
quoted_texts = st.text(st.sampled_from("ab 019.-\"'\\é\t\x01]|,:{}=/$%"), max_size=15)
raw_quoted_texts = st.text(st.sampled_from("ab \"'\\é]|,:{}=/$%"), max_size=15).filter(lambda text: '" ' not in text)
addresses = st.sampled_from(("10.0.0.1:80", "[2001:db8::1]:8080", "unix:/run/app.sock", "app"))
milliseconds = st.integers(0, 10**7).map(lambda number: f"{number / 1000:.3f}")
TEXTS = ("http_user_agent", "http_x_forwarded_for", "request", "request_body", "cookie_a", "args", "geoip_city")
LISTS = ("upstream_addr", "upstream_status", "upstream_connect_time", "upstream_header_time", "upstream_response_time")
REQUIRED = ("msec", "status", "request_time")
OTHERS = ("body_bytes_sent", "request_id", "remote_addr", "scheme")


@st.composite
def lists(draw: st.DrawFn) -> dict[str, str]:
    """The values of nginx's upstream variables for some attempts, or none."""
    count = draw(st.integers(0, 3))
    if not count:
        return dict.fromkeys(LISTS, "-")
    joins = [draw(st.sampled_from((", ", " : "))) for _ in range(count - 1)] + [""]
    kinds = (addresses, st.sampled_from(("200", "502", "-")), *(st.one_of(milliseconds, st.just("-")),) * 3)
    values = [[draw(kind) for _ in range(count)] for kind in kinds]
    return {
        name: "".join(map("".join, zip(each, joins, strict=True))) for name, each in zip(LISTS, values, strict=True)
    }


@st.composite
def requests(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> dict[str, str]:
    number = draw(st.integers(0, 10**9))
    return {
        "msec": f"{1_769_860_800 + number / 1000:.3f}", "request_time": draw(milliseconds),
        "status": str(draw(st.integers(100, 599))), "body_bytes_sent": str(draw(st.integers(0, 10**6))),
        "request_id": f"{draw(st.integers(0, 2**128 - 1)):032x}",
        "remote_addr": draw(st.sampled_from(("::1", "10.1.2.3"))), "scheme": draw(st.sampled_from(("http", "https"))),
        **draw(lists()),
        **{name: draw(texts) for name in TEXTS},
    }  # fmt: skip


def escaped(text: str, escape: str) -> str:
    """A value as nginx writes it: ngx_http_log_escape, ngx_escape_json, or as it is."""
    if escape == "default":
        return "".join(
            chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02X}" for byte in text.encode()
        )
    return json.dumps(text, ensure_ascii=False)[1:-1] if escape == "json" else text


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_lines_of_any_format_are_read_as_they_were_written(data: st.DataObject) -> None:
    draw = data.draw
    escape = draw(escapes)
    names = draw(st.permutations([*REQUIRED, *draw(st.lists(st.sampled_from((*TEXTS, *LISTS, *OTHERS)), max_size=8))]))
    in_quotes = {name: draw(st.booleans()) for name in names}
    separator = draw(st.sampled_from((" ", " | ", "\t", " -> ", ";")))
    texts = bare_texts if not all(in_quotes.get(name, True) for name in TEXTS) else quoted_texts
    texts = raw_quoted_texts if escape == "none" and texts is quoted_texts else texts
    if escape == "none":
        texts = texts.filter(lambda text: "\t" not in text)
    text = separator.join(f'"${name}"' if in_quotes[name] else f"${name}" for name in names)
    values = draw(st.lists(requests(texts), min_size=1, max_size=20))
    lines = []
    for each in values:
        line = separator.join(f'"{{{name}}}"' if in_quotes[name] else f"{{{name}}}" for name in names)
        lines.append(line.format_map({name: escaped(value, escape) for name, value in each.items()}))
    check(f"escape={escape} {text}", lines, values, names)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_lines_of_any_json_format_are_read_as_they_were_written(data: st.DataObject) -> None:
    """Nested, with arrays, with dots in keys; numbers and lists without quotes, which may be no JSON."""
    draw = data.draw
    escape = draw(st.sampled_from(("default", "json")))
    names = [*REQUIRED, *draw(st.lists(st.sampled_from((*TEXTS, *LISTS, *OTHERS)), max_size=6, unique=True))]
    forms = st.sampled_from(('"{}"', '["{}"]', '{{"in.side":{{"x":"{}"}}}}', '{{"v":["{}"]}}', '" {}"'))
    bare = st.sampled_from(('"{}"', "{}", "[{}]", '{{"v": {}}}'))
    shapes = {name: draw(forms if name in (*TEXTS, "request_id", "remote_addr", "scheme") else bare) for name in names}
    keys = {name: f"{name}{draw(st.sampled_from(('', '.x', ' y', '-z')))}" for name in names}
    template = "{{" + ",".join(f'"{keys[name]}":{shapes[name]}' for name in names).replace("{}", "\0")
    template = template.replace("{{", "{").replace("}}", "}") + "}"
    values = draw(st.lists(requests(quoted_texts), min_size=1, max_size=12))
    text = filled(template, [f"${name}" for name in names])
    lines = [filled(template, [escaped(each[name], escape) for name in names]) for each in values]
    check(f"escape={escape} {text}", lines, values, names)


def filled(template: str, values: Sequence[str]) -> str:
    pieces = template.split("\0")
    return "".join(piece + value for piece, value in zip(pieces, [*values, ""], strict=True))


def check(text: str, lines: Sequence[str], values: Sequence[dict[str, str]], names: Sequence[str]) -> None:
    """Every line is read, by SQL and the short way alike, and every number is the one that was written."""
    form = format_from_text(text)
    data = "".join(f"{line}\n" for line in lines).encode()
    (block,) = blocks_of_lines(LogInput("", io.BytesIO(data), None, None, None))
    engine().register("block", pl.DataFrame({"line": block.lines, "number": block.numbers}))
    by_sql = engine().sql(records_query(COLUMNS, "block", log=form)).pl().sort("number").to_dicts()
    assert [(row["reason"], row["raw"]) for row in by_sql if row["reason"]] == []
    assert len(by_sql) == len(values)
    short = scanned_text(block, COLUMNS, form) if form else None
    for row in short[0].to_dicts() if short else ():
        assert row == {name: by_sql[row["number"] - 1][name] for name in row}
    for row, each in zip(by_sql, values, strict=True):
        assert (row["status"], row["request_time"]) == (int(each["status"]), micros(each["request_time"]))
        assert row["time"].replace(tzinfo=UTC).timestamp() == pytest.approx(float(each["msec"]), abs=1e-6)
        if "body_bytes_sent" in names:
            assert row["bytes_sent"] == int(each["body_bytes_sent"])
        for name in ("request_id", "upstream_addr", "upstream_status"):
            if name in names:
                assert row[name] == each[name]
        of_a_proxy = {"upstream_header_time", "upstream_response_time"} & set(names)
        for name in ("connect", "header", "response") if of_a_proxy else ():
            if f"upstream_{name}_time" in names:
                own = elements(each[f"upstream_{name}_time"])[backend_of(each, names)]
                assert row[name] == (None if own == "-" else micros(own))


def elements(text: str) -> list[str]:
    return text.replace(" : ", ", ").split(", ")


def backend_of(each: dict[str, str], names: Sequence[str]) -> int:
    """The place of the first answer with 2xx or 3xx that an internal redirect followed, or of the last attempt."""
    attempts = next(
        (each[f"upstream_{name}"] for name in ("addr", "response_time", "header_time") if f"upstream_{name}" in names),
        "-",
    )
    statuses = elements(each["upstream_status"]) if "upstream_status" in names else []
    separators = re.findall(", | : ", attempts)
    pairs = list(zip(separators, statuses, strict=False))
    return next((k for k, (separator, status) in enumerate(pairs) if separator == " : " and status[0] in "23"), -1)


@functools.cache
def engine() -> duckdb.DuckDBPyConnection:
    return reading_engine()


def micros(text: str) -> int:
    return round(float(text) * 1e6)


# ---- Particular formats


@pytest.mark.parametrize(
    ("text", "line", "row"),
    [
        ("log_format x escape=none '$msec \"$http_a\" '\n '$status $request_time';", '1769860800.123 "a "b" c" 200 0.5',
         {"request_time": 0.5, "http_a": 'a "b" c'}),
        ("'$msec $status ' '$request_time'", "1769860800.123 200 0.5", {"request_time": 0.5}),
        ("escape=json $msec $status $request_time \"$http_a\"", '1769860800.123 200 0.5 "a\\"b\\u0001"',
         {"http_a": 'a"b\x01'}),
        ("$msec $status $request_time \"$http_a\"", '1769860800.123 200 0.5 "a\\x22b\\xC3\\xA9"', {"http_a": 'a"bé'}),
        ("$MSEC $Status $request_time", "1769860800.123 200 0.5", {"request_time": 0.5}),
        ("$msec $status $request_time=ms $upstream_response_time=us", "1769860800.123 200 500 100000, 200000",
         {"request_time": 0.5, "retries": 0.1, "response": 0.2, "upstream_response_time": "0.100000000, 0.200000000"}),
        ("$msec $status ${request_time}=ns.", "1769860800.123 200 500000000.", {"request_time": 0.5}),
        ("$msec $status $request_time=msec", "1769860800.123 200 0.5=msec", {"request_time": 0.5}),
        ('%t "%r" %>s %D=ms', '[31/Jan/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 500', {"request_time": 0.5}),
        ('%h %u %t %r %>s %b "%{User-Agent}i" %D %{start}i %{Status}o', '::1 "" [31/Jan/2026:12:00:00 +0000] GET /a '
         'HTTP/1.1 200 - "a \\"b" 500000 12 x y', {"request_time": 0.5, "status": 200}),
        ("%{%d/%b/%Y %T}t.%{msec_frac}t %{end:msec}t %>s %D", "31/Jan/2026 12:00:00.123 1769860800123 200 500000",
         {"request_time": 0.5}),
        ('{"t":"$msec","a.b":"$status","c":{"d":"$request_time"}}',
         '{"t":"1769860800.123","a":{"b":"200"},"c":{"d":"0.5"}}', {"status": 200}),
        ('{"t":"$msec","a.b":"$status","c":{"d":"$request_time"}}',
         '{"t":"1769860800.123","a.b":"200","a":{"b":"500"},"c":{"d":"0.5"}}', {"status": 200}),
        ('{"t":"$msec","s":"$status","d":"$request_time s"}', '{"t":"1769860800.123","s":"200","d":"0.5 s","more":1}',
         {"request_time": 0.5}),
    ],
    ids=["directive", "several texts", "escape=json", "escape=default", "capitals", "units", "braces and a unit",
         "no unit", "unit of Apache", "Apache without quotes", "an instant that is not read", "dot as a path",
         "dot in a key", "text with a unit"],
)  # fmt: skip
def test_reads(tmp_path: Path, text: str, line: str, row: dict[str, Any]) -> None:
    columns = tuple(dict.fromkeys((*COLUMNS, *row)))
    (each,) = rows(tmp_path, text, [line], columns)
    assert {name: each[name] for name in row} == {
        name: pytest.approx(value) if isinstance(value, float) else value for name, value in row.items()
    }


@pytest.mark.parametrize(
    "keys", [["a"], ["a", "b"], ["a.b"], ["a", 0, "b"], ["a", EVERY_ELEMENT], ["a[0]", "b\\", "."], ["a b", "[*]", 3]]
)
def test_a_path_keeps_its_keys(keys: list[str | int]) -> None:
    assert path_keys(joined_path(keys)) == keys


@pytest.mark.parametrize("text", ['{"a":$b', '{"a":"$b"} more', "{$a}", '{"a"}', "{" * 5_000, '{"a":[$b}'])
def test_other_texts_with_braces_are_no_json(text: str) -> None:
    assert json_values(text) is None


def test_a_line_is_divided_in_time_that_grows_with_its_length() -> None:
    parts = nginx_parts(" ".join(f"$http_x{number}" for number in range(12)) + " $status")
    begun = time.process_time()
    assert divided(parts, "a " * 1_000 + "end").values is None
    assert time.process_time() - begun < LONG_S


# ---- Units without a text


def test_units_are_those_of_the_recognised_durations(tmp_path: Path) -> None:
    begin = '10.0.0.1 - - [31/Jan/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "x"'
    lines = [f"{begin} rt={number / 100:.3f} urt={number / 100:.3f}" for number in range(100, 200)]
    form = detected_format(lines)
    assert form is not None
    for name in ("request_time", "rt", "$request_time"):
        changed = with_units(form, {name: "ms"})
        assert (changed.by_field["request_time"].unit, changed.by_field["response"].unit) == ("ms", "s")
        assert changed.certainty == form.certainty
    both = with_units(form, {"rt": "ms", "upstream_response_time": "us"})
    assert (both.by_field["request_time"].unit, both.by_field["response"].unit) == ("ms", "us")
    assert both.certainty == "sure"
    read_rows = rows(tmp_path, "rt=ms,urt=ms", lines)
    assert [row["request_time"] for row in read_rows] == pytest.approx([number / 1e5 for number in range(100, 200)])
    assert [row["response"] for row in read_rows] == pytest.approx([number / 1e5 for number in range(100, 200)])


def test_a_unit_of_a_key_or_a_directive() -> None:
    lines = [
        f'{{"time_iso8601":"2026-01-31T12:00:00+00:00","status":200,"request_time":{number}}}' for number in (5, 9)
    ]
    form = detected_format(lines)
    assert form is not None
    assert with_units(form, {"request_time": "us"}).by_field["request_time"].unit == "us"
    apache = format_from_text("%t %>s %D %{ms}T")
    assert apache is not None
    assert with_units(apache, {"D": "ms"}).by_field["request_time"].unit == "ms"


def test_an_unknown_unit_or_duration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sojourn.SojournError, match="request_time=h: the units are s, ms, us, ns"):
        units_from_text("latency=ms,request_time=h")
    lines = [
        f'::1 - - [31/Jan/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "x" rt=0.{number}'
        for number in range(100, 200)
    ]
    with pytest.raises(sojourn.SojournError, match=r"access\.log: .*no duration 'latency'; it has \$request_time"):
        read(tmp_path, "latency=ns", lines)
    with pytest.raises(sojourn.SojournError, match=r"access\.log has no format that is recognised"):
        read(tmp_path, "latency=ns", ["no such line"] * 600)


@pytest.mark.parametrize("text", ["$request_time", "%D %>s", "combined", "nginx.conf:main", '{"a":"$status=ms"}'])
def test_other_texts_are_no_units(text: str) -> None:
    assert units_from_text(text) is None


@pytest.mark.parametrize("text", ["latency=ns", "a=s, b=ms", "req.time=us", "D=ms", "x-time=ns"])
def test_units_are_kept_by_name(text: str) -> None:
    units = units_from_text(text)
    assert units is not None
    assert set(units.values()) <= set(UNITS)
    assert format_of_text(text) == units


# ---- What contradicts a format


def stamped(seconds: float) -> str:
    return f"{BEGIN + timedelta(seconds=seconds):%d/%b/%Y:%H:%M:%S %z}"


def warnings_of(folder: Path, text: str, lines: Sequence[str]) -> tuple[str, ...]:
    (facts,) = read(folder, text, lines).records.formats
    return facts.warnings


@pytest.mark.parametrize(("value", "unit", "factor"), [(450, "ms", "1,000"), (450_000_000, "ns", "1,000,000,000")])
def test_whole_numbers_of_seconds_are_doubted(tmp_path: Path, value: int, unit: str, factor: str) -> None:
    lines = [f"[{stamped(number)}] 200 {value + number}" for number in range(60)]
    (warning,) = warnings_of(tmp_path, "[$time_local] $status $request_time", lines)
    assert f"$request_time={unit}" in warning
    assert f"{factor} times too long" in warning


def test_response_times_longer_than_the_log_are_doubted(tmp_path: Path) -> None:
    lines = [f"[{stamped(number)}] 200 {400 + number}.125" for number in range(30)]
    (warning,) = warnings_of(tmp_path, "[$time_local] $status $request_time", lines)
    assert "$request_time=ms" in warning


def test_milliseconds_of_tomcat_are_doubted(tmp_path: Path) -> None:
    """Too short for microseconds; or of requests that begin before others and end in order only as milliseconds."""
    short = [f"[{stamped(number)}] 200 {20 + number % 9}" for number in range(60)]
    (warning,) = warnings_of(tmp_path, "%t %>s %D", short)
    assert "%D=ms" in warning
    assert "1,000 times too short" in warning
    disordered = [f"[{stamped(number - took)}] 200 {took * 1000}" for number in range(60) for took in (9, 1)]
    (warning,) = warnings_of(tmp_path, "%t %>s %D", disordered)
    assert "%D=ms" in warning


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[$time_local] $status $request_time", [f"{number / 1000:.3f}" for number in range(60)]),
        ("[$time_local] $status $request_time", ["0.000", "60.000", "30.001"] * 20),
        ("[$time_local] $status $request_time=s", [str(400 + number) for number in range(60)]),
        ("[$time_local] $status $request_time=ms", [str(400 + number) for number in range(60)]),
        ("%t %>s %D", [str(2_000 + 100 * number) for number in range(60)]),
        ("%t %>s %T", ["0", "1", "0"] * 20),
    ],
    ids=["milliseconds", "long polls", "a stated unit", "another stated unit", "Apache", "Apache's seconds"],
)
def test_an_ordinary_log_is_not_doubted(tmp_path: Path, text: str, values: list[str]) -> None:
    lines = [f"[{stamped(number)}] 200 {value}" for number, value in enumerate(values)]
    assert warnings_of(tmp_path, text, lines) == ()


@pytest.mark.parametrize(
    ("text", "line", "pieces"),
    [
        ("$msec $status $request_time $upstream_addr", "1769860800.123 200 - 10.0.0.1:80", ("`$request_time`", "`-`")),
        ("$msec $status $request_time $upstream_addr", "1769860800.123 OK 0.1 10.0.0.1:80", ("`$status`", "`OK`")),
        ("$msec [$http_a] $status $request_time", "1769860800.123 (a) 200 0.1", ("` [`", "`$msec`", "` (a) 200 0.1`")),
        ("$msec [$http_a] $status $request_time", "1769860800.123 [a 200 0.1", ("`] `", "`$http_a`", "`a 200 0.1`")),
        ("$msec $status $request_time", "1769860800.123 200 0.1 more", ("`$request_time`", "`0.1 more`")),
        ('{"t":"$msec","a":{"s":"$status"},"d":"$request_time"}', '{"t":"1769860800.123","a":{"s":200},"d":"-"}',
         ("`d`", "`-`")),
    ],
    ids=["no number", "no status", "another literal", "no literal", "more", "JSON"],
)  # fmt: skip
def test_names_the_part_that_refused_lines_do_not_fit(
    tmp_path: Path, text: str, line: str, pieces: tuple[str, ...]
) -> None:
    good = "1769860800.123 200 0.1"
    lines = [line] * 7 if text.startswith("{") or text != "$msec $status $request_time" else [good, *[line] * 7]
    (warning,) = warnings_of(tmp_path, text, lines)
    assert [piece for piece in (*pieces, "7 lines") if piece not in warning] == []


def test_a_log_that_has_its_format_has_no_misfit(tmp_path: Path) -> None:
    assert warnings_of(tmp_path, "$msec $status $request_time", ["1769860800.123 200 0.1"] * 5) == ()
