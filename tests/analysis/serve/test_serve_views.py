"""What the page asks for, compared with what the commands answer."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sojourn
from page_client import SHOP, PageClient, session_of
from sojourn.cli import app
from sojourn.serve.session import Session
from sojourn.store import load
from typer.testing import CliRunner

MINUTE = 60_000_000  # us


def _json_of(command: str) -> Any:
    """Return what a command line of the page prints as JSON."""
    words = shlex.split(command)
    assert words[0] == "sojourn"
    done = CliRunner().invoke(app, [*words[1:], "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def begin(shop: Session) -> int:
    return shop.begin


def test_source_names_window_requests_and_incident(page: PageClient, shop: Session) -> None:
    source = page.get("source")
    split = sojourn.split(shop.requests)
    assert source["requests"] == split.requests
    assert source["names"] == list(shop.requests.names)
    incident = split.audit.incident
    assert incident is not None
    assert source["incident"]["sentence"] == incident.sentence
    assert source["from"] < source["incident"]["from"] < source["incident"]["to"] < source["to"]


@pytest.mark.parametrize(
    "filters",
    [{}, {"where": "route=/export"}, {"where": "upstream=10.0.0.2:8080"}, {"where": "status=504"}],
    ids=["all", "route", "upstream", "status"],
)
def test_figures_are_those_of_the_command_that_the_view_names(
    page: PageClient, begin: int, filters: dict[str, str]
) -> None:
    window = {"from_": begin + MINUTE // 2, "to": begin + 2 * MINUTE, **filters}
    view, figures = page.get("view", **window), page.get("figures", **window)
    split = _json_of(view["command"])
    assert figures["requests"] == view["requests"] == split["requests"]
    for name, figure in (("response", "response_time"), ("queueing", "queueing_delay"), ("service", "service_time")):
        expected = split[figure] if figure == "response_time" else split["components"][figure]
        for key in ("mean", "p50", "p99", "max"):
            # The command estimates the clocks' offsets from the requests of the window alone.
            assert figures[name][key] == pytest.approx(expected[key], rel=1e-5, abs=2e-6), (name, key)


def test_view_counts_every_request_once(page: PageClient, shop: Session) -> None:
    view = page.get("view", columns=100)
    assert sum(view["heat"]["requests"]) == view["requests"] == len(shop.columns)
    assert sum(view["composition"]["requests"]) == view["requests"]
    for dimension in ("service", "route", "upstream", "worker", "status"):
        assert sum(count for _, count in view["values"][dimension]) == view["requests"]
        assert view["more"][dimension] == 0
    assert len(view["composition"]["requests"]) <= 100
    assert len(json.dumps(view)) < 60_000


def test_several_values_of_a_column_are_added_and_name_no_command(page: PageClient) -> None:
    single = [page.get("view", where=f"route={route}")["requests"] for route in ("/export", "/search")]
    both = page.get("view", where=["route=/export", "route=/search"])
    assert both["requests"] == sum(single)
    assert both["command"] == ""
    missing = page.get("view", missing="worker")
    assert 0 < missing["requests"] < sum(single)
    assert missing["values"]["worker"] == [[None, missing["requests"]]]


def test_queue_over_time_is_the_depth_of_the_command(page: PageClient, shop: Session) -> None:
    depth = sojourn.depth(shop.requests)
    rows = depth.over_time.filter(pl.col("upstream") == "all")
    width = round(depth.width * 1e6)
    first = int(rows["begin"].dt.epoch("us")[1])
    count = len(rows) - 2
    queue = page.get("queue", from_=first, to=first + count * width, columns=count)
    assert queue["width"] == width
    inner = rows[1:-1]
    assert queue["waiting"] == pytest.approx(inner["waiting"].to_list(), abs=1e-6)
    assert queue["in_service"] == pytest.approx(inner["in_service"].to_list(), abs=1e-6)
    assert queue["workers"] == depth.overall["workers"]


def test_queue_of_one_upstream_is_its_depth(page: PageClient, shop: Session) -> None:
    both = page.get("queue")
    upstreams = ("10.0.0.1:8080", "10.0.0.2:8080")
    each = [page.get("queue", where=f"upstream={upstream}") for upstream in upstreams]
    assert np.sum([one["waiting"] for one in each], axis=0) == pytest.approx(both["waiting"], abs=1e-6)
    assert sum(one["workers"] for one in each) == both["workers"]


def test_parquet_has_the_requests_of_the_view_or_of_its_selection(page: PageClient, begin: int) -> None:
    window = {"from_": begin + MINUTE, "to": begin + 2 * MINUTE, "where": "route=/search"}
    rows = pl.read_parquet(io.BytesIO(page.raw("requests", **window).content))
    assert len(rows) == page.get("view", **window)["requests"]
    assert {"queueing_delay", "service_time", "start", "request_id"} <= set(rows.columns)
    selection = {"begin": begin + MINUTE, "end": begin + 2 * MINUTE, "low": 0.5, "high": 2.0}
    chosen = pl.read_parquet(io.BytesIO(page.raw("requests", **window, **selection).content))
    slow = rows.filter(pl.col("request_time").is_between(0.5, 2.0, closed="left"))
    assert 0 < len(chosen) == len(slow)


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ({"from_": "yesterday"}, "from: 'yesterday' is not a whole number"),
        ({"from_": "9" * 30}, "is not a whole number"),
        ({"from_": 2 * 10**15, "to": 10**15}, "to: the view ends"),
        ({"where": "nothing"}, "is not COLUMN=VALUE"),
        ({"where": "uri=/x"}, "where: 'uri' is not one of service, route"),
        ({"missing": "uri"}, "where: 'uri' is not one of"),
        ({"low": "-1"}, "low: '-1' is not a number of seconds"),
        ({"low": "nan"}, "is not a number of seconds"),
        ({"low": "2", "high": "1"}, "low: 2.0 is not below high"),
    ],
)
def test_refuses_an_invalid_parameter_with_its_name(page: PageClient, query: dict[str, Any], part: str) -> None:
    assert part in page.error("view", **query)


def test_replay_is_that_of_the_command(page: PageClient) -> None:
    result = page.raw("replay", {"set": {"workers": "+1"}}).json()
    expected = _json_of(result["command"])
    for name in ("requests", "measured", "replayed", "error", "grade", "refused"):
        assert result[name] == expected[name], name
    (variant,) = result["variants"]
    assert variant["set"] == {"workers": "+1"}
    assert variant == expected["variants"][0]
    for curve in result["curves"].values():
        assert curve["seconds"] == sorted(curve["seconds"])
        assert curve["shares"] == sorted(curve["shares"], reverse=True)


def test_comparison_is_that_of_the_command(page: PageClient, begin: int) -> None:
    selection = {"begin": begin + MINUTE, "end": begin + MINUTE * 3 // 2, "low": 1, "high": 10}
    result = page.get("comparison", **selection)
    expected = _json_of(result["command"])
    for name in ("selected", "rest", "waits", "notes", "compared", "culprits_unknown"):
        assert result[name] == expected[name], name
    for name in ("differences", "culprits"):
        assert result[name] == expected[name][:15], name
        assert result["more"][name] == max(len(expected[name]) - 15, 0)
    assert result["culprits"][0]["value"] == "/export"


def test_comparison_refuses_what_it_cannot_compare(
    page: PageClient, begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection = {"begin": begin, "end": begin + MINUTE, "low": 500, "high": 600}
    assert page.refusal("comparison", **selection)
    several = {**selection, "low": 1, "where": ["route=/export", "route=/search"]}
    assert "route has several values" in page.refusal("comparison", **several)
    monkeypatch.setattr("sojourn.serve.session.WHOLE", 100)
    monkeypatch.setattr("sojourn.serve.session.PART", 100)
    assert "zoom in" in page.refusal("comparison", **selection)
    answer = page.raw("replay", {"set": {}})
    assert "zoom in" in answer.json()["unavailable"]


def test_store_is_shown_as_its_file(
    page: PageClient, store_dsn: str, open_client: Callable[[Session], PageClient]
) -> None:
    load(store_dsn, [SHOP])
    of_store = open_client(session_of(store_dsn))
    view, expected = of_store.get("view"), page.get("view")
    for name in ("requests", "values", "heat"):
        assert view[name] == expected[name], name
    assert of_store.get("queue")["workers"] == page.get("queue")["workers"]
    lanes = of_store.get("lanes")
    assert lanes["backends"] == page.get("lanes")["backends"]
    assert of_store.get("request", number=lanes["requests"]["number"][9])["line"] is None


def test_replay_without_changes_predicts_the_usual_ones(page: PageClient) -> None:
    result = page.raw("replay", {"set": {}}).json()
    assert len(result["variants"]) > 2
    assert set(result["curves"]) == {"measured", "replayed", "predicted"}


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"set": {"nonsense": "1"}}, "'nonsense' cannot be changed"),
        ({"set": {"workers": "many"}}, "workers=many"),
        ({"set": []}, "set is an object"),
        ([], "set is an object"),
        ({"set": {"workers": 1}}, "is not a text"),
        ({"set": {f"service:{n}": "x2" for n in range(40)}}, "set is an object"),
    ],
)
def test_replay_refuses_an_invalid_change(page: PageClient, body: Any, part: str) -> None:
    answer = page.raw("replay", body)
    assert part in answer.json()["error"]


def test_replay_that_does_not_match_is_refused_with_the_reason(
    tmp_path: Path, open_client: Callable[[Session], PageClient]
) -> None:
    """Requests that wait although workers are free: a replay without their cause would be wrong."""
    begin, lines = 1_767_225_600.0, []
    for number in range(600):
        start = begin + number * 0.1
        fields = {
            "time": f"{start + 0.07:.3f}", "request_id": f"{number:032x}", "service": "shop", "route": "/r",
            "status": "200", "request_time": "0.070", "request_start": f"{start:.3f}", "proxy_start": f"{start:.3f}",
            "upstream_addr": "10.0.0.1:80", "upstream_status": "200", "upstream_connect_time": "0.000",
            "upstream_header_time": "0.070", "upstream_response_time": "0.070",
            "queueing_delay": f"{0.05 if number % 3 else 0.0:.6f}", "service_time": "0.020000",
            "worker": str(number % 4), "proxy": "edge", "stamp": "own", "method": "GET", "uri": "/",
        }  # fmt: skip
        lines.append(json.dumps(fields))
    log = tmp_path / "idle.jsonl"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = open_client(session_of(str(log))).raw("replay", {"set": {"workers": "+1"}}).json()
    assert result["grade"] == "refused"
    assert result["refused"]
    assert result["variants"] == []
    assert result["sentence"].startswith("No prediction: ")
