"""The parts of requests that Envoy proxied, from any combination of its operators: the truth is generated."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from sojourn.components.expressions import component_sum
from sojourn.model.components import COMPONENTS
from sojourn.readers.formats.detect import detected_format
from sojourn.readers.formats.envoy import envoy_parts, field_of
from sojourn.readers.formats.from_text import format_from_text
from sojourn.readers.formats.template import Variable
from wide_tables import one_of

MS = 1_000
TRUNCATED_S = 0.0021  # what milliseconds, cut twice, make of a difference
BEGIN_US = 1_769_860_800_000_000
BASE = {
    "start": "%START_TIME(%s.%6f)%", "code": "%RESPONSE_CODE%", "host": "%UPSTREAM_HOST%", "path": "%REQ(:PATH)%",
    "received": "%BYTES_RECEIVED%", "duration": "%DURATION%",
}  # fmt: skip
OPTIONAL = {
    "flags": "%RESPONSE_FLAGS%",
    "count": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "request": "%REQUEST_DURATION%",
    "request_tx": "%REQUEST_TX_DURATION%",
    "response": "%RESPONSE_DURATION%",
    "response_tx": "%RESPONSE_TX_DURATION%",
    "pool": "%UPSTREAM_CONNECTION_POOL_READY_DURATION%",
    "service": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
    "sent": "%COMMON_DURATION(DS_RX_BEG:US_TX_BEG:us)%",
    "header": "%COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)%",
    "end": "%COMMON_DURATION(US_RX_BEG:US_RX_END:us)%",
    "last": "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%",
    "connecting": "%COMMON_DURATION(DS_RX_BEG:US_CX_BEG:us)%",
    "connected": "%COMMON_DURATION(DS_RX_BEG:US_CX_END:us)%",
}


@dataclass(frozen=True)
class Request:
    """The instants of a request, µs after its start."""

    read: int
    built: int  # the upstream request of the last attempt
    connecting: int
    sent: int
    header: int
    end: int
    last: int
    attempts: int = 1
    body: bool = False

    @property
    def values(self) -> dict[str, object]:
        """Return key -> what Envoy writes: whole milliseconds or microseconds, cut."""
        sent_all = max(self.read, self.sent)
        return {
            "code": 200, "host": "10.0.0.1:80", "path": "/a", "received": 9 if self.body else 0,
            "duration": self.last // MS, "flags": "-", "count": self.attempts, "request": self.read // MS,
            "request_tx": sent_all // MS, "response": self.header // MS, "response_tx": (self.last - self.header) // MS,
            "pool": (self.sent - self.built) // MS, "service": str((self.header - self.read) // MS), "sent": self.sent,
            "header": self.header - self.sent, "end": self.end - self.header, "last": self.last,
            "connecting": self.connecting, "connected": self.sent,
        }  # fmt: skip

    @property
    def parts(self) -> dict[str, float]:
        """Return component -> its true seconds."""
        begin = max(self.read, self.built) if self.attempts == 1 else self.read
        retries = max(self.built - begin, 0)
        wait = max(self.sent - begin - retries, 0)
        connect = min(max(self.sent - max(self.connecting, begin + retries), 0), wait)
        parts = {
            "upload": begin, "retries": retries, "proxy_queue": wait - connect, "connect": connect,
            "unattributed": self.header - begin - retries - wait, "transfer": self.end - self.header,
            "send": self.last - self.end,
        }  # fmt: skip
        return {name: value / 1e6 for name, value in parts.items()}


def requests(seed: int, count: int = 30) -> list[Request]:
    """Return requests with and without a body, a wait for a connection, a new connection, and failed attempts."""
    draw = random.Random(seed)
    drawn = []
    for _ in range(count):
        body, attempts = draw.random() < 0.4, draw.choice((1, 1, 1, 2, 3))
        read = draw.randint(20_000, 300_000) if body else 40
        # Attempts after the first begin when the request has been read.
        built = 60 if attempts == 1 else read + draw.randint(10_000, 90_000)
        waited = draw.choice((0, 0, draw.randint(5_000, 250_000)))
        sent = built + waited
        connecting = draw.choice((sent - min(waited, 3_000), sent))
        header = max(read, sent) + draw.randint(4_000, 200_000)
        end = header + draw.randint(2_000, 80_000)
        drawn.append(
            Request(read, built, connecting, sent, header, end, end + draw.randint(50, 20_000), attempts, body)
        )
    return drawn


def written(folder: Path, form: dict[str, str], rows: list[dict[str, object]]) -> Any:
    """Return the split of a log with these rows."""
    path = folder / "access.log"
    begins = itertools.count(BEGIN_US, 1_000_000)
    path.write_text(
        "".join(
            json.dumps({key: {**row, "start": f"{next(begins) / 1e6:.6f}"}[key] for key in form}) + "\n" for row in rows
        )
    )
    text = "{" + ", ".join(f'"{key}": "{operator}"' for key, operator in form.items()) + "}"
    return sojourn.split(sojourn.log_file(path, text), columns=("uri",))


def split_rows(result: Any, count: int) -> pl.DataFrame:
    """Return the rows, of which none is refused, and none has a negative part or another sum than its response time."""
    assert result.records.reasons == {}
    rows = result.rows.with_columns(component_sum().alias("sum")).collect().sort("start")
    assert len(rows) == count
    assert rows.select((pl.col("sum") - pl.col("request_time")).abs().max()).item() < 1e-9
    parts = rows.select(pl.col(name).fill_null(0.0) for name in COMPONENTS)
    assert parts.select(pl.min_horizontal(pl.all().min())).item() >= -1e-9
    return rows


def combinations() -> list[tuple[str, ...]]:
    draw = random.Random(7)
    names = list(OPTIONAL)
    drawn = [tuple(name for name in names if draw.random() < 0.5) for _ in range(24)]
    return [(), ("service",), ("response",), ("request", "response"), tuple(names), *drawn]


@pytest.mark.parametrize("number", one_of(3, range(len(combinations()))))
def test_no_combination_of_operators_counts_time_twice(tmp_path: Path, number: int) -> None:
    form = BASE | {name: OPTIONAL[name] for name in combinations()[number]}
    truth = requests(number)
    rows = split_rows(written(tmp_path, form, [each.values for each in truth]), len(truth))
    whole = [each.last / 1e6 for each in truth]
    assert rows["request_time"].to_list() == pytest.approx(whole, abs=0.001)


def test_all_operators_give_the_true_parts(tmp_path: Path) -> None:
    truth = requests(1, 100)
    form = BASE | OPTIONAL
    rows = split_rows(written(tmp_path, form, [each.values for each in truth]), len(truth))
    for name in truth[0].parts:
        # The request's and the pool's times are cut to milliseconds: what they lack is in a part beside theirs.
        expected = [each.parts[name] for each in truth]
        assert rows[name].fill_null(0.0).to_list() == pytest.approx(expected, abs=TRUNCATED_S), name
    assert rows["attempts"].to_list() == [each.attempts for each in truth]


@pytest.mark.parametrize(
    ("names", "exact"),
    [
        (("request", "response"), ("upload",)),
        (("request", "service"), ("upload",)),
        (("response", "service"), ("upload",)),
        (("request", "response", "pool"), ("upload", "proxy_queue", "unattributed")),
        (("request", "service", "pool"), ("upload", "proxy_queue", "unattributed")),
        (("request", "request_tx", "response", "pool"), ("upload", "proxy_queue", "unattributed")),
        (("request", "sent", "response"), ("upload", "proxy_queue", "unattributed")),
        (("request", "sent", "header", "end"), ("upload", "proxy_queue", "unattributed", "transfer")),
        (("request", "request_tx", "response", "pool", "count"), ("upload", "retries", "proxy_queue", "unattributed")),
    ],
    ids="-".join,
)
def test_some_operators_give_some_true_parts(tmp_path: Path, names: tuple[str, ...], exact: tuple[str, ...]) -> None:
    truth = [each for each in requests(2, 100) if "count" in names or each.attempts == 1]
    form = BASE | {name: OPTIONAL[name] for name in names}
    rows = split_rows(written(tmp_path, form, [each.values for each in truth]), len(truth))
    for name in exact:
        expected = [each.parts[name] + (each.parts["connect"] if name == "proxy_queue" else 0) for each in truth]
        assert rows[name].to_list() == pytest.approx(expected, abs=TRUNCATED_S), name


def test_the_wait_is_not_read_where_it_may_have_passed_during_the_upload(tmp_path: Path) -> None:
    """Without the end of the request: of a request without a body it is the pool's time, of one with a body nothing."""
    plain = Request(40, 60, 80_060, 80_060, 120_000, 130_000, 130_100)
    upload = Request(150_000, 60, 80_060, 80_060, 170_000, 180_000, 180_100, body=True)
    form = BASE | {name: OPTIONAL[name] for name in ("service", "pool")}
    rows = split_rows(written(tmp_path, form, [plain.values, upload.values]), 2)
    assert rows["proxy_queue"].to_list() == [pytest.approx(0.08), 0.0]
    assert rows["unattributed"].to_list() == [pytest.approx(0.039), pytest.approx(0.02)]


def test_an_answer_before_the_end_of_the_request_is_none_of_the_upload(tmp_path: Path) -> None:
    """The app answered a request that was being forwarded: its end is later than the headers, or never came."""
    early = Request(40_000, 200, 200, 200, 10_000, 30_000, 40_100, body=True).values | {"service": None}
    never = early | {"request": None, "request_tx": None}
    form = BASE | {name: OPTIONAL[name] for name in ("request", "request_tx", "response", "response_tx", "pool")}
    rows = split_rows(written(tmp_path, form, [early, never]), 2)
    assert rows["upload"].to_list() == [0.0, 0.0]
    assert rows["unattributed"].to_list() == [pytest.approx(0.01), pytest.approx(0.01)]


def test_a_duration_that_exceeds_the_response_time_is_not_read(tmp_path: Path) -> None:
    wrong = Request(40, 60, 60, 60, 20_000, 21_000, 22_000).values | {"response": 900, "service": "900"}
    form = BASE | {name: OPTIONAL[name] for name in ("request", "response", "service")}
    rows = split_rows(written(tmp_path, form, [wrong]), 1)
    assert rows["header"].to_list() == [None]
    assert rows["unattributed"].to_list() == [pytest.approx(0.022)]


@dataclass(frozen=True)
class Ended:
    """How a request ended, as a real Envoy 1.40 wrote it, and the parts of it."""

    name: str
    values: dict[str, object]
    parts: dict[str, float] = field(default_factory=dict)
    status: int = 503
    attempts: int = 1
    answered: bool = False


HOST = "127.0.0.1:18081"
ENDINGS = [
    Ended("the circuit breaker refused", {"code": 503, "flags": "UO", "host": None, "count": 1, "duration": 0,
          "request": 0, "pool": 0}, attempts=0),
    Ended("no healthy host", {"code": 503, "flags": "UH", "host": None, "count": 0, "duration": 0, "request": 0},
          attempts=0),
    Ended("the connection was refused", {"code": 503, "flags": "URX,UF", "host": "127.0.0.1:18082", "count": 2,
          "duration": 1028, "request": 0, "pool": 501}, {"proxy_queue": 0.0, "unattributed": 1.028}, attempts=2),
    Ended("timed out at the app", {"code": 504, "flags": "UT", "count": 1, "duration": 298, "request": 0,
          "request_tx": 274, "pool": 273}, {"proxy_queue": 0.274, "unattributed": 0.024}, 504),
    Ended("timed out in the pool", {"code": 504, "flags": "UT", "count": 1, "duration": 96, "request": 0},
          {"proxy_queue": 0.096, "unattributed": 0.0}, 504),
    Ended("the client left the app", {"code": 0, "flags": "DC", "count": 1, "duration": 151, "request": 0,
          "request_tx": 0, "pool": 0}, {"unattributed": 0.151}, 499),
    Ended("the client left the pool", {"code": 0, "flags": "DownstreamConnectionTermination", "count": 1,
          "duration": 150, "request": 0}, {"proxy_queue": 0.15, "unattributed": 0.0}, 499),
    Ended("the client left in the answer", {"code": 200, "flags": "DC", "count": 1, "duration": 172, "request": 0,
          "request_tx": 0, "response": 21, "pool": 0, "service": "20"}, {"unattributed": 0.021, "transfer": 0.151}, 200,
          answered=True),
    Ended("the app closed the connection", {"code": 503, "flags": "UC", "count": 1, "duration": 31, "request": 0,
          "request_tx": 0, "pool": 0}, {"unattributed": 0.031}),
    Ended("the app failed three times", {"code": 503, "flags": "URX", "count": 3, "duration": 137, "request": 0,
          "request_tx": 95, "response": 136, "response_tx": 0, "pool": 0, "service": "136"},
          {"retries": 0.095, "unattributed": 0.041, "transfer": 0.001}, attempts=3, answered=True),
    Ended("rate limited", {"code": 429, "flags": "RL", "host": None, "count": 0, "duration": 1, "request": 0},
          {"send": 0.001}, 429, 0),
    Ended("answered by Envoy", {"code": 200, "flags": "-", "host": None, "count": 0, "duration": 2, "request": 0},
          {"send": 0.002}, 200, 0),
    Ended("there was no answer", {"code": 0, "flags": "-", "count": 1, "duration": 9, "request": 0}, {}, 0),
]  # fmt: skip


@pytest.mark.parametrize("ended", ENDINGS, ids=lambda ended: ended.name)
def test_flags_decide_whether_an_app_answered(tmp_path: Path, ended: Ended) -> None:
    absent = dict.fromkeys((*BASE, *OPTIONAL)) | {"host": HOST, "received": 0, "path": "/a"}
    names = ("flags", "count", "request", "request_tx", "response", "response_tx", "pool", "service")
    form = BASE | {name: OPTIONAL[name] for name in names}
    (row,) = split_rows(written(tmp_path, form, [absent | ended.values]), 1).to_dicts()
    assert (row["status"], row["attempts"], row["header"] is not None) == (ended.status, ended.attempts, ended.answered)
    assert {name: row[name] for name in ended.parts} == pytest.approx(ended.parts, abs=1e-6)


@pytest.mark.parametrize(
    ("operator", "value", "name", "second"),
    [
        ("%START_TIME%", "2026-01-31T12:00:00.250Z", "start", 0.25),
        ("%START_TIME(%s.%3f)%", "1769860800.250", "start", 0.25),
        ("%START_TIME(%s.%9f)%", "1769860800.250000001", "start", 0.25),
        ("%START_TIME(%s%3f)%", "1769860800250", "start", 0.25),
        ("%START_TIME(%s%9f)%", "1769860800250000000", "start", 0.25),
        ("%START_TIME(%s)%", "1769860800", "start", 0.0),
        ("%START_TIME(%Y/%m/%dT%H:%M:%S%z)%", "2026/01/31T12:00:00+0000", "start", 0.0),
        ("%START_TIME(%FT%T.%6f%Ez)%", "2026-01-31T13:00:00.250000+01:00", "start", 0.25),
        ("%START_TIME(%d/%b/%Y:%H:%M:%S %z)%", "31/Jan/2026:12:00:00 +0000", "start", 0.0),
        ("%START_TIME_LOCAL%", "2026-01-31T13:00:00.250+0100", "start", 0.25),
        ("%EMIT_TIME%", "2026-01-31T12:00:01.250Z", "emitted", 0.25),
    ],
)  # fmt: skip
def test_instants_of_envoy(tmp_path: Path, operator: str, value: str, name: str, second: float) -> None:
    assert field_of(*_operator(operator)).name == name
    path = tmp_path / "access.log"
    path.write_text(f"{value} 200 1000 8\n")
    form = f"{operator} %RESPONSE_CODE% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"
    result = sojourn.split(sojourn.log_file(path, form))
    assert result.records.reasons == {}
    start = result.rows.collect()["start"].item()
    assert (start.hour, start.minute, start.second + start.microsecond / 1e6) == (12, 0, second)


@pytest.mark.parametrize("operator", ["%START_TIME(%c)%", "%START_TIME_LOCAL(%Y-%m-%d %H:%M:%S)%"])
def test_an_instant_that_cannot_be_read_back_is_no_time(operator: str) -> None:
    with pytest.raises(sojourn.SojournError, match=r"time \(%START_TIME%\)"):
        format_from_text(f"{operator} %RESPONSE_CODE% %DURATION%")


def test_response_time_without_the_duration(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("1769860800.000 200 0 40 60\n")
    form = "%START_TIME(%s.%3f)% %RESPONSE_CODE% %REQUEST_DURATION% %RESPONSE_DURATION% %RESPONSE_TX_DURATION%"
    (row,) = split_rows(sojourn.split(sojourn.log_file(path, form)), 1).to_dicts()
    assert (row["request_time"], row["header"], row["attempts"]) == (pytest.approx(0.1), pytest.approx(0.04), 1)


def test_own_columns_are_no_fields_of_a_request() -> None:
    """A header called like a field of a request, arguments with parentheses and lengths, and digits in operators."""
    text = (
        "%REQ(STATUS)% %RESP(Connection):9% %DYNAMIC_METADATA(com.example:key):20% %FILTER_STATE(a.b:PLAIN)% "
        "%CEL(request.headers['x'])% %DOWNSTREAM_PEER_FINGERPRINT_256% %ROUNDTRIP_DURATION% %UPSTREAM_LOCAL_ADDRESS% "
        "%COMMON_DURATION(US_TX_BEG:own_point:us)% %START_TIME(%c)% %%"
    )
    names = [part.field.name for part in envoy_parts(text) if isinstance(part, Variable)]
    assert names == [
        "request_status", "response_connection", "dynamic_metadata_com_example_key", "filter_state_a_b_plain",
        "cel_request_headers_x", "downstream_peer_fingerprint_256", "roundtrip_duration", "upstream_local_address",
        "common_duration_us_tx_beg_own_point_us", "start_time_text",
    ]  # fmt: skip


def _operator(text: str) -> tuple[str, str | None]:
    name, _, argument = text.strip("%").partition("(")
    return name, argument.rstrip(")") or None


VECTORS = Path(__file__).parents[2] / "vectors/log_formats.json"
LINES = {case["name"]: case for case in json.loads(VECTORS.read_text("utf-8"))["cases"]}


@pytest.mark.parametrize("name", [name for name, case in LINES.items() if case["format"] == "envoy-json"])
def test_the_name_of_the_format_reads_every_naming_of_its_keys(tmp_path: Path, name: str) -> None:
    """The values are those that the recognised format has."""
    path = tmp_path / "access.log"
    path.write_text(LINES[name]["line"] + "\n")
    (row,) = sojourn.read(sojourn.log_file(path, "envoy-json")).rows.collect().to_dicts()
    expected = {
        key: LINES[name]["row"].get(key) for key in ("status", "request_time", "header", "upstream", "uri", "host")
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)


def test_nested_keys_of_envoy(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text('{"log": {"t": "2026-01-31T12:00:00.250Z", "c": 200}, "ms": {"all": 100, "head": "80"}}\n')
    form = (
        '{"log.t": "%START_TIME%", "log.c": "%RESPONSE_CODE%", "ms.all": "%DURATION%", '
        '"ms.head": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"}'
    )
    (row,) = split_rows(sojourn.split(sojourn.log_file(path, form)), 1).to_dicts()
    assert (row["request_time"], row["header"], row["status"]) == (pytest.approx(0.1), pytest.approx(0.08), 200)


@pytest.mark.parametrize("empty", [None, "-", "UNKNOWN", ""])
def test_values_that_envoy_leaves_empty(tmp_path: Path, empty: str | None) -> None:
    values: dict[str, object] = {
        "code": 404, "host": empty, "path": "/a", "received": 0, "duration": 3, "flags": "NR", "request": 0,
        "response": empty, "pool": empty, "service": empty,
    }  # fmt: skip
    form = BASE | {name: OPTIONAL[name] for name in ("flags", "request", "response", "pool", "service")}
    (row,) = split_rows(written(tmp_path, form, [values]), 1).to_dicts()
    assert (row["attempts"], row["header"], row["send"]) == (0, None, pytest.approx(0.003))


def test_json_of_another_program_is_none_of_envoy() -> None:
    line = {"@timestamp": "2026-01-31T12:00:00.250Z", "response_code": 200, "duration": 0.25, "request_method": "GET"}
    detected = detected_format([json.dumps(line)] * 20)
    assert detected is None or detected.name != "envoy-json"
