"""Tables of requests: public forms of a simulated queue, containers and dialects, units, and what is refused."""

from __future__ import annotations

import csv
import gzip
import heapq
import io
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from analysis_support import zstandard
from polars.testing import assert_frame_equal
from sojourn.cli import app
from sojourn.model.errors import SojournError
from sojourn.model.frame import COLUMNS
from sojourn.readers.log_blocks import TABLE_BYTES
from sojourn.readers.tables.cells import table_in
from typer.testing import CliRunner

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs/examples/tables"
LOG_FORMATS = json.loads((ROOT / "tests/vectors/log_formats.json").read_text())["cases"]
WORKERS, RATE, SERVICE, REQUESTS = 2, 16.0, 0.1, 12_000
EPOCH = 1_767_225_600
ANCHOR = datetime(2020, 1, 1, tzinfo=UTC)
ROLES = "arrival=t:rel,response=rt:s"


@dataclass(frozen=True)
class Request:
    """One request of a first-come-first-served queue; whole microseconds."""

    arrival: int
    wait: int
    service: int

    @property
    def response(self) -> int:
        return self.wait + self.service

    @property
    def end(self) -> int:
        return self.arrival + self.response


def simulated() -> list[Request]:
    rng = random.Random(11)
    free, at, requests = [0] * WORKERS, 0, []
    for _ in range(REQUESTS):
        at += round(rng.expovariate(RATE) * 1e6)
        service = round(rng.expovariate(1 / SERVICE) * 1e6)
        begin = max(at, heapq.heappop(free))
        heapq.heappush(free, begin + service)
        requests.append(Request(at, begin - at, service))
    return requests


QUEUE = simulated()


def mean_of(values: Iterator[int] | list[int]) -> float:
    return statistics.fmean(values) / 1e6


WAIT, WORK, RESPONSE = (mean_of([getattr(each, name) for each in QUEUE]) for name in ("wait", "service", "response"))


def seconds(us: int) -> str:
    return repr(us / 1e6)  # as pandas writes them: 1.6e-05 too


def written(
    path: Path, names: list[str], row: Callable[[Request], list[object]], requests: list[Request] = QUEUE,
    delimiter: str = ",",
) -> Path:  # fmt: skip
    with path.open("w", newline="") as out:
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(row(each) for each in requests)
    return path


def mean(result: sojourn.SplitResult, component: str) -> float:
    return float(result.to_dict()["components"][component]["mean"])


def split(path: Path, roles: str | Mapping[str, str], **options: Any) -> sojourn.SplitResult:
    return sojourn.split(sojourn.table_file(path, columns=roles), **options)


def frame(source: object) -> pl.DataFrame:
    return sojourn.read(source, columns=COLUMNS).rows.collect()  # type: ignore[arg-type]


def small(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_simulated_waits_agree_with_erlang_c() -> None:
    load = RATE * SERVICE
    waits = load**2 / 2 / (1 - load / 2) / (1 + load + load**2 / 2 / (1 - load / 2))
    assert pytest.approx(waits * SERVICE / (WORKERS - load), rel=0.2) == WAIT


# Public forms


def test_function_trace_with_service_and_response_in_seconds_is_exact(tmp_path: Path) -> None:
    names = ["time_worker", "time_frontend", "requestID", "funcName", "podID", "totalCost_frontend", "runtimeCost"]
    path = written(
        tmp_path / "huawei.csv",
        names,
        lambda r: [
            "",
            seconds(r.end),
            f"id{r.arrival}",
            17,
            "pool22-300-128-1",
            seconds(r.response),
            seconds(r.service),
        ],
    )
    result = split(
        path,
        "end=time_frontend:rel,response=totalCost_frontend:s,service=runtimeCost:s,backend=podID,route=funcName,"
        "id=requestID",
    )
    assert mean(result, "queueing_delay") == pytest.approx(WAIT, abs=1e-9)
    assert mean(result, "service_time") == pytest.approx(WORK, abs=1e-9)
    rows = result.rows.sort("start", "queueing_delay").collect()
    assert rows["queue_source"].unique().to_list() == ["duration"]
    assert rows["upstream"].unique().to_list() == ["pool22-300-128-1"]
    starts = ((rows["start"] - ANCHOR).dt.total_microseconds()).to_list()
    waits = [round(wait * 1e6) for wait in rows["queueing_delay"]]
    assert list(zip(starts, waits, strict=True)) == sorted((each.arrival, each.wait) for each in QUEUE)


def test_function_trace_with_ends_and_durations_has_service_times_alone(tmp_path: Path) -> None:
    path = written(
        tmp_path / "azure.csv",
        ["app", "func", "end_timestamp", "duration"],
        lambda r: ["a", "f", f"{r.end / 1e6:.9f}", f"{r.service / 1e6:.6f}"],
    )
    result = split(path, {"end": "end_timestamp:rel", "service": "duration:s", "route": "func", "backend": "app"})
    (facts,) = result.records.formats
    assert (facts.vantage, facts.step) == ("app", 1e-6)
    assert result.to_dict()["response_time"]["mean"] == pytest.approx(WORK, abs=1e-9)
    assert result.rows.select(pl.col("queueing_delay").count()).collect().item() == 0


@pytest.fixture(scope="module")
def call_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls in whole milliseconds, each recorded by the callee as well, with a negative duration."""

    def rows() -> Iterator[list[object]]:
        for number, each in enumerate(QUEUE):
            at, lasted = each.arrival // 1000, round(each.end / 1000) - each.arrival // 1000
            yield [2 * number, at, f"t{number}", "0.1", "front", "rpc", "cart", "getCart", lasted]
            if number % 4 == 0:
                yield [2 * number + 1, at, f"t{number}", "0.1", "front", "rpc", "cart", "getCart", -lasted - 1]

    path = tmp_path_factory.mktemp("alibaba") / "MSCallGraph.csv"
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["", "timestamp", "traceid", "rpcid", "um", "rpctype", "dm", "interface", "rt"])
        writer.writerows(rows())
    return path


def test_call_graph_in_milliseconds_refuses_negative_durations(call_graph: Path) -> None:
    result = split(call_graph, "arrival=timestamp:rel_ms,response=rt:ms,backend=dm,route=interface")
    assert result.records.reasons == {"invalid_request_time": REQUESTS // 4}
    first = result.records.rejects[0]
    assert (first["line"], str(first["raw"]).split(",")[0]) == (3, "1")
    assert result.to_dict()["response_time"]["mean"] == pytest.approx(RESPONSE, abs=0.001)
    assert result.requests == REQUESTS


def test_waits_are_inferred_from_arrivals_and_responses_of_milliseconds(call_graph: Path) -> None:
    table = sojourn.table_file(call_graph, "arrival=timestamp:rel_ms,response=rt:ms,backend=dm,route=interface")
    (backend,) = sojourn.infer(table).to_dict()["backends"]
    assert (backend["verdict"], backend["workers"]) == ("inferred", WORKERS)
    assert backend["wait"]["mean"] == pytest.approx(WAIT, rel=0.01)
    assert backend["service"]["mean"] == pytest.approx(WORK, rel=0.01)


def test_waits_are_inferred_from_a_column_of_responses(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", ["t", "rt"], lambda r: [seconds(r.arrival), seconds(r.response)])
    (backend,) = sojourn.infer(sojourn.table_file(path, ROLES)).to_dict()["backends"]
    assert backend["wait"]["mean"] == pytest.approx(WAIT, rel=0.01)


def test_whole_seconds_of_arrival_are_read_and_no_queue_is_inferred(tmp_path: Path) -> None:
    path = written(
        tmp_path / "burst.csv",
        ["Timestamp", "Session ID", "Elapsed time", "Model"],
        lambda r: [r.arrival // 1_000_000, "", seconds(r.response), "ChatGPT"],
    )
    table = sojourn.table_file(path, "arrival=Timestamp:rel,response=Elapsed time:s,route=Model")
    result = sojourn.split(table)
    assert result.to_dict()["response_time"]["mean"] == pytest.approx(RESPONSE, abs=1e-9)
    assert [each.result.verdict for each in result.inferred] == ["refused"]
    assert "steps of 1.0 s: queues are not inferred" in result.records.formats[0].reading


@pytest.mark.parametrize(
    "roles",
    [
        "arrival=a:us,response=r:us,wait=w:us",
        "arrival=a:us,response=r:us,service=s:us",
        "arrival=a:us,wait=w:us,service=s:us",
        "arrival=a:us,end=e:us,service=s:us",
        "end=e:us,response=r:us,wait=w:us,service=s:us",
    ],
)
def test_any_two_of_wait_service_and_response_give_the_third(tmp_path: Path, roles: str) -> None:
    at = EPOCH * 1_000_000
    path = written(
        tmp_path / "t.csv",
        ["a", "e", "r", "w", "s"],
        lambda r: [at + r.arrival, at + r.end, r.response, r.wait, r.service],
    )
    result = split(path, roles)
    rows = result.rows.collect()
    parts = ([round(part * 1e6) for part in rows[name]] for name in ("queueing_delay", "service_time"))
    assert sorted(zip(*parts, strict=True)) == sorted((each.wait, each.service) for each in QUEUE)
    assert result.to_dict()["response_time"]["mean"] == pytest.approx(RESPONSE, abs=1e-9)
    assert rows["send"].abs().max() < 1e-9  # type: ignore[operator]


def test_response_beyond_wait_and_service_is_send(tmp_path: Path) -> None:
    path = small(tmp_path, "a,r,w,s\n1,0.9,0.2,0.5\n2,0.8,0,0.5\n")
    rows = split(path, "arrival=a:rel,response=r:s,wait=w:s,service=s:s").rows.collect()
    assert rows["queueing_delay"].to_list() == pytest.approx([0.2, 0.0])
    assert rows["send"].to_list() == pytest.approx([0.2, 0.3])


def test_connect_and_proxy_queue_are_parts_of_the_response(tmp_path: Path) -> None:
    path = small(tmp_path, "a,r,c,q,s,b,m,h,w,code\n1,100,3,20,50,b1,GET,h1,w1,200\n2,90,2,0,60,b2,PUT,h2,w2,504\n")
    rows = split(
        path,
        "arrival=a:rel,response=r:ms,connect=c:ms,proxy_queue=q:ms,service=s:ms,backend=b,method=m,host=h,worker=w,"
        "status=code",
        all_columns=True,
    ).rows.collect()
    first, second = rows.to_dicts()
    assert first["queueing_delay"] == pytest.approx(0.05)
    assert (first["connect"], first["proxy_queue"], first["queue"]) == pytest.approx((0.003, 0.02, 0.027))
    assert (first["worker"], first["method"], first["host"]) == ("w1", "GET", "h1")
    assert (second["status"], second["answered"], second["queue"]) == (504, False, None)


# Units


@pytest.mark.parametrize("factor", [1, 1_000, 1_000_000, 1_000_000_000])
def test_instants_since_1970_show_their_unit(tmp_path: Path, factor: int) -> None:
    path = small(tmp_path, "t,rt\n" + "".join(f"{(EPOCH + n) * factor},250\n" for n in range(5)))
    rows = frame(sojourn.table_file(path, "arrival=t,response=rt:ms"))
    assert rows["start"].to_list() == [datetime.fromtimestamp(EPOCH + n, UTC) for n in range(5)]
    assert rows["request_time"].to_list() == [0.25] * 5


def test_nanoseconds_since_1970_are_rounded_to_microseconds(tmp_path: Path) -> None:
    path = small(tmp_path, f"t,rt\n{EPOCH}123456789,1500\n{EPOCH}999999001,2000\n")
    rows = frame(sojourn.table_file(path, "arrival=t:ns,response=rt:ns"))
    assert [each.microsecond for each in rows["start"]] == [123457, 999999]  # the nearest
    assert rows["request_time"].to_list() == [2e-6, 2e-6]


@pytest.mark.parametrize(
    "text", ["2026-01-31 12:00:00.25", "2026-01-31T12:00:00.250000Z", "2026-01-31 14:00:00.2500000+02:00"]
)
def test_dates_are_recognised(tmp_path: Path, text: str) -> None:
    path = small(tmp_path, f"t,latency_ms\n{text},50\n")
    for unit in ("", ":iso"):
        rows = frame(sojourn.table_file(path, f"arrival=t{unit},response=latency_ms"))
        assert rows["start"].to_list() == [datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)]
        assert rows["request_time"].to_list() == [0.05]  # by the name of its column


@pytest.mark.parametrize(
    ("name", "unit"),
    [("latency_ms", 0.007), ("durationUs", 7e-6), ("elapsed (s)", 7.0), ("took nanoseconds", 0.0), ("rtMillis", 0.007)],
)
def test_the_name_of_a_column_may_say_the_unit_of_a_duration(tmp_path: Path, name: str, unit: float) -> None:
    path = small(tmp_path, f"t,{name}\n{EPOCH},7\n{EPOCH + 60},7\n")
    table = sojourn.table_file(path, f"arrival=t,response={name}")
    assert frame(table)["request_time"].to_list() == pytest.approx([unit, unit], abs=1e-12)
    assert f"Units from the names of columns: {name}" in sojourn.read(table).records.formats[0].reading


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("arrival=t:rel,response=rt", "the unit of rt is unknown"),
        ("arrival=t,response=rt:s", "the unit of t is unknown: 1.5 is no instant since 1970"),
        ("arrival=t:ms,response=rt:s", "t does not hold instants since 1970 in ms"),
        ("arrival=t:iso,response=rt:s", "t holds no dates"),
        ("arrival=unix:rel,response=rt:s", "unix counts since 1970 in s"),
        ("arrival=unix:ms,response=rt:s", "give arrival=unix:s"),
        ("arrival=t:rel,response=rt:s,service=slow:s", "service=slow:s is longer than response=rt:s in 30 of 30 rows"),
        ("arrival=t:rel,response=huge:s", "the unit is wrong"),
        ("arrival=date:ms,response=rt:s", "date holds dates; leave its unit out"),
        ("arrival=word,response=rt:s", "word holds neither numbers nor dates"),
    ],
)
def test_a_unit_that_the_values_refute_is_refused(tmp_path: Path, roles: str, message: str) -> None:
    rows = "".join(f"{n + 1.5},{EPOCH + n},0.2,200,90000000,2026-01-31 10:00:{n:02},x\n" for n in range(30))
    path = small(tmp_path, "t,unix,rt,slow,huge,date,word\n" + rows)
    with pytest.raises(SojournError, match=message.replace("(", r"\(")) as caught:
        split(path, roles)
    assert str(caught.value).startswith(f"{path}: ")


def test_durations_longer_than_the_trace_are_named(tmp_path: Path) -> None:
    burst = small(tmp_path, "t,rt\n" + "".join(f"{n / 100},5\n" for n in range(30)))
    table = sojourn.table_file(burst, ROLES)
    assert "check the unit" in sojourn.read(table).records.formats[0].reading
    usual = small(tmp_path, "t,rt\n" + "".join(f"{n},5\n" for n in range(30)))
    assert "check the unit" not in sojourn.read(sojourn.table_file(usual, ROLES)).records.formats[0].reading


# Containers and dialects

TEXT = "t,rt,route,pod\n1.5,0.25,/a,b1\n2.5,0.5,/b,b2\n4,0.125,/a,b1\n"
ROUTES = "arrival=t:rel,response=rt:s,route=route,backend=pod"


def dialects() -> dict[str, tuple[str, bytes]]:
    rows = [line.split(",") for line in TEXT.splitlines()]
    quoted = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    return {
        "plain": ("a.csv", TEXT.encode()),
        "tabs": ("a.tsv", TEXT.replace(",", "\t").encode()),
        "semicolons": ("a.csv", TEXT.replace(",", ";").encode()),
        "bars": ("a.txt", TEXT.replace(",", "|").encode()),
        "byte order mark": ("a.csv", b"\xef\xbb\xbf" + TEXT.encode()),
        "carriage returns": ("a.csv", TEXT.replace("\n", "\r\n").encode()),
        "no last line end": ("a.csv", TEXT.rstrip("\n").encode()),
        "quotes": ("a.csv", quoted.encode()),
        "blanks": ("a.csv", TEXT.replace(",", " , ").encode()),
        "gzip": ("a.csv.gz", gzip.compress(TEXT.encode())),
        "zstd": ("a.csv.zst", zstandard(TEXT.encode())),
    }


@pytest.mark.parametrize("name", dialects())
def test_reads_every_dialect(tmp_path: Path, name: str) -> None:
    file, content = dialects()[name]
    path = tmp_path / file
    path.write_bytes(content)
    rows = frame(sojourn.table_file(path, ROUTES))
    assert rows["route"].to_list() == ["/a", "/b", "/a"]
    assert rows["upstream"].to_list() == ["b1", "b2", "b1"]
    assert rows["request_time"].to_list() == [0.25, 0.5, 0.125]
    assert rows["start"].to_list() == [ANCHOR + timedelta(seconds=second) for second in (1.5, 2.5, 4)]
    assert rows["status"].to_list() == [200] * 3


def test_reads_parquet_as_the_same_text(tmp_path: Path) -> None:
    table = pl.read_csv(TEXT.encode())
    table.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_bytes(TEXT.encode())
    one, other = (frame(sojourn.table_file(tmp_path / name, ROUTES)) for name in ("a.csv", "a.parquet"))
    assert_frame_equal(one, other)


def test_reads_the_types_of_parquet(tmp_path: Path) -> None:
    begin = datetime(2026, 1, 31, 12, tzinfo=UTC)
    table = pl.DataFrame(
        {
            "t": pl.Series(
                [begin, begin + timedelta(microseconds=1_000_001)], dtype=pl.Datetime("ns", "Europe/Berlin")
            ),
            "lasted": [timedelta(microseconds=16), timedelta(seconds=2)],
            "tiny": [1.6e-5, None],
            "tags": [["x"], ["y"]],
            "text": ["a\nb", 'c "d", e'],
        }
    )
    table.write_parquet(tmp_path / "a.parquet")
    source = sojourn.table_file(tmp_path / "a.parquet", "arrival=t,response=lasted,service=tiny:s,route=text")
    rows = frame(source)
    assert rows["start"].to_list() == table["t"].dt.convert_time_zone("UTC").to_list()
    assert rows["request_time"].to_list() == [1.6e-5, 2.0]
    assert rows["app_service_time"].to_list() == [1.6e-5, None]
    assert rows["route"].to_list() == ["a b", 'c "d", e']
    with pytest.raises(SojournError, match="lasted has a type with its own unit: leave ms out"):
        frame(sojourn.table_file(tmp_path / "a.parquet", "arrival=t,response=lasted:ms"))


def test_reads_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small(tmp_path, TEXT)
    with path.open("rb") as stdin:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        assert frame(sojourn.table_file("-", ROUTES))["route"].to_list() == ["/a", "/b", "/a"]


def test_quoted_cells_hold_delimiters_and_quotes(tmp_path: Path) -> None:
    path = small(tmp_path, 't,rt,route,pod\n1,0.5,"/a, ""b"", c","x, y : z"\n')
    (row,) = frame(sojourn.table_file(path, ROUTES)).to_dicts()
    assert (row["route"], row["upstream"], row["attempts"]) == ('/a, "b", c', "x,y:z", 1)


def test_columns_without_a_role_are_read_by_their_name(tmp_path: Path) -> None:
    path = small(tmp_path, "t,rt,tenant\n1,0.5,acme\n2,0.5,\n")
    rows = sojourn.read(sojourn.table_file(path, ROLES), columns=("time", "tenant", "other")).rows.collect()
    assert rows["tenant"].to_list() == ["acme", None]
    assert rows["other"].to_list() == [None, None]


def test_a_table_of_several_blocks_is_read_line_by_line(tmp_path: Path) -> None:
    count = 200_000
    pad = "x" * 40
    lines = [f"{n},0.5,{pad}" for n in range(count)]
    lines[150_000] = f"{150_000},none,{pad}"
    path = small(tmp_path, "t,rt,pad\n" + "\n".join(lines) + "\n")
    assert path.stat().st_size > 2 * TABLE_BYTES
    requests = sojourn.read(sojourn.table_file(path, ROLES), columns=("start", "request_time"))
    assert (requests.records.read, requests.records.reasons) == (count, {"missing_request_time": 1})
    assert requests.records.rejects[0]["line"] == 150_002
    starts = requests.rows.select(((pl.col("start") - ANCHOR).dt.total_seconds()).sum()).collect().item()
    assert starts == count * (count - 1) // 2 - 150_000


def test_several_tables_are_one_trace(tmp_path: Path) -> None:
    small(tmp_path, "t,rt\n1,0.5\n", "p1.csv")
    small(tmp_path, "rt,t\n0.25,2\n", "p2.csv")
    rows = frame(sojourn.table_file(tmp_path / "p*.csv", ROLES))
    assert rows["request_time"].to_list() == [0.5, 0.25]
    assert rows["proxy"].to_list() == [None, None]


# Rows that are refused, and tables


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("abc,1,0,200", "invalid_time"),
        (",1,0,200", "missing_time"),
        ("5,,0,200", "missing_request_time"),
        ("5,nan,0,200", "missing_request_time"),
        ("5,-1,0,200", "invalid_request_time"),
        ('5,"0,5",0,200', "invalid_request_time"),
        ("5,inf,0,200", "invalid_request_time"),
        ("5,1e12,0,200", "invalid_request_time"),
        ("5,1,-0.5,200", "invalid_duration"),
        ("5,1,abc,200", "invalid_duration"),
        ("5,1,2,200", "invalid_duration"),
        ("5,1,0,", "missing_status"),
        ("5,1,0,OK", "invalid_status"),
        ("5,1,0", "other_format"),
        ("5,1,0,200,7", "other_format"),
        ('5,1,0,"200', "other_format"),
        ('5,1,0,2"0"0', "other_format"),
        ("", "empty_line"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_reason(tmp_path: Path, row: str, reason: str) -> None:
    good = "1,1,0.5,200\n"
    path = small(tmp_path, f"t,rt,wait,status\n{good}{good}{row}\n{good}")
    requests = sojourn.read(sojourn.table_file(path, "arrival=t:rel,response=rt:s,wait=wait:s,status=status"))
    assert requests.records.reasons == {reason: 1}
    assert requests.records.rejects == [{"source": str(path), "line": 4, "reason": reason, "raw": row}]
    assert requests.rows.collect().height == 3


@pytest.mark.parametrize("cell", ["", "-", "nan", "NULL", "None"])
def test_an_empty_cell_is_an_unknown_service_time(tmp_path: Path, cell: str) -> None:
    path = small(tmp_path, f"t,rt,svc\n1,0.5,0.2\n2,0.5,{cell}\n3,0.5,0.2\n")
    rows = split(path, f"{ROLES},service=svc:s").rows.collect()
    assert rows["queueing_delay"].to_list() == [pytest.approx(0.3), None, pytest.approx(0.3)]
    assert rows["request_time"].to_list() == [0.5] * 3


@pytest.mark.parametrize("status", ["200", "200.0", " 200 "])
def test_reads_a_status(tmp_path: Path, status: str) -> None:
    path = small(tmp_path, f"t,rt,code\n1,0.5,{status}\n2,0.5,500\n")
    table = sojourn.table_file(path, f"{ROLES},status=code")
    assert frame(table)["status"].to_list() == [200, 500]
    assert "no status" not in sojourn.read(table).records.formats[0].reading


def test_a_table_without_status_says_that_all_were_answered(tmp_path: Path) -> None:
    table = sojourn.table_file(small(tmp_path, "t,rt\n1,0.5\n"), ROLES)
    reading = sojourn.read(table).records.formats[0].reading
    assert "no status: every request counts as answered" in reading
    assert "set to 2020-01-01T00:00:00Z" in reading


@pytest.mark.parametrize(
    ("text", "roles", "message"),
    [
        (
            TEXT,
            "arrival=t:rel,response=latency:s",
            "no column 'latency' for response; The columns are t, rt, route, pod",
        ),
        (TEXT, "arrival=t:rel,response=rtt:s", "did you mean rt"),
        (TEXT, "arrival=t:rel,response=RT:s", "did you mean rt"),
        (TEXT, "arrival=t:rel", "end, response or service is missing. .*the columns are t, rt, route, pod"),
        (TEXT, "response=rt:s", "arrival or end is missing"),
        (TEXT, "arrival=t:rel,wait=rt:s", "end, response or service is missing"),
        (TEXT, "end=t:rel,route=pod", "arrival, response or service is missing"),
        (TEXT, "arrival=t:rel,end=t:rel,response=rt:s", "one too many"),
        ("t,rt,rt\n1,2,3\n", ROLES, "rt is the name of 2 columns"),
        ("1.5,0.25\n2.5,0.5\n", ROLES, "its first line holds numbers"),
        ("", ROLES, "no line with the names of its columns"),
        ("\n\n", ROLES, "no line with the names of its columns"),
        ("a\0b,c\n", ROLES, "not the text of a table"),
        ('{"time": "1"}\n', ROLES, "there is no column 't'"),
    ],
)
def test_a_table_without_what_a_request_needs_is_refused(
    tmp_path: Path, text: str, roles: str, message: str
) -> None:  # fmt: skip
    path = small(tmp_path, text)
    with pytest.raises(SojournError, match=message) as caught:
        sojourn.read(sojourn.table_file(path, roles))
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ("arival=t,response=rt", "'arival' is not a role .did you mean arrival"),
        ("arrival=t,arrival=rt", "the role arrival has two columns"),
        ("arrival", "is not ROLE=COLUMN"),
        ("response=rt:iso,arrival=t", "'iso' is not a unit of it; units of response are s, ms, us, ns"),
        ("response=rt:min,arrival=t", "'min' is not a unit of it"),
        ("arrival=", "arrival has no column"),
        ("", "no column"),
    ],
)
def test_wrong_roles_are_refused_before_the_table_is_opened(roles: str, message: str) -> None:
    with pytest.raises(SojournError, match=message):
        sojourn.table_file("nowhere.csv", roles)


def test_a_table_with_names_only_has_no_request(tmp_path: Path) -> None:
    path = small(tmp_path, "t,rt\n")
    assert sojourn.read(sojourn.table_file(path, ROLES)).records.read == 0
    result = CliRunner().invoke(app, ["split", str(path), "--columns", ROLES])
    assert (result.exit_code, str(result.exception)) == (1, "no request: the sources are empty")


def test_a_name_of_a_column_may_hold_commas_and_colons(tmp_path: Path) -> None:
    path = small(tmp_path, '"t, s","rt: all",text:x\n1,0.5,/a\n')
    rows = frame(sojourn.table_file(path, "arrival=t, s:rel,response=rt: all:s,route=text:x"))
    assert (rows["request_time"].to_list(), rows["route"].to_list()) == ([0.5], ["/a"])


def test_damaged_compression_loses_only_what_follows(tmp_path: Path) -> None:
    rng = random.Random(2)
    text = "t,rt\n" + "".join(f"{n},{rng.random():.6f}\n" for n in range(50_000))
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(text.encode())[:-20_000])
    records = sojourn.read(sojourn.table_file(path, ROLES)).records
    assert records.reasons["damaged_compression"] == 1
    assert records.accepted > 30_000


# Without roles


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("huawei-2025", "end=time_frontend:rel_UNIT,response=totalCost_frontend:UNIT,service=runtimeCost:UNIT,"
         "backend=podID,route=funcName,id=requestID"),
        ("azure-functions-2021", "end=end_timestamp:rel_UNIT,response=duration:UNIT,route=func"),
        ("alibaba-2022", "arrival=timestamp:rel_UNIT,response=rt:UNIT,backend=dminstanceid,route=interface"),
        ("burstgpt", "arrival=Timestamp:rel_UNIT,response=Elapsed time:UNIT"),
    ],
)  # fmt: skip
def test_a_table_without_roles_is_refused_with_the_likely_ones(tmp_path: Path, name: str, option: str) -> None:
    text = EXAMPLES / f"{name}.csv"
    parquet = tmp_path / f"{name}.parquet"
    pl.read_csv(text).write_parquet(parquet)
    for path in (text, parquet):
        with pytest.raises(SojournError) as caught:
            sojourn.read(path)
        assert option in str(caught.value)
        assert str(path) in str(caught.value)
    diagnosis = sojourn.diagnose(str(text))
    assert [(each.code, each.severity) for each in diagnosis.findings] == [("log-format", "error")]
    assert option in diagnosis.findings[0].why


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("azure-llm-2023", "No column has the duration of a request"),
        ("burstgpt-1", "No column has the duration of a request"),
        ("azure-functions-2019", "No column has the instant of a request"),
    ],
)
def test_a_public_table_without_requests_is_refused_with_what_it_lacks(name: str, missing: str) -> None:
    path = EXAMPLES / f"{name}.csv"
    with pytest.raises(SojournError, match=missing):
        sojourn.read(path)
    with pytest.raises(SojournError, match="is missing"):
        sojourn.read(sojourn.table_file(path, {"route": path.read_text().split(",")[0]}))


@pytest.mark.parametrize("case", LOG_FORMATS, ids=[case["name"] for case in LOG_FORMATS])
def test_a_log_is_no_table(case: dict[str, Any]) -> None:
    assert table_in([case["line"]] * 3) is None


@pytest.mark.parametrize(
    "lines",
    [
        ["time,rt"],
        ["time", "1"],
        ["the server, started", "took 5 s, and 6 s"],
        ["a,a", "1,2"],
        ["one,two", "three,four"],
        ['{"a": 1,"b": 2}', '{"a": 1,"b": 2}'],
    ],
)
def test_other_lines_are_no_table(lines: list[str]) -> None:
    assert table_in(lines) is None


# Commands


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(
        tmp_path_factory.mktemp("table") / "t.csv",
        ["t", "rt", "svc", "pod", "w", "func"],
        lambda r: [seconds(r.arrival), seconds(r.response), seconds(r.service), "pod-1", r.arrival % WORKERS, "/f"],
    )


OPTION = "arrival=t:rel,response=rt:s,service=svc:s,backend=pod,route=func"


@pytest.mark.parametrize(
    ("words", "figure", "truth"),
    [
        (["split"], ("components", "queueing_delay", "mean"), WAIT),
        (["blame", "--workers", "2"], ("waited",), WAIT * REQUESTS),
        (["whatif", "--set", "workers=+1", "--workers", "2"], ("measured", "response_time", "mean"), RESPONSE),
        (["laws", "--workers", "2"], ("stations", 0, "measured", "mean_wait"), WAIT),
        (["depth", "--workers", "2"], ("backends", 0, "mean_wait"), WAIT),
        (["goodput"], ("requests",), REQUESTS),
        (["capacity", "--slo", "p99=5"], ("requests",), REQUESTS),
        (["clock"], (), None),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_every_command_reads_a_table(
    table: Path, words: list[str], figure: tuple[str | int, ...], truth: float | None
) -> None:
    result = CliRunner().invoke(app, [words[0], str(table), "--columns", OPTION, "--json", *words[1:]])
    if truth is None:
        assert "clocks are unknown" in result.output or result.exit_code == 0
        return
    assert result.exit_code == 0, result.output
    value: Any = json.loads(result.stdout)
    for key in figure:
        value = value[key]
    assert math.isclose(value, truth, rel_tol=1e-5)


def test_compare_and_plot_and_doctor_read_a_table(table: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    same = run(app, ["compare", str(table), str(table), "--columns", OPTION, "--json"])
    assert same.exit_code == 0, same.output
    picture = run(app, ["plot", str(table), "ccdf", "--out", str(tmp_path / "x.json"), "--columns", OPTION])
    assert picture.exit_code == 0, picture.output
    healthy = run(app, ["doctor", str(table), "--columns", OPTION, "--json"])
    assert healthy.exit_code == 0, healthy.output
    assert [each["code"] for each in json.loads(healthy.stdout)["findings"]] == ["log-format"]


def test_roles_come_from_several_options(table: Path) -> None:
    words = ["split", str(table), "--json"]
    one = CliRunner().invoke(app, [*words, "--columns", "arrival=t:rel,response=rt:s,service=svc:s"])
    parts = ("arrival=t:rel", "response=rt:s", "service=svc:s")
    several = CliRunner().invoke(app, [*words, *(word for part in parts for word in ("--columns", part))])
    assert (several.exit_code, several.stdout) == (0, one.stdout)


def test_columns_and_log_format_exclude_each_other(table: Path) -> None:
    result = CliRunner().invoke(app, ["split", str(table), "--columns", OPTION, "--log-format", "haproxy"])
    assert (result.exit_code, str(result.exception)[:9]) == (1, "--columns")
