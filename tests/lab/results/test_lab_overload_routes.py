"""Waits of each route by culprit, with a known truth; and pools of app servers for single routes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from lab_support import sound_run_of
from sojourn_lab.results.analyses.routes import by_route, waits_of
from sojourn_lab.results.run_schema import Run
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.proxy import Upstreams, http_text, server_text
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.topology import Topology
from sojourn_lab.scenario.topology_parts import Pool

pytestmark = pytest.mark.alone

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")


def test_every_route_has_its_own_distribution() -> None:
    rows = pl.DataFrame(
        {
            "route": ["/b", "/a", "/b", None],
            "request_time": [0.2, 1.0, 0.4, 9.0],
            "queueing_delay": [0.1, 0.0, None, 9.0],
            "service_time": [0.1, 1.0, 0.4, 9.0],
        }
    )
    routes = by_route(rows)
    assert list(routes) == ["/a", "/b"]
    assert routes["/b"]["requests"] == 2
    assert routes["/b"]["response_time"]["mean"] == pytest.approx(0.3)
    assert routes["/b"]["queueing_delay"]["max"] == pytest.approx(0.1)
    assert routes["/a"]["service_time"]["p50"] == pytest.approx(1.0)


def test_shares_of_a_wait_add_up_to_it() -> None:
    matrix = [("/a", "/a", 1.0), ("/a", "/b", 5.0), ("/a", None, 1.0)]
    blamed: Any = SimpleNamespace(
        matrix=pl.DataFrame(matrix, schema=["victim", "culprit", "seconds"], orient="row"),
        victims=pl.DataFrame(
            [("/a", 10.0, 2.0, 1.0), ("/b", 0.0, 0.0, 0.0)],
            schema=["victim", "waited", "dispatch", "imbalance"],
            orient="row",
        ),
    )
    routes = waits_of(blamed)
    assert routes["/a"] == {
        "waited": 10.0, "dispatch": 0.2, "imbalance": 0.1, "unknown": pytest.approx(0.1),
        "blamed": {"/a": 0.1, "/b": 0.5},
    }  # fmt: skip
    assert routes["/b"]["blamed"] == {"/a": None, "/b": None}


def test_the_upstream_is_looked_up_only_where_there_is_a_choice() -> None:
    one = Topology(backends=1)
    assert "proxy_pass http://lab_backends;" in server_text(one, Upstreams(own=["127.0.0.1:9"]))
    assert "$lab_upstream" not in http_text(one, Upstreams(own=["127.0.0.1:9"]))
    two = Topology(backends=1, pools=[Pool("slow", ["/export", "/import"])])
    upstreams = Upstreams(own=["127.0.0.1:9"], pools={"slow": ["127.0.0.1:7", "127.0.0.1:8"]})
    assert "proxy_pass http://$lab_upstream;" in server_text(two, upstreams)
    text = http_text(two, upstreams)
    for line in ("/export lab_pool_slow;", "/import lab_pool_slow;", "default lab_backends;", "upstream lab_pool_slow"):
        assert line in text


# One worker: an export of 0.4 s, then two products of 0.1 s that come 0.1 and 0.2 s after it. The first of them waits
# 0.3 s, all of it behind the export, the second 0.2 s behind the export and 0.1 s behind the other product.
TRUTH = """
name = "truth"
title = "t"
question = "q"
shows = "s"
seed = 1
duration = 1.0
timeout = 10.0
analyses = ["routes"]
[topology]
backends = 1
workers = 1
[[cases]]
name = "shared"
load = LOAD
[[cases]]
name = "own-pool"
load = LOAD
topology = {pools = [{name = "exports", routes = ["/export"]}]}
""".replace(
    "LOAD",
    '{kind = "instants", at = [0.1, 0.2, 0.3], service_times = [0.4, 0.1, 0.1],'
    ' routes = ["/export", "/product", "/product"]}',
)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The record of a run of those three requests, with one pool of workers and with two."""
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)
    return sound_run_of(scenario_from_text(TRUTH, "x"), tmp_path_factory.mktemp("truth"))


def test_a_wait_is_blamed_on_the_route_that_held_the_worker(truth: Run) -> None:
    waits = truth.cases[0].figures["routes"]["waits"]["/product"]
    # Each sleep, and each start, may be late by some hundredths of a second.
    assert waits["waited"] == pytest.approx(0.6, abs=0.15)
    assert waits["blamed"]["/export"] == pytest.approx(5 / 6, abs=0.1)
    assert waits["blamed"]["/product"] == pytest.approx(1 / 6, abs=0.1)
    assert waits["imbalance"] == pytest.approx(0.0, abs=1e-9)


def test_route_with_its_own_pool_delays_no_other_route(truth: Run, tmp_path: Path) -> None:
    case = truth.cases[1]
    waits = case.figures["routes"]["waits"]["/product"]
    # The second product comes just as the first is done: some of that may be left.
    assert waits["waited"] < 0.15
    assert waits["blamed"].get("/export") in (None, 0.0)
    assert case.split is not None
    upstreams = {group["upstream"]: group["requests"] for group in case.split["by"]["upstream"]}
    assert sorted(upstreams.values()) == [1, 2]
