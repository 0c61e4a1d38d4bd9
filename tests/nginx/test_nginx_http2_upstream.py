"""HTTP/2 between nginx and the app (`proxy_http_version 2`): the stamp, the log, the split, and shared connections."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sojourn
from nginx_support import DEADLINE_S, PROXY, app_upstream, get, logged
from sojourn_lab.runtime.nginx import Nginx, build_text, nginx_program, nginx_version
from sojourn_lab.runtime.ports import free_port, wait_for_port
from sojourn_lab.runtime.process import Process

PACKAGE = Path(__file__).parents[2] / "collector" / "middleware" / "node"
COUNT, SERVICE_S = 4, 0.1
# One event loop: each request holds it for the whole service, so the others wait.
APP = """
const http2 = require('node:http2');
const { wrap } = require(process.argv[2]);
let sessions = 0;
const server = http2.createServer(wrap((req, res) => {
  const end = Date.now() + %d;
  while (Date.now() < end);
  res.setHeader('X-Sessions', String(sessions));
  res.end('ok');
}));
server.on('session', () => { sessions += 1; });
server.listen(Number(process.argv[3]), '127.0.0.1');
"""


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    program, node = nginx_program(), shutil.which("node")
    if program is None or node is None:
        pytest.skip("nginx or node is not installed")
    if tuple(map(int, re.findall(r"\d+", nginx_version(program)))) < (1, 29, 7):
        pytest.skip("nginx before 1.29.7: it speaks no HTTP/2 to apps, or keeps no connection by default")
    if "http_v2_module" not in build_text(program):
        pytest.skip("nginx was built without HTTP/2")
    port = free_port()
    (tmp_path / "app.js").write_text(APP % round(SERVICE_S * 1000))
    command = [node, tmp_path / "app.js", PACKAGE, str(port)]
    log = tmp_path / "access.jsonl"
    server = f"location / {{ proxy_http_version 2; {PROXY} }}"
    upstream = app_upstream(f"127.0.0.1:{port}")
    with Process(command, name="node", folder=tmp_path) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        one = Nginx(tmp_path, server, http=upstream, access_log=log)
        with one.start():
            yield one
        assert one.alerts() == []


def test_the_split_over_http_2(nginx: Nginx) -> None:
    with ThreadPoolExecutor(COUNT) as pool:
        answers = list(pool.map(lambda number: get(nginx, f"/{number}"), range(COUNT)))
    assert [answer.status for answer in answers] == [200] * COUNT
    assert not any(answer.values("X-Queueing-Delay") for answer in answers)
    for number in range(COUNT):
        last = get(nginx, f"/again/{number}")
        assert last.status == 200
    rows = logged(nginx, 2 * COUNT)
    # Requests at once have connections of their own, one after the other share a kept one without a connect; and one
    # connection was that of the wait for the port.
    assert max(int(each.values("X-Sessions")[0]) for each in answers) == COUNT + 1
    assert int(last.values("X-Sessions")[0]) == COUNT + 1
    assert {row["upstream_connect_time"] for row in rows[COUNT:]} == {"0.000"}
    result = sojourn.split(nginx.access_log, columns=("uri", "queueing_delay", "queue_by_duration", "service_time"))
    assert (result.records.rejected, result.sources) == (0, {"stamp": 2 * COUNT})
    assert abs(result.to_dict()["audit"]["identity_max_error"]) < 1e-6
    split = result.rows.collect().to_dicts()
    for row in split:  # by two clocks, and by durations alone
        assert row["queueing_delay"] == pytest.approx(row["queue_by_duration"], abs=SERVICE_S / 2)
        assert row["service_time"] >= SERVICE_S - 0.001
    waits = sorted(row["queueing_delay"] for row in split if not row["uri"].startswith("/again"))
    assert waits[-1] - waits[0] > (COUNT - 2) * SERVICE_S  # one after the other: the last waited for those before it
    alone = [row["queueing_delay"] for row in split if row["uri"].startswith("/again")]
    assert min(alone) < SERVICE_S / 2
