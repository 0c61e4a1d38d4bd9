"""The stand-in for ClickHouse answers, refuses and reads data as the server does."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pytest
import sojourn
from clickhouse_http import StandIn
from sojourn.model.errors import SojournError
from sojourn.store import connect, init, load

# The path comes first.
from split_support import BAD_LINES, Settings, as_lines, differences, simulated_log, without_duplicates

pytest.importorskip("chdb")

INSERT = "INSERT INTO {database:Identifier}.{table:Identifier} FORMAT JSONEachRow"
TABLE = "CREATE TABLE t (n UInt8, d Nullable(DateTime64(6, 'UTC')), s String) ENGINE = MergeTree ORDER BY n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with StandIn(tmp_path_factory.mktemp("stand-in")) as started:
        yield started


@pytest.fixture
def table(server: StandIn) -> Iterator[StandIn]:
    """A server with an empty table ``t`` in the database ``d``."""
    for sql in ("CREATE DATABASE d", TABLE):
        assert post(server, sql, database="d" if sql == TABLE else "default")[0] == 200
    yield server
    assert post(server, "DROP DATABASE d SYNC")[0] == 200


def post(server: StandIn, body: str | bytes = b"", **text: str) -> tuple[int, str, str]:
    """(status, error's code, body)."""
    data = body.encode() if isinstance(body, str) else body
    status, headers, answer = server.request("POST", "/?" + urlencode(text), data)
    return status, headers.get("X-ClickHouse-Exception-Code", ""), answer.decode()


def insert(server: StandIn, *rows: str | bytes, table: str = "t", **settings: str) -> tuple[int, str, str]:
    data = b"".join((row.encode() if isinstance(row, str) else row) + b"\n" for row in rows)
    return post(server, data, query=INSERT, param_database="d", param_table=table, **settings)


def zstd(data: bytes) -> bytes:
    target = pa.BufferOutputStream()
    with pa.CompressedOutputStream(target, "zstd") as packed:
        packed.write(data)
    return target.getvalue().to_pybytes()


def test_answers_queries_like_a_server(table: StandIn) -> None:
    assert table.request("GET", "/ping")[::2] == (200, b"Ok.\n")
    assert table.request("GET", "/?query=SELECT%201")[::2] == (200, b"1\n")
    assert post(table, "SELECT 1, 'a'") == (200, "", "1\ta\n")
    assert post(table, query="SELECT {x:String}", param_x="it's") == (200, "", "it\\'s\n")
    assert post(table, "SELECT 1 AS one FORMAT JSONEachRow")[2] == '{"one":1}\n'
    assert post(table, "SELECT 1 AS one", default_format="CSVWithNames")[2] == '"one"\n1\n'
    assert post(table, "SELECT currentDatabase()", database="d")[2] == "d\n"
    assert post(table, "SELECT currentDatabase()")[2] == "default\n"  # nothing of a request is left for the next


def test_data_is_read_as_its_format_says(table: StandIn) -> None:
    assert insert(table, '{"n":1,"d":1767225600.123456,"s":"FORMAT CSV"}', '{"n":2,"d":null}')[:2] == (200, "")
    rows = [{"n": 1, "d": "2026-01-01 00:00:00.123456", "s": "FORMAT CSV"}, {"n": 2, "d": None, "s": ""}]
    assert table.ask("SELECT * FROM t ORDER BY n", "d") == rows
    arguments = urlencode({"query": "INSERT INTO d.t FORMAT JSONEachRow"})
    for encoding, packed in (("gzip", gzip.compress(b'{"n":3}\n')), ("zstd", zstd(b'{"n":6}\n{"n":7}\n'))):
        assert table.request("POST", f"/?{arguments}", packed, {"Content-Encoding": encoding})[0] == 200
    assert post(table, "INSERT INTO d.t (n) VALUES (4)")[0] == 200
    assert post(table, 'INSERT INTO d.t FORMAT JSONEachRow\n{"n":5}')[0] == 200
    assert post(table, "INSERT INTO d.t (n) SELECT n + 10 FROM d.t")[0] == 200
    matches = [row["n"] for row in table.ask("SELECT n FROM t ORDER BY n", "d")]
    assert matches == [*range(1, 8), *range(11, 18)]


def test_data_can_be_the_table_input(table: StandIn) -> None:
    query = "INSERT INTO d.t (n, s) SELECT length(line), line FROM input('line String') FORMAT LineAsString"
    assert post(table, "a\nSELECT FORMAT input(\n", query=query)[0] == 200
    assert table.ask("SELECT n, s FROM t ORDER BY n", "d") == [
        {"n": 1, "s": "a"},
        {"n": 20, "s": "SELECT FORMAT input("},
    ]


@pytest.mark.parametrize(
    ("row", "settings", "status", "code"),
    [
        ('{"n":1,"unknown":2}', {"input_format_skip_unknown_fields": "0"}, 400, "117"),
        ('{"n":"many"}', {}, 400, "27"),
        ('{"n":1', {}, 500, "33"),
        ('{"n":1,"d":"yesterday"}', {}, 400, None),
        ("no json", {}, 400, "27"),
        (b"\xff\xfe", {}, 400, "27"),
        ('{"n":1}', {"no_such_setting": "1"}, 404, "115"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    table: StandIn, row: str | bytes, settings: dict[str, str], status: int, code: str | None
) -> None:
    result = insert(table, '{"n":9}', row, **settings)
    assert result[0] == status, result
    assert code is None or result[1] == code
    assert result[2].startswith(f"Code: {result[1]}. DB::Exception: ")
    assert table.ask("SELECT count() AS n FROM t", "d") == [{"n": 0}]  # all of it or nothing


def test_settings_of_the_url_decide(table: StandIn) -> None:
    assert insert(table, '{"n":1,"unknown":2}', input_format_skip_unknown_fields="1")[0] == 200
    nanoseconds = '{"n":2,"d":"2026-01-01T00:00:00.123456789Z"}'
    assert insert(table, nanoseconds, date_time_input_format="best_effort")[0] == 200


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELEC 1", 400, "62"),
        ("SELECT * FROM nowhere.t", 404, "81"),
        ("SELECT * FROM default.nothing", 404, "60"),
        ("SELECT nothing", 404, "47"),
        ("SELECT throwIf(1)", 500, "395"),
        ("SELECT {x:UInt8}", 500, "456"),
    ],
)
def test_errors_have_the_servers_statuses(server: StandIn, sql: str, status: int, code: str) -> None:
    assert post(server, sql)[:2] == (status, code)


def test_an_insert_into_nothing_is_refused(table: StandIn) -> None:
    assert insert(table, '{"n":1}', table="nothing")[:2] == (404, "60")


def test_a_get_writes_nothing(table: StandIn) -> None:
    status, headers, _ = table.request("GET", "/?" + urlencode({"query": "INSERT INTO d.t (n) VALUES (1)"}))
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (500, "164")


def test_stand_in_refuses_temporarily(table: StandIn) -> None:
    before = table.control(refuse=60)["refused"]
    assert post(table, "SELECT 1")[0] == 503
    assert table.control(refuse=0)["refused"] == before + 1
    assert post(table, "SELECT 1")[0] == 200


def test_an_answer_may_be_lost_and_its_rows_not(table: StandIn) -> None:
    table.control(lose=60)
    assert insert(table, '{"n":1}')[0] == 503
    assert table.control(lose=0)["lost"] == 1
    assert table.ask("SELECT count() AS n FROM t", "d") == [{"n": 1}]


def test_stand_in_checks_credentials(tmp_path: Path) -> None:
    with StandIn(tmp_path, ("writer", "right")) as server:
        for user, password, status in (("writer", "right", 200), ("writer", "wrong", 403), ("", "", 403)):
            basic = base64.b64encode(f"{user}:{password}".encode()).decode()
            for headers in (
                {"Authorization": f"Basic {basic}"},
                {"X-ClickHouse-User": user, "X-ClickHouse-Key": password},
            ):
                assert server.request("POST", "/", b"SELECT 1", headers)[0] == status
        assert server.request("POST", "/", b"SELECT 1")[0] == 403
        with pytest.raises(SojournError, match="user or password was refused"):
            connect(server.dsn("default").replace("right", "wrong"))


def test_a_store_over_http_answers_as_the_embedded_one(tmp_path: Path, store_in: Callable[[Path], StandIn]) -> None:
    records, _ = simulated_log(Settings(requests=2000))
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join([*as_lines(records), *(raw for raw, _ in BAD_LINES)]))
    with store_in(tmp_path / "server") as server:
        assert init(server.dsn()) == []
        assert load(server.dsn(), [log]).requests == 2000
        over_http = sojourn.split(server.dsn()).to_dict()
        rows = sojourn.read(server.dsn()).rows.collect()
    # The engine holds one folder per process, and this one has its own by now.
    command = [sys.executable, "-m", "sojourn", "split", f"chdb://{server.data}", "--json"]
    embedded = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert embedded.returncode == 0, embedded.stderr
    assert list(differences(json.loads(embedded.stdout), json.loads(json.dumps(over_http)))) == []
    assert list(differences(without_duplicates(sojourn.split(log).to_dict()), without_duplicates(over_http))) == []
    assert rows.height == 2000
