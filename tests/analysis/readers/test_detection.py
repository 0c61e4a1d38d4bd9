"""Recognition of formats: headers before the lines, other lines among them, and meanings deduced from values."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sojourn
from sojourn.model.frame import Records
from sojourn.readers.formats.detect import detected_format

COUNT = 200
AGENT = '"-" "curl/8"'
Line = Callable[[float, float, float], str]


def begin(at: float, agent: str = AGENT, address: str = "192.0.2.9", user: str = "-", size: int = 512) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return f'{address} - {user} [{moment:%d/%b/%Y:%H:%M:%S +0000}] "GET /a HTTP/1.1" 200 {size} {agent}'


def timed(at: float, whole: float, part: float) -> str:
    return f"{begin(at)} {at:.3f} {whole:.3f} 10.0.0.1:80 {part:.3f}"


def as_json(at: float, whole: float, part: float) -> str:
    return json.dumps({"msec": f"{at:.3f}", "status": 200, "request_time": whole, "upstream_response_time": part})


def lines_of(line: Line, count: int = COUNT) -> list[str]:
    """Lines of requests of some 100 ms, of which a backend took all but 3 ms, a tenth of a second apart."""
    draws = random.Random(1)
    lines = []
    for number in range(count):
        whole = round(0.01 + draws.expovariate(10), 3)
        lines.append(line(1_769_860_800 + number / 10, whole, max(whole - 0.003, 0.001)))
    return lines


WHOLE = sum(float(line) for line in lines_of(lambda _at, whole, _part: str(whole))) / COUNT


def written(folder: Path, lines: Sequence[str], end: str = "\n") -> Path:
    path = folder / "access.log"
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


def read(path: object) -> tuple[Records, Any]:
    requests = sojourn.read(path, columns=("request_time", "header", "connect", "upstream"))  # type: ignore[arg-type]
    return requests.records, requests.rows.collect()


@pytest.mark.parametrize("line", [timed, as_json], ids=["text", "JSON"])
@pytest.mark.parametrize(
    "header",
    [
        "<190>Jan 31 12:00:00 web nginx: ",
        "<190>Jan  1 12:00:00 nginx: ",
        "Jan 31 12:00:00 web nginx[12]: ",
        "2026-01-31T12:00:00.123456+00:00 web nginx: ",
        "<190>1 2026-01-31T12:00:00.123Z web nginx 12 - - ",
        '<190>1 2026-01-31T12:00:00.123Z web nginx 12 ID47 [a@1 b="c d"][e f="g"] ',
        "web-1  | ",
        "web-1  | 2026-01-31T12:00:00.123456789Z ",
        "2026-01-31T12:00:00.123456789Z ",
        "[pod/web-5d/nginx] ",
        "2026-01-31T12:00:00.123456789+00:00 stdout F ",
    ],
    ids=["RFC 3164", "without a host", "syslog file", "rsyslog", "RFC 5424", "structured data", "Compose",
         "Compose, timestamps", "kubectl, timestamps", "kubectl, prefix", "container runtime"],
)  # fmt: skip
def test_reads_lines_behind_a_header(tmp_path: Path, line: Line, header: str) -> None:
    records, rows = read(written(tmp_path, [header + each for each in lines_of(line)]))
    _, plain = read(written(tmp_path, lines_of(line)))
    assert records.rejected == 0
    assert rows.equals(plain)


def test_reads_lines_of_apache_behind_a_header(tmp_path: Path) -> None:
    """Its first variables fit nearly any text; the address is none of the header."""
    lines = lines_of(lambda at, whole, _: f"Jan 31 12:00:00 web httpd[1]: {begin(at)} {whole * 1e6:.0f}")
    requests = sojourn.read(written(tmp_path, lines), columns=("request_time", "remote_addr"))
    rows = requests.rows.collect()
    assert rows["request_time"].mean() == pytest.approx(WHOLE, abs=1e-6)
    assert set(rows["remote_addr"]) == {"192.0.2.9"}


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (lambda lines: [f"\ufeff{lines[0]}", *lines[1:]], 0),
        (lambda lines: [lines[0][40:], *lines[1:]], 1),
        (lambda lines: [*lines, *["INFO a line of the app"] * 100], 100),
        (lambda lines: [*lines_of(lambda at, *_: begin(at)), *lines], COUNT),
    ],
    ids=["byte order mark", "torn", "lines of another program", "format changed"],
)
def test_other_lines_are_refused_alone(tmp_path: Path, change: Callable[[list[str]], list[str]], refused: int) -> None:
    records, _ = read(written(tmp_path, change(lines_of(timed))))
    assert records.rejected == refused
    assert records.formats[0].format.endswith("$msec $request_time $upstream_addr $upstream_response_time")


def test_windows_line_ends_and_gzip(tmp_path: Path) -> None:
    _, plain = read(written(tmp_path, lines_of(timed)))
    _, rows = read(written(tmp_path, lines_of(timed), "\r\n"))
    assert rows.equals(plain)
    packed = tmp_path / "access.log.gz"
    packed.write_bytes(gzip.compress((tmp_path / "access.log").read_bytes()))
    assert read(packed)[1].equals(plain)


def test_a_log_that_begins_with_health_checks(tmp_path: Path) -> None:
    """Of the first 500 lines nothing would follow."""
    checks = [f"{begin(1_769_860_800)} 0.000 -"] * 600
    lines = [*checks, *lines_of(lambda at, whole, part: f"{begin(at)} {whole:.3f} {part:.3f}", 2_000)]
    records, rows = read(written(tmp_path, lines))
    assert records.rejected == 0
    assert rows["header"].drop_nulls().mean() > 0.05


@pytest.mark.parametrize(
    ("line", "format", "certainty"),
    [
        (lambda at, w, p: f"{begin(at)} {w:.3f} [::1]:80 {p:.3f}",
         "$request_time $upstream_addr $upstream_response_time", "likely"),
        (lambda at, w, p: f"{begin(at)} {w:.3f} 10.0.0.1:80, [::1]:80 0.001, {p:.3f}",
         "$request_time $upstream_addr $upstream_response_time", "likely"),
        (lambda at, w, p: f"{begin(at)} {w:.3f}s {p:.3f}s", "${request_time}s ${upstream_response_time}s", "likely"),
        (lambda at, w, p: f'{begin(at)} rt="{w + 1:.1f}" urt="{p:.1f}"',
         'rt="$request_time" urt="$upstream_response_time"', "sure"),
        (lambda at, w, p: f"{begin(at)}\t{w:.3f}\t{p:.3f}", "$request_time\t$upstream_response_time", "likely"),
        (lambda at, w, p: f"{begin(at)} | {w:.3f} | {p:.3f}",
         "$column_1 $request_time $column_3 $upstream_response_time", "likely"),
        (lambda at, w, p: f'{begin(at)} ua="curl/{at}" rt={w:.3f} urt={p:.3f}',
         'ua="$column_1" rt=$request_time urt=$upstream_response_time', "sure"),
        (lambda at, w, p: f"{begin(at)} 192.0.2.1:{int(at * 10) % 50_000} {w:.3f} {p:.3f}",
         "$column_1 $request_time $upstream_response_time", "likely"),
        (lambda at, w, _: f"{begin(at)} response_time={w:.3f}", "response_time=$request_time", "likely"),
        (lambda at, w, p: f"{begin(at)} request_time={w:.3f} response_time={p:.3f}",
         "request_time=$request_time response_time=$upstream_response_time", "likely"),
        (lambda at, w, p: f"{begin(at)} {w:.3f} 0.001 {p:.3f}",
         "$request_time $upstream_connect_time $upstream_response_time", "assumed"),
        (lambda at, w, p: f"{begin(at)} {w:.3f} {p - 0.0005:.3f} {p:.3f}",
         "$request_time $upstream_header_time $upstream_response_time", "likely"),
        (lambda at, *_: f"{begin(at)} 0.000 0.000", "$request_time $upstream_response_time", "assumed"),
        (lambda at, w, p: f"{begin(at)} rt={p:.3f} urt={w + 1:.3f}",
         "rt=$request_time urt=$upstream_response_time", "assumed"),
        (lambda at, w, _: f"{begin(at)} {w:.3f} -", "$request_time $column_2", "likely"),
        (lambda at, w, _: f"{begin(at)} {w:.6f}", "$request_time", "assumed"),
        (lambda at, w, _: f"{begin(at)} {w * 1e6:.0f}", "%D", "likely"),
        (lambda at, w, _: f'{begin(at)} {w * 1e6:.0f} "http://10.0.0.1:80"', '%D "%{BALANCER_WORKER_NAME}e"', "likely"),
        (lambda at, w, _: f"{begin(at, size=int(w * 1e5))} {w * 1e6:.0f} 103 {w * 1e5 + 140:.0f}",
         "%D %{column_2}i %{column_3}i", "likely"),
        (lambda at, w, _: f"{begin(at)} {w * 1e3:.0f}", "%{ms}T", "assumed"),
        (lambda at, w, _: f"{begin(at)} ms={w * 1e4:.0f}", "ms=%{ms}T", "likely"),
        (lambda at, w, _: f"{begin(at)} {int(w * 3)}", "%T", "assumed"),
        (lambda at, w, _: f"{begin(at)} {w * 1e4:.0f}", "%D", "likely"),
    ],
    ids=["IPv6", "retries", "unit", "quoted", "tabs", "bars", "agent", "clients' addresses", "one response time",
         "two response times", "connect", "header", "all 0", "contradictory", "all -", "six digits", "Apache",
         "balancer", "sizes", "milliseconds", "named milliseconds", "seconds", "small"],
)  # fmt: skip
def test_meaning_and_certainty_of_appended_values(line: Line, format: str, certainty: str) -> None:  # noqa: A002
    log = detected_format(lines_of(line))
    assert log is not None
    appended = re.split(r'\$http_user_agent"|%\{User-Agent\}i"', log.name)[1]
    assert (appended.strip(), log.certainty) == (format, certainty)
    assert log.notes or certainty != "assumed"


@pytest.mark.parametrize(
    "line",
    [
        lambda at, w, _: f"{begin(at, size=int(w * 1e5))} 103 {w * 1e5 + 140:.0f}",
        lambda at, w, _: f"{begin(at)} rl={w * 1e3:.0f}",
        lambda at, w, p: f"{begin(at)} {w:.3f},{p:.3f}",
    ],
    ids=["sizes", "length of the request", "commas"],
)
def test_values_that_are_no_times_are_not_taken_as_times(tmp_path: Path, line: Line) -> None:
    records, _ = read(written(tmp_path, lines_of(line)))
    assert records.reasons == {"missing_request_time": COUNT}


SCORES = [random.Random(seed).random() for seed in range(COUNT)]


@pytest.mark.parametrize(
    ("value", "in_doubt"),
    [
        (lambda score, _: f"{score:.3f}", True),
        (lambda score, _: f"{30 * score:.3f}", True),
        (lambda score, _: f"- {score:.3f} -", True),
        (lambda score, _: f"rt={score:.3f}", False),
        (lambda score, _: f"{score:.3f}s", False),
        (lambda score, _: f"{score:.3f} {score / 2:.3f}", False),
        (lambda score, _: f"{score**4:.3f}", False),
        (lambda score, _: f"{0.5 + 0.002 * score:.3f}", False),
        (lambda score, number: f"{number % 50 / 50 + 0.3 * score:.3f}", False),
    ],
    ids=["score", "angle", "within", "labelled", "unit", "two", "skewed", "constant", "a queue"],
)
def test_three_decimals_that_behave_like_no_time_are_in_doubt(
    tmp_path: Path, value: Callable[[float, int], str], in_doubt: bool
) -> None:
    lines = [f"{begin(1_769_860_800 + n / 10)} {value(score, n)}" for n, score in enumerate(SCORES)]
    log = detected_format(lines)
    assert log is not None
    assert bool(log.alternative) == in_doubt
    assert (log.certainty == "assumed") == in_doubt
    result = sojourn.split(written(tmp_path, lines))
    assert ("no time at all" in result.verdict.sentence) == (in_doubt and "no time" in log.alternative)
    few = detected_format(lines[:40])
    assert few is not None
    assert "no time at all" not in few.alternative


def test_the_order_of_the_lines_separates_milliseconds_from_seconds() -> None:
    """Requests of 3 s would not have ended in this order."""
    busy = detected_format([f"{begin(1_769_860_800 + number / 1_000)} {number % 10}" for number in range(500)])
    calm = detected_format([f"{begin(1_769_860_800 + number * 60)} {number % 3}" for number in range(500)])
    assert busy is not None
    assert calm is not None
    assert (busy.name.rpartition(" ")[2], calm.name.rpartition(" ")[2]) == ("%{ms}T", "%T")


def test_nanoseconds_are_no_instants_though_they_have_as_many_digits(tmp_path: Path) -> None:
    lines = [json.dumps({"ts": 1769860800.25 + n, "status": 200, "latency": 1_500_000_000 + n}) for n in range(2)]
    _, rows = read(written(tmp_path, lines))
    assert rows["request_time"].to_list() == pytest.approx([1.5, 1.5])


@pytest.mark.parametrize("ts", ["2026-01-31T12:00:00.250Z", 1769860800.25])
@pytest.mark.parametrize(("duration", "seconds"), [(75, 0.075), (75_144_783, 0.075145), (0.075144783, 0.075145)])
def test_clock_and_unit_of_caddy(tmp_path: Path, ts: object, duration: float, seconds: float) -> None:
    line = {"ts": ts, "request": {"method": "GET", "uri": "/"}, "duration": duration, "status": 200}
    requests = sojourn.read(written(tmp_path, [json.dumps(line)] * 3))
    (row, *_) = requests.rows.collect().to_dicts()
    assert row["request_time"] == pytest.approx(seconds, abs=1e-9)
    assert row["time"].timestamp() == 1769860800.25
