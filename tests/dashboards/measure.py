"""How long every panel takes over 24 h with ten million requests. By hand; nothing here is a test.

    .venv/bin/python tests/dashboards/measure.py [--rows 10000000] [--repeats 3] [--store FOLDER]

Makes a store in the embedded engine (two services, twenty routes, eight backends),
    and prints the median and the processor time of each panel's query
as a table. A store that is there is used again.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "dashboards"), str(ROOT / "tests" / "analysis"), str(ROOT / "tests" / "dashboards")]

from dashboards_support import boards, queries, variables  # noqa: E402
from grafana_expand import View, expanded  # noqa: E402
from sojourn.store import connect, init, refresh_rollups  # noqa: E402

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
END = BEGIN + timedelta(days=1)
BLOCK = 1_000_000

ROWS = """
INSERT INTO incoming_rows (time, request_time, request_start, proxy_start, status, service, route, proxy, worker,
    method, uri, remote_addr,
    request_id, trace_id, attempt_addr, attempt_status, attempt_connect, attempt_header, attempt_response,
        app_queueing_delay,
    app_service_time, source, connection, connection_requests)
SELECT ended, response, started, started, if(failed, 504, 200), service, route, 'edge-1', toString(number % 32),
    if(number % 5 = 0, 'POST', 'GET'), concat(route, '/', toString(number)), '10.1.2.3', lower(hex(sipHash128(number))),
    lower(hex(sipHash128(number, 1))), [concat('10.0.0.', toString(number % 8), ':8080')], [if(failed, 504, 200)],
        [0.0002],
    [if(failed, NULL, header)], [toDecimal64(header + 0.0004, 6)], if(failed, NULL, waited + 0.01), if(failed, NULL,
        worked),
    'edge-1:/var/log/nginx/sojourn.jsonl', number % 1000, number
FROM
(
    SELECT number, number % 200 = 7 AS failed, ['shop', 'api'][number % 3 % 2 + 1] AS service,
        concat('/r', toString(number % 20)) AS route, toDecimal64(-log((sipHash64(number) % 1000000 + 1) / 1e6) / 10,
            6) AS waited,
        toDecimal64(0.02 - log((sipHash64(number, 2) % 1000000 + 1) / 1e6) / 20, 6) AS worked,
            waited + worked AS header,
        header + 0.002 AS response,
        toDateTime64({begin} + number * 86400 / {rows}, 6, 'UTC') AS ended,
        ended - toIntervalMicrosecond(toInt64(response * 1000000)) AS started
    FROM numbers({first}, {block})
)
"""


def made(dsn: str, folder: Path, rows: int) -> None:
    if not folder.is_dir():
        init(dsn)
    with connect(dsn) as store:
        if store.client.query("SELECT count() FROM requests").result_rows[0][0] >= rows:
            return
        for first in range(0, rows, BLOCK):
            store.client.command(
                ROWS.format(begin=int(BEGIN.timestamp()), rows=rows, first=first, block=min(BLOCK, rows - first))
            )
            print(f"{first + BLOCK:,} rows", file=sys.stderr, flush=True)
        begun = time.perf_counter()
        refresh_rollups(store)
        print(f"rollups in {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--store", type=Path, default=Path("dashboards-store"))
    arguments = parser.parse_args()
    dsn = f"chdb://{arguments.store.resolve()}"
    made(dsn, arguments.store, arguments.rows)
    print("| dashboard | panel | rows | median, s | CPU, s |\n| --- | --- | ---: | ---: | ---: |")
    chosen = {"service_a": "shop", "service_b": "api", "request_id": "0" * 32}
    with connect(dsn) as store:
        named = store.client.query("SELECT request_id FROM requests LIMIT 1").result_rows[0][0]
        for name, title, sql in queries():
            values = {k: chosen.get(k, v) for k, v in variables(boards()[name]).items()} | (
                {"request_id": named} if name == "request" else {}
            )
            text = expanded(sql, View(BEGIN, END, 60, values))
            consumed, used, count = [], [], 0
            for _ in range(arguments.repeats):
                begun, before = time.perf_counter(), time.process_time()
                count = len(store.client.query(text).result_rows)
                consumed.append(time.perf_counter() - begun)
                used.append(time.process_time() - before)
            print(
                f"| {name} | {title} | {count:,} | {statistics.median(consumed):.3f} | {statistics.median(used):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
