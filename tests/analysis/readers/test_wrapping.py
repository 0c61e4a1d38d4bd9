"""Lines within the lines of another log: headers, Docker's json-file, JSON of shippers, the format of containers."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from simulator import Settings, as_lines, simulated_log
from sojourn.doctor.doctor import diagnose
from sojourn.model.frame import Records
from sojourn.readers import log_blocks, unwrapping
from sojourn.readers.blocks import parsed_blocks
from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.wrapping import Layer, bare_lines, recognised_wrapping
from sojourn.readers.inputs import LogInput, opened_inputs
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import MACROS, records_query
from sojourn.readers.unwrapping import bare_blocks
from sojourn.sources.live.follow import FileFollower
from sojourn.sources.live.reader import LiveReader
from sojourn.sources.live.tail import Tail, from_the_beginning, last_time, line_times
from wide_tables import one_of

COUNT = 40
EPOCH = 1_769_860_800
CLF = "%d/%b/%Y:%H:%M:%S"
Wrap = Callable[[str, int], str]


def requests() -> list[tuple[float, float]]:
    """When each request ended, and how long it took, s: multiples of a millisecond."""
    draws = random.Random(3)
    return [(EPOCH + number, round(0.02 + draws.expovariate(10), 3)) for number in range(COUNT)]


def moment(at: float, form: str) -> str:
    return f"{datetime.fromtimestamp(at, UTC):{form}}"


def own(at: float, took: float) -> str:
    return json.dumps({
        "time": f"{at:.3f}", "status": "200", "request_time": f"{took:.3f}", "request_start": f"{at - took:.3f}",
        "uri": '/a?q="é"', "upstream_addr": "10.0.0.1:80", "upstream_header_time": f"{took:.3f}",
        "upstream_response_time": f"{took:.3f}", "queueing_delay": "0.010000", "service_time": "0.005000",
    })  # fmt: skip


def nginx(at: float, took: float) -> str:
    begin = f'192.0.2.9 - - [{moment(at, CLF)} +0000] "GET /a HTTP/1.1" 200 512 "-" "a \\"b\\" c"'
    return f"{begin} {at:.3f} {took:.3f} 10.0.0.1:80 {took:.3f}"


def haproxy(at: float, took: float) -> str:
    ms = round(took * 1000)
    begun = f"{moment(at - took, CLF)}.{round((at - took) % 1 * 1000) % 1000:03d}"
    header = f"<134>{moment(at, '%b %d %H:%M:%S')} lb haproxy[12]: "
    line = f"10.0.1.2:33317 [{begun}] in app/one 0/0/1/{ms - 1}/{ms} 200 75 - - ---- 1/1/1/1/0 0/0"
    return f'{header}{line} "GET /a HTTP/1.1"'


def envoy(at: float, took: float) -> str:
    begun = datetime.fromtimestamp(round(at - took, 3), UTC).isoformat(timespec="milliseconds")[:-6]
    ms = round(took * 1000)
    return f'[{begun}Z] "GET /a HTTP/2" 200 - 154 0 {ms} {ms - 1} "10.0.35.28" "curl" "cc21" "shop" "tcp://10.0.2.1:80"'


def as_json(at: float, took: float) -> str:
    return json.dumps({"msec": f"{at:.3f}", "status": 200, "request_time": took, "upstream_response_time": took})


LINES = {"own": own, "nginx": nginx, "HAProxy": haproxy, "Envoy": envoy, "JSON": as_json}


def stamp(number: int) -> str:
    return f"2026-01-31T12:00:{number % 60:02d}.{number:09d}Z"


def docker(line: str, number: int, stream: str = "stdout") -> str:
    return json.dumps({"log": f"{line}\n", "stream": stream, "time": stamp(number)}, separators=(",", ":"))


def docker_attrs(line: str, number: int) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stdout", "attrs": {"tag": "web"}, "time": stamp(number)})


def filebeat(line: str, number: int) -> str:
    log = {"offset": number, "file": {"path": "/var/log/nginx/access.log"}}
    return json.dumps({"@timestamp": stamp(number), "message": line, "log": log, "host": {"name": "web1"}})


def fluent_bit(line: str, number: int) -> str:
    return json.dumps({"stream": "stdout", "log": line, "kubernetes": {"pod_name": "web"}, "time": stamp(number)})


def journald(line: str, number: int) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": f"{EPOCH + number}000000", "_PID": "12", "MESSAGE": line})


def cri(line: str, number: int, tag: str = "F", stream: str = "stdout") -> str:
    return f"{stamp(number)} {stream} {tag} {line}"


WRAPS: dict[str, Wrap] = {
    "json-file": docker,
    "json-file with attributes": docker_attrs,
    "Filebeat": filebeat,
    "msg": lambda line, number: json.dumps({"level": "info", "ts": number, "msg": line}),
    "Fluent Bit": fluent_bit,
    "journald": journald,
    "CRI": cri,
    "Compose": lambda line, _: f"web-1  | {line}",
    "kubectl": lambda line, number: f"[pod/web-5d/nginx] {stamp(number)} {line}",
    "syslog": lambda line, _: f"<190>Jan 31 12:00:00 web nginx: {line}",
    "RFC 5424": lambda line, number: f"<190>1 {stamp(number)} web nginx 12 - - {line}",
    "CRI in Fluent Bit": lambda line, number: fluent_bit(cri(line, number), number),
    "syslog in json-file": lambda line, number: docker(f"<190>Jan 31 12:00:00 web nginx: {line}", number),
    "json-file in Filebeat": lambda line, number: filebeat(docker(line, number), number),
    "json-file in Compose": lambda line, number: f"web-1  | {docker(line, number)}",
}


def written(folder: Path, lines: Sequence[str], end: str = "\n") -> Path:
    path = folder / "access.log"
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


def wrapped(line: Callable[[float, float], str], wrap: Wrap) -> list[str]:
    return [wrap(line(*each), number) for number, each in enumerate(requests())]


def read(path: object) -> tuple[Records, pl.DataFrame]:
    columns = ("time", "request_time", "status", "upstream", "header", "response", "uri", "app_queueing_delay")
    result = sojourn.read(path, columns=columns)  # type: ignore[arg-type]
    return result.records, result.rows.collect()


@pytest.mark.parametrize(("line", "wrap"), one_of(3, LINES, WRAPS))
def test_rows_are_those_of_the_lines_within(tmp_path: Path, line: str, wrap: str) -> None:
    records, rows = read(written(tmp_path, wrapped(LINES[line], WRAPS[wrap])))
    assert (records.read, records.rejected) == (COUNT, 0)
    truth = requests()
    assert rows["request_time"].to_list() == pytest.approx([took for _, took in truth], abs=1e-9)
    assert [at.timestamp() for at in rows["time"]] == pytest.approx([at for at, _ in truth], abs=1e-6)
    bare_records, bare = read(written(tmp_path, wrapped(LINES[line], lambda text, _: text)))
    assert_frame_equal(rows, bare)
    assert [each.format for each in records.formats] == [each.format for each in bare_records.formats]


@pytest.mark.parametrize("name", ["json-file", "Filebeat", "CRI", "Compose", "json-file in Filebeat"])
@pytest.mark.parametrize("line", [own, nginx], ids=["own", "nginx"])
def test_bare_lines_among_the_others_are_read(tmp_path: Path, line: Callable[[float, float], str], name: str) -> None:
    lines = wrapped(line, lambda text, number: text if number % 3 == 1 else WRAPS[name](text, number))
    records, rows = read(written(tmp_path, lines))
    assert records.rejected == 0
    assert rows["request_time"].to_list() == pytest.approx([took for _, took in requests()], abs=1e-9)


@pytest.mark.parametrize("name", ["json-file", "Filebeat", "CRI", "Compose"])
def test_lines_of_other_programs_are_refused_with_their_numbers_and_places(tmp_path: Path, name: str) -> None:
    """What is kept of a refused line is what stood within."""
    lines = wrapped(nginx, WRAPS[name])
    for number, text in ((31, "INFO started"), (17, "WARN slow"), (5, "é")):
        lines.insert(number, WRAPS[name](text, number))
    log = written(tmp_path, lines)
    records, rows = read(log)
    assert records.reasons == {"other_format": 3}
    assert len(rows) == COUNT
    assert [(each["line"], each["raw"]) for each in records.rejects] == [
        (6, "é"), (19, "WARN slow"), (34, "INFO started")
    ]  # fmt: skip
    inputs = opened_inputs([log])
    (block,) = parsed_blocks(inputs.logs, lambda form: records_query(("status",), "block", log=form), MACROS)
    inputs.close()
    data = log.read_bytes()
    for reject in block.rejects:
        assert data[reject.position :].split(b"\n")[0].decode() == lines[reject.line - 1]


def split_in_parts(line: str, wrap: Callable[[str, int, bool], str], number: int) -> list[str]:
    parts = [line[begin : begin + 50] for begin in range(0, len(line), 50)]
    return [wrap(part, number, part is parts[-1]) for part in parts]


def docker_part(text: str, number: int, is_last: bool, stream: str = "stdout") -> str:
    return json.dumps({"log": text + "\n" * is_last, "stream": stream, "time": stamp(number)})


def cri_part(text: str, number: int, is_last: bool, stream: str = "stdout") -> str:
    return cri(text, number, "F" if is_last else "P", stream)


PARTS = pytest.mark.parametrize("wrap", [docker_part, cri_part], ids=["json-file", "CRI"])


@PARTS
@pytest.mark.parametrize("block_bytes", [1_000, 1 << 20])
def test_parts_of_a_line_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., str], block_bytes: int
) -> None:
    """Across blocks, and with lines of the other stream between the parts."""
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", block_bytes)
    lines: list[str] = []
    for number, (at, took) in enumerate(requests()):
        if number % 4 == 0:
            for part in split_in_parts(own(at, took), wrap, number):
                lines += [part, wrap("of the app", number, True, "stderr")]
        else:
            lines.append(wrap(own(at, took), number, True))
    records, rows = read(written(tmp_path, lines))
    assert rows["request_time"].to_list() == pytest.approx([took for _, took in requests()], abs=1e-9)
    assert set(rows["app_queueing_delay"]) == {0.01}
    assert records.reasons == {"invalid_json": sum("of the app" in line for line in lines)}
    assert records.read == COUNT + records.rejected
    for each in records.rejects:
        assert "of the app" in lines[each["line"] - 1]


@PARTS
def test_a_line_whose_last_part_is_missing_is_refused(tmp_path: Path, wrap: Callable[..., str]) -> None:
    lines = [wrap(own(at, took), number, True) for number, (at, took) in enumerate(requests())]
    lines += [wrap('{"time": "17698', COUNT, False), wrap("60800", COUNT, False)]
    records, rows = read(written(tmp_path, lines))
    assert (len(rows), records.read, records.reasons) == (COUNT, COUNT + 1, {"incomplete_line": 1})
    assert records.rejects[0]["raw"] == '{"time": "1769860800'
    assert records.rejects[0]["line"] == COUNT + 2


@PARTS
def test_parts_beyond_the_limit_of_a_line_are_refused_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., str]
) -> None:
    monkeypatch.setattr(unwrapping, "LINE_LIMIT", 5_000)
    lines = [wrap(own(at, took), number, True) for number, (at, took) in enumerate(requests())]
    lines[20:20] = [wrap("x" * 1_000, 20, False) for _ in range(12)] + [wrap("x", 20, True)]
    records, rows = read(written(tmp_path, lines))
    assert (len(rows), records.reasons) == (COUNT, {"line_too_long": 1})


def test_headers_are_removed_from_whole_lines_not_from_their_parts(tmp_path: Path) -> None:
    """A part that begins as a header of syslog does is the middle of a line."""
    lines = wrapped(own, cri)
    at, took = requests()[0]
    text = own(at, took).replace('"/a?q', '"/<13>a?q')
    begin = text.index("<13>")
    lines[:1] = [cri(f"<190>Jan 31 12:00:00 web nginx: {text[:begin]}", 0, "P"), cri(text[begin:], 0)]
    records, rows = read(written(tmp_path, lines))
    assert records.rejected == 0
    assert rows["uri"][0] == '/<13>a?q="é"'


@pytest.mark.parametrize(("line", "reason"), [(own, "incomplete_line"), (nginx, "other_format")], ids=["own", "nginx"])
def test_a_last_line_that_was_cut_is_refused_alone(
    tmp_path: Path, line: Callable[[float, float], str], reason: str
) -> None:
    log = written(tmp_path, wrapped(line, docker))
    os.truncate(log, log.stat().st_size - 20)
    records, rows = read(log)
    assert (len(rows), records.read, records.reasons) == (COUNT - 1, COUNT, {reason: 1})


@pytest.mark.parametrize("name", ["json-file", "CRI", "Compose"])
def test_compressed_logs_and_windows_line_ends(tmp_path: Path, name: str) -> None:
    log = written(tmp_path, wrapped(own, WRAPS[name]), "\r\n")
    packed = tmp_path / "access.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    for path in (log, packed):
        records, rows = read(path)
        assert records.rejected == 0
        assert rows["request_time"].to_list() == pytest.approx([took for _, took in requests()], abs=1e-9)


def test_messages_of_several_lines(tmp_path: Path) -> None:
    """An object may have line ends between its keys; a text of several lines is no line."""
    lines = [filebeat(json.dumps(json.loads(own(*each)), indent=1), number) for number, each in enumerate(requests())]
    assert read(written(tmp_path, lines))[1]["request_time"].sum() == pytest.approx(sum(t for _, t in requests()))
    lines = wrapped(nginx, filebeat)
    lines[7] = filebeat("\n".join(nginx(*each) for each in requests()[:2]), 7)
    lines[9] = filebeat("Traceback:\n  File a.py\nKeyError", 9)
    lines[11] = filebeat(nginx(*requests()[11]) + "\n\n", 11)
    records, rows = read(written(tmp_path, lines))
    assert (len(rows), records.reasons) == (COUNT - 2, {"other_format": 2})
    assert sorted(each["line"] for each in records.rejects) == [8, 10]


def test_bytes_and_characters_of_values(tmp_path: Path) -> None:
    """journald writes a text that is not UTF-8 as numbers; escapes of JSON stand for characters."""
    text = own(*requests()[0]).replace("\\u00e9", "ü😀\\u00e9")
    lines = wrapped(own, journald)
    lines[0] = json.dumps({"MESSAGE": list(text.encode("utf-8") + b"\n")})
    lines[1] = journald(text, 1)
    lines[2] = json.dumps({"MESSAGE": [300, -1]})
    lines[3] = '{"MESSAGE": "\\ud800"}'
    records, rows = read(written(tmp_path, lines))
    assert rows["uri"][:2].to_list() == ['/a?q="ü😀é"'] * 2
    assert records.rejected == 2


def test_a_large_log_is_read_in_compiled_code_as_without_what_is_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each kind the compiled way has the lines within; blocks are small, lines of other programs are between."""
    lines = [line.decode().rstrip("\n") for line in as_lines(simulated_log(Settings(requests=600))[0])]
    lines[100:100] = ["INFO of the app", '{"time":', "", "é"] * 3
    monkeypatch.setattr(log_blocks, "BYTES_WORTH", 0)
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 60_000)
    scanned: list[int] = []
    short = log_blocks._scanned

    def counted(*arguments: Any) -> Any:
        result = short(*arguments)
        scanned.append(0 if result is None else len(result[0]))
        return result

    monkeypatch.setattr(log_blocks, "_scanned", counted)
    columns = ("time", "request_id", "request_time", "queueing_delay", "upstream", "attempts", "uri")

    def result_of(wrap: Wrap) -> tuple[pl.DataFrame, dict[str, int], list[Any], int]:
        scanned.clear()
        result = sojourn.read(
            written(tmp_path, [wrap(line, number) for number, line in enumerate(lines)]), columns=columns
        )
        rejects = [(each["line"], each["reason"], each["raw"]) for each in result.records.rejects]
        return result.rows.collect(), result.records.reasons, sorted(rejects), sum(scanned)

    plain = result_of(lambda line, _: line)
    assert plain[3] > 500
    for name in ("json-file", "Filebeat", "CRI", "Compose"):
        rows, reasons, rejects, count = result_of(WRAPS[name])
        assert_frame_equal(rows, plain[0])
        assert (reasons, rejects) == plain[1:3]
        assert count > 300, name


NEIGHBOURS: dict[str, Callable[[float, float], str]] = {
    "pino": lambda at, took: json.dumps({
        "level": 30, "time": at * 1000, "req": {"method": "GET", "url": "/a"}, "res": {"statusCode": 200},
        "responseTime": took * 1000, "msg": "request completed",
    }),
    "nginx's JSON with a message": lambda at, took: json.dumps({
        "msec": f"{at:.3f}", "status": 200, "request_time": took, "message": nginx(at, took + 1), "log": "web",
    }),
    "own record with a message": lambda at, took: json.dumps({
        **json.loads(own(at, took)), "message": own(at, took + 1),
    }),
    "parsed by the shipper": lambda at, took: json.dumps({
        "log": nginx(at, took + 1), "stream": "stdout", "time": stamp(0), "time_iso8601": "2026-01-31T12:00:00+00:00",
        "msec": f"{at:.3f}", "status": "200", "request_time": f"{took:.3f}",
    }),
    "a message of the app": lambda at, _: json.dumps({"time": at, "level": "info", "message": "GET /a 200 in 12 ms"}),
    "a request without its duration, with a body": lambda at, _: json.dumps({
        "msec": f"{at:.3f}", "status": 200, "request_method": "GET", "message": '{"cart": 1}',
    }),
    "text": nginx,
    "a load balancer": lambda at, took: (
        f"{datetime.fromtimestamp(at, UTC).isoformat()[:19]}.000000Z my-lb 192.0.2.9:2817 10.0.0.1:80 0.000073 "
        f'{took:.6f} 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7" - -'
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_nothing_is_around_a_line_of_its_own(line: Callable[[float, float], str]) -> None:
    lines = wrapped(line, lambda text, _: text)
    assert recognised_wrapping(lines)[0] == ()
    assert bare_lines(lines) == lines


def test_requests_with_a_message_are_read_by_their_own_keys(tmp_path: Path) -> None:
    for name in ("nginx's JSON with a message", "own record with a message", "parsed by the shipper"):
        records, rows = read(written(tmp_path, wrapped(NEIGHBOURS[name], lambda text, _: text)))
        assert records.rejected == 0
        assert rows["request_time"].to_list() == pytest.approx([took for _, took in requests()], abs=1e-9)


@pytest.mark.parametrize("name", ["json-file", "Filebeat", "CRI", "Compose"])
def test_a_given_format_is_that_of_the_lines_within(tmp_path: Path, name: str) -> None:
    lines = wrapped(lambda at, took: f"{at:.3f} 200 {took:.3f}", WRAPS[name])
    log = sojourn.log_file(written(tmp_path, lines), "$msec $status $request_time")
    assert read(log)[1]["request_time"].to_list() == pytest.approx([took for _, took in requests()], abs=1e-9)
    lines = wrapped(lambda at, took: f"192.0.2.9 {at:.3f} 200 {took:.3f}", WRAPS[name])
    log = sojourn.log_file(written(tmp_path, lines), "$remote_addr $msec $status $request_time")
    assert read(log)[1]["request_time"].to_list() == pytest.approx([took for _, took in requests()], abs=1e-9)
    own_log = sojourn.log_file(written(tmp_path, wrapped(own, WRAPS[name])), "sojourn")
    assert len(read(own_log)[1]) == COUNT


def test_a_given_format_of_the_keys_around_is_that_of_the_log(tmp_path: Path) -> None:
    lines = wrapped(
        lambda at, took: json.dumps({"t": f"{at:.3f}", "s": 200, "d": took, "message": nginx(at, took + 1)}),
        lambda text, _: text,
    )
    log = sojourn.log_file(written(tmp_path, lines), '{"t": "$msec", "s": "$status", "d": "$request_time"}')
    assert read(log)[1]["request_time"].to_list() == pytest.approx([took for _, took in requests()], abs=1e-9)


def test_a_log_of_a_container_without_requests_is_refused_by_its_own_lines(tmp_path: Path) -> None:
    records, _ = read(written(tmp_path, [docker(f"line {number} of the app", number) for number in range(30)]))
    assert records.reasons == {"invalid_json": 30}
    assert records.rejects[0]["raw"] == "line 0 of the app"


PIECES = st.sampled_from([
    "web-1  | ", "[pod/web-5d/nginx] ", "2026-01-31T12:00:00.1Z ", "stdout F ", "stderr P ", "<190>", "1 2026 web a b ",
    "- ", '[a@1 b="c"] ', "Jan 31 12:00:00 ", "Jan  1 2:00:00 ", "web ", "nginx: ", "nginx[12]: ", "\ufeff", "é", "٣",
    "{", '"', "\\", "\x00", " ", ":", "\u2028", "192.0.2.9 ", "\t",
])  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(PIECES, max_size=8).map("".join), min_size=1, max_size=20), st.sampled_from(["", "log"]))
def test_blocks_and_single_lines_have_the_same_lines_within(texts: list[str], key: str) -> None:
    """A block is unwrapped by other means than a line of a search by time."""
    lines = [
        json.dumps({"log": text}, ensure_ascii=number % 2 == 0) if key else text for number, text in enumerate(texts)
    ]
    data = "".join(f"{line}\n" for line in lines).encode()
    log = LogInput("", io.BytesIO(data), None, None, None, wrapping=(Layer(key),))
    (block,) = bare_blocks(log, blocks_of_lines(log))
    assert block.lines.to_list() == [f"{Layer(key).bare(line)}\n" for line in lines]
    if key:
        assert block.lines.to_list() == [f"{text}\n" for text in texts]
    assert [block.position(number) for number in block.numbers] == [
        len("".join(f"{line}\n" for line in lines[:number]).encode()) for number in range(len(lines))
    ]


# --- live


def follow(reader: LiveReader) -> None:
    reader.poll()
    reader.read(datetime.fromtimestamp(EPOCH + COUNT, UTC))


@pytest.mark.parametrize("name", ["json-file", "CRI", "Compose", "Filebeat"])
@pytest.mark.parametrize("line", [own, nginx], ids=["own", "nginx"])
def test_follows_a_log_across_rotations(tmp_path: Path, line: Callable[[float, float], str], name: str) -> None:
    """Docker renames the file and begins another one; the first poll has no request yet."""
    tables: list[pl.DataFrame] = []
    log = tmp_path / "container.log"
    log.write_text("".join(WRAPS[name](text, 0) + "\n" for text in ("starting", "ready to accept connections")))
    reader = LiveReader([FileFollower(str(log), from_the_beginning)], on_rows=tables.append)
    follow(reader)
    lines = [f"{each}\n" for each in wrapped(line, WRAPS[name])]
    for begin in range(0, COUNT, 8):
        with log.open("a") as file:
            file.write("".join(lines[begin : begin + 7]) + lines[begin + 7][:30])
            file.flush()
            follow(reader)
            file.write(lines[begin + 7][30:])
        follow(reader)
        if begin in (8, 24):
            log.rename(tmp_path / f"container.log.{begin}")
            log.touch()
    follow(reader)
    assert reader.followers[0].rotations == 2
    reader.close()
    times = pl.concat(tables)["request_time"].to_list()
    assert times == pytest.approx([took for _, took in requests()], abs=1e-9)


@PARTS
def test_parts_of_a_line_are_joined_across_polls_and_files(tmp_path: Path, wrap: Callable[..., str]) -> None:
    tables: list[pl.DataFrame] = []
    log = tmp_path / "container.log"
    log.write_text("")
    reader = LiveReader([FileFollower(str(log), from_the_beginning)], on_rows=tables.append)
    follow(reader)
    for number, (at, took) in enumerate(requests()):
        *first, last = split_in_parts(own(at, took), wrap, number) if number % 5 == 4 else [
            wrap(own(at, took), number, True)
        ]  # fmt: skip
        with log.open("a") as file:
            file.write("".join(f"{part}\n" for part in first))
        follow(reader)
        if number == 19:
            log.rename(tmp_path / "container.log.1")
        with log.open("a") as file:
            file.write(f"{last}\n")
        follow(reader)
    reader.close()
    times = pl.concat(tables)["request_time"].to_list()
    assert times == pytest.approx([took for _, took in requests()], abs=1e-9)


@pytest.mark.parametrize("name", ["json-file", "Filebeat", "CRI", "Compose", "json-file in Filebeat"])
@pytest.mark.parametrize("line", [own, nginx], ids=["own", "nginx"])
def test_the_last_minutes_begin_by_the_times_within(
    tmp_path: Path, line: Callable[[float, float], str], name: str
) -> None:
    log = written(tmp_path, [WRAPS[name](line(EPOCH + number, 0.02), number) for number in range(3_000)])
    with log.open("rb") as file:
        assert last_time(file.fileno(), line_times(file.fileno())) == EPOCH + 2_999
        tail = Tail(EPOCH + 3_000, 600, 1_000_000)
        file.seek(tail(file.fileno()))
        assert len(file.read().splitlines()) in {660, 661}
        assert tail.since == EPOCH + 2_399


# --- the doctor


@pytest.mark.parametrize("name", ["json-file", "Filebeat", "CRI", "Compose"])
@pytest.mark.parametrize("line", [own, nginx, haproxy], ids=["own", "nginx", "HAProxy"])
def test_the_doctor_reads_the_lines_within(tmp_path: Path, line: Callable[[float, float], str], name: str) -> None:
    def findings(wrap: Wrap) -> list[tuple[str, str, str, str]]:
        result = diagnose([str(written(tmp_path, wrapped(line, wrap)))])
        return [(each.code, each.what, each.why, each.fix) for each in result.findings]

    assert findings(WRAPS[name]) == findings(lambda text, _: text)


def test_the_doctor_names_the_format_within_that_lacks_times(tmp_path: Path) -> None:
    lines = wrapped(lambda at, took: nginx(at, took).rpartition(" 17698")[0], docker)
    (finding,) = diagnose([str(written(tmp_path, lines))]).findings
    assert finding.code == "log-format"
    assert "common or combined format" in finding.what


def test_detection_itself_reads_bare_lines() -> None:
    lines = wrapped(nginx, docker)
    form = detected_format(bare_lines(lines))
    assert form is not None
    assert form.name.endswith("$msec $request_time $upstream_addr $upstream_response_time")
