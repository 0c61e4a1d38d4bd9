"""The dashboards' JSON: current, complete, laid out without overlap, its links and variables leading somewhere."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from dashboards_support import HERE, boards, has_column, panels, placeholders, text_of, variables
from sojourn.present.palette import QUEUEING, SERVICE
from sojourn_dashboards import DASHBOARDS
from sojourn_dashboards.datasource import PLUGIN, UID
from sojourn_dashboards.panels import UNITS
from sojourn_dashboards.prometheus import PROMETHEUS, PROMETHEUS_UID

BOARDS = boards()
PANELS = [pytest.param(n, p, id=f"{n}: {p['title']}") for n, board in BOARDS.items() for p in panels(board)]
SOURCES = {
    "clickhouse": {"type": PLUGIN, "uid": UID},
    "prometheus": {"type": PROMETHEUS, "uid": PROMETHEUS_UID},
}
# Columns of requests that Grafana's dashboards must know to link by.
SPECIAL = {"__url_time_range", "__value", "__data"}


def source_of(name: str) -> dict[str, str]:
    """The data source of a dashboard."""
    return SOURCES["prometheus" if name == "prometheus" else "clickhouse"]


def environment() -> dict[str, str]:
    import os  # noqa: PLC0415

    return os.environ | {"PYTHONPATH": str(HERE), "PYTHONWARNINGS": "ignore"}


def test_the_files_are_what_the_code_makes(tmp_path: Path) -> None:
    """If this fails: PYTHONPATH=dashboards python -m sojourn_dashboards."""
    command = [sys.executable, "-m", "sojourn_dashboards", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    elsewhere = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, env=environment(), check=False
    )
    assert elsewhere.returncode == 1
    assert elsewhere.stderr.count("not current: ") == len(DASHBOARDS) + 3  # two files of rules, and a page
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_left_from_a_dashboard_that_is_gone() -> None:
    assert set(BOARDS) == set(DASHBOARDS)


@pytest.mark.parametrize(("name", "board"), BOARDS.items(), ids=list(BOARDS))
def test_a_dashboard_is_whole(name: str, board: dict[str, Any]) -> None:
    assert board["schemaVersion"] in {41, 42}  # Grafana 12 and later
    assert board["uid"] == f"sojourn-{name}"
    assert len(board["uid"]) <= 40
    assert board["title"]
    assert board["description"].endswith(".")
    assert board["timezone"] == "utc"
    assert board["tags"] == ["sojourn"]
    ids = [panel["id"] for panel in board["panels"]]
    assert sorted(set(ids)) == sorted(ids)
    assert min(ids) >= 1
    titles = [panel["title"] for panel in panels(board)]
    assert len(set(titles)) == len(titles)


def test_uids_and_titles_are_their_own() -> None:
    for key in ("uid", "title"):
        values = [board[key] for board in BOARDS.values()]
        assert len(set(values)) == len(values)


@pytest.mark.parametrize(("name", "board"), BOARDS.items(), ids=list(BOARDS))
def test_no_two_panels_overlap(name: str, board: dict[str, Any]) -> None:
    places = [panel["gridPos"] for panel in board["panels"]]
    for place in places:
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        assert place["h"] >= 1
    for a, b in itertools.combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or above, (a, b)


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_panel_says_what_it_shows(name: str, panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 30
    assert panel["description"].endswith(".")
    if panel["type"] == "text":
        return
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"] in UNITS
    assert defaults["noValue"]
    for override in panel["fieldConfig"]["overrides"]:
        for one in override["properties"]:
            assert one["id"] in {"unit", "color", "links"}
            assert one["id"] != "unit" or one["value"] in UNITS


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_an_override_is_for_a_column_that_is_there(name: str, panel: dict[str, Any]) -> None:
    if panel["type"] == "text":
        return
    assert len(panel["targets"]) == 1 or panel["datasource"] == SOURCES["prometheus"]
    for override in panel["fieldConfig"]["overrides"]:
        assert override["matcher"]["id"] == "byName"
        assert has_column(panel, override["matcher"]["options"])
    if panel["type"] in {"trend", "barchart"}:
        assert has_column(panel, panel["options"]["xField"])


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_the_two_colours_are_the_same_everywhere(name: str, panel: dict[str, Any]) -> None:
    if panel["type"] in {"text", "table", "traces"}:
        return
    overrides = {
        o["matcher"]["options"]: one["value"]["fixedColor"]
        for o in panel["fieldConfig"]["overrides"]
        for one in o["properties"]
        if one["id"] == "color"
    }
    for column, colour in (
        ("queueing delay", QUEUEING),
        ("waiting", QUEUEING),
        ("service time", SERVICE),
        ("in service", SERVICE),
    ):
        assert has_column(panel, column) == (overrides.get(column) == colour)


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_query_is_as_the_plugin_stores_it(name: str, panel: dict[str, Any]) -> None:
    for number, target in enumerate(panel.get("targets") or []):
        assert target["datasource"] == panel["datasource"] == source_of(name)
        if "expr" in target:
            assert target["refId"] == "ABCDEFGH"[number]
            assert (target["format"], target["instant"], target["range"]) == {
                "table": ("table", True, False),
                "heatmap": ("heatmap", False, True),
            }.get(panel["type"], ("time_series", False, True))
            assert target["editorMode"] == "code"
            assert "#" not in target["expr"]
            continue
        assert target["editorType"] == "sql"
        assert target["pluginVersion"].startswith("4.")
        assert (target["format"], target["queryType"]) in {(0, "timeseries"), (1, "table"), (3, "traces")}
        assert (target["format"] == 3) == (panel["type"] == "traces")
        # Comments and statement macros would be one more thing to trust; SETTINGS a reader may not set.
        assert not re.search(r"--|/\*|\bSETTINGS\b|@\w+@|;", target["rawSql"])


@pytest.mark.parametrize(("name", "board"), BOARDS.items(), ids=list(BOARDS))
def test_variables_are_defined_and_used(name: str, board: dict[str, Any]) -> None:
    known = set(variables(board))
    queries = [v["query"] for v in board["templating"].get("list") or [] if v["type"] == "query"]
    requested = [text_of(target) for panel in panels(board) for target in panel.get("targets") or []]
    requested += [query["rawSql"] if "rawSql" in query else query["query"] for query in queries]
    used = set().union(*(placeholders(text) for text in requested), set())
    assert used == known
    for variable in board["templating"].get("list") or []:
        assert variable["label"]
        assert variable["description"].endswith(".")
        if variable["type"] == "query":
            assert variable["datasource"] == source_of(name)


def links() -> list[tuple[str, str]]:
    matches = []
    for name, board in BOARDS.items():
        for panel in panels(board):
            config = panel.get("fieldConfig", {})
            data = config.get("defaults", {}).get("links") or []
            data += [
                ln
                for o in config.get("overrides", [])
                for p in o["properties"]
                if p["id"] == "links"
                for ln in p["value"]
            ]
            assert all(set(link) == {"title", "url", "targetBlank"} for link in data)
            matches += [(name, link["url"]) for link in data]
    return matches


def test_there_are_links() -> None:
    assert {url.partition("?")[0] for _, url in links()} == {
        "/d/sojourn-requests/requests",
        "/d/sojourn-request/one-request",
        "/d/sojourn-distributions/distributions",
        "/d/sojourn-prometheus/queueing-delay-prometheus",
    }


@pytest.mark.parametrize(("name", "url"), sorted(set(links())))
def test_a_link_leads_somewhere(name: str, url: str) -> None:
    uid = urlsplit(url).path.split("/")[2]
    target = next(board for board in BOARDS.values() if board["uid"] == uid)
    passed = set(re.findall(r"var-(\w+)=", url)) | set(re.findall(r"\$\{(\w+):queryparam\}", url))
    assert passed <= set(variables(target))
    for used in placeholders(url):
        assert used in variables(BOARDS[name])
    assert "${__value.raw}" not in url  # a value in an address is encoded
    for special in re.findall(r"\$\{(__\w+)", url):
        assert special in SPECIAL


def test_every_table_with_request_ids_leads_to_the_request() -> None:
    for board in BOARDS.values():
        for panel in panels(board):
            if panel.get("targets") and has_column(panel, "request id"):
                shown = [o for o in panel["fieldConfig"]["overrides"] if o["matcher"]["options"] == "request id"]
                assert [p["id"] for o in shown for p in o["properties"]] == ["links"]


def test_the_dashboards_lead_to_each_other() -> None:
    for board in BOARDS.values():
        [link] = board["links"]
        assert (link["type"], link["tags"]) == ("dashboards", ["sojourn"])
        assert "placement" not in link
