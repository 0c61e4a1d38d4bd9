"""Where a log has several services, a route is named with its service: the same path of two services is two routes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sojourn
from pool_simulator import PoolSettings, Route, simulated_pool
from sojourn.store import load

ROUTES = {"/": Route(1.0, 0.06)}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two services with backends of their own, each with one route: "/"."""
    path = tmp_path_factory.mktemp("services") / "access.jsonl"
    lines: list[dict[str, Any]] = []
    for number, (service, rate) in enumerate({"shop": 50.0, "admin": 5.0}.items()):
        records, _ = simulated_pool(PoolSettings(requests=1_500, rate=rate, routes=ROUTES, seed=number))
        for each in records:
            address = each["upstream_addr"].replace("10.0.0.", f"10.0.{number}.")
            lines.append(
                {**each, "service": service, "upstream_addr": address, "request_id": f"{service}{each['request_id']}"}
            )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module", params=["file", "store"])
def source(request: pytest.FixtureRequest, log: Path) -> str:
    if request.param == "file":
        return str(log)
    dsn: str = request.getfixturevalue("make_store")()
    load(dsn, log)
    return dsn


def test_the_split_has_a_row_for_the_route_of_each_service(source: str) -> None:
    result = sojourn.split(source)
    assert {row["route"]: row["requests"] for row in result.by["route"]} == {"shop /": 1_500, "admin /": 1_500}
    assert set(result.measures.parts_by("route", 10)["group"]) == {"shop /", "admin /"}
    # A condition is on the column, whose values are paths.
    alone = sojourn.split(source, where={"service": "shop"})
    assert [row["route"] for row in alone.by["route"]] == ["/"]


def test_a_route_waits_for_the_route_of_its_own_service_only(log: Path) -> None:
    matrix = sojourn.blame(log).matrix.to_dicts()
    assert {(row["victim"], row["culprit"]) for row in matrix if row["seconds"] > 1e-6} <= {
        ("shop /", "shop /"),
        ("admin /", "admin /"),
    }
    assert next(row["culprit"] for row in sojourn.blame(log).culprits.to_dicts()) == "shop /"


def test_other_questions_name_the_service_too(log: Path) -> None:
    assert {group["group"] for group in sojourn.goodput(log).to_dict()["by"]["route"]} == {"shop /", "admin /"}
    assert {group.name for group in sojourn.compare(log, log).groups} == {"shop /", "admin /"}
    result = sojourn.whatif(log, {"service:shop /": "x0.5"})
    assert [variant.settings for variant in result.variants] == [{"service:shop /": "x0.5"}]
    with pytest.raises(sojourn.SojournError, match="no request of the route"):
        sojourn.whatif(log, {"service:/": "x0.5"})
