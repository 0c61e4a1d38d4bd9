"""Polars, the store's statements, its views and the dashboards give every request the components of one table."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sojourn
from dashboards_support import BEGIN, Boards, opened
from grafana_expand import View
from sojourn.analyses.blame.store import explain_store
from sojourn.model.components import COMPONENTS
from sojourn.model.frame import Selection
from sojourn.sources.store_measures import StoreMeasures
from sojourn.store import connect, load
from sojourn.store.statements import over_steps

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "store"))
from held_support import lines, scheduled  # noqa: E402 - the path comes first
from split_support import BASE, export  # noqa: E402

VECTORS: list[dict[str, Any]] = json.loads((ROOT / "tests/vectors/components.json").read_text("utf-8"))["vectors"]
COLUMNS = ("queueing_delay", *COMPONENTS, "queue_by_duration", "clock_offset", "queue_source", "impossible")
EMPTY = {**dict.fromkeys(COLUMNS, 0.0), "impossible": False}
NAMES = [vector["name"] for vector in VECTORS]
SHOP = ROOT / "docs" / "examples" / "shop.jsonl.gz"

Row = dict[str, Any]


@dataclass
class Engines:
    """What each engine says: request id -> columns; and the dashboards' queries."""

    polars: dict[str, Row]
    statements: dict[str, Row]
    view: dict[str, Row]
    boards: Boards


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory, make_store: Callable[[], str]) -> Iterator[Engines]:
    folder = tmp_path_factory.mktemp("vectors")
    log, spans, dsn = folder / "a.jsonl", folder / "spans.jsonl", make_store()
    log.write_text("".join(json.dumps(line) + "\n" for vector in VECTORS for line in vector["lines"]))
    reported = [span for vector in VECTORS for span in vector.get("spans", ())]
    spans.write_bytes(b"".join(export(s["request_id"], s["start"] - BASE, s["seconds"]) for s in reported))
    for _ in range(2):  # everything is delivered twice
        load(dsn, log, spans=[spans])
    rows = sojourn.split(log, spans=[spans], columns=("request_id",)).rows.lazy().collect().to_dicts()
    measures = StoreMeasures(dsn, Selection())
    with measures.session() as store:
        statement = over_steps(
            f"SELECT `chosen.request_id`, {', '.join(COLUMNS)} FROM split", measures._which, with_spans=True
        )
        statements = measures._query(statement, **measures._offsets[1])
        boards = Boards(store.client)
        view = boards.sql("SELECT * FROM requests_split").rows
        yield Engines(*map(_by_id, (rows, statements, view)), boards)


def _by_id(rows: list[Row]) -> dict[str, Row]:
    # A join names columns that two tables have by their table, too.
    rows = [{name.rpartition(".")[2]: value for name, value in row.items()} for row in rows]
    assert len({row["request_id"] for row in rows}) == len(rows)
    return {row["request_id"]: row for row in rows}


def _differences(row: Row, expected: Row, columns: tuple[str, ...] = COLUMNS) -> dict[str, tuple[Any, Any]]:
    wanted = {**EMPTY, **expected}
    return {name: (row[name], wanted[name]) for name in columns if not _same(row[name], wanted[name])}


def _same(value: Any, expected: Any) -> bool:
    if value is None or expected is None or isinstance(expected, str | bool):
        return bool(value == expected)
    return bool(value == pytest.approx(expected, abs=2e-7))


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_polars_and_the_statements_of_the_store_split_a_request_alike(engines: Engines, vector: Row) -> None:
    for request, expected in vector["split"].items():
        assert _differences(engines.polars[request], expected) == {}
        known = {"clock_offset": 0.0} if expected.get("clock_offset", 0.0) is None else {}  # unknown: taken as 0
        assert _differences(engines.statements[request], {**expected, **known}) == {}
        assert sum(expected.get(name) or 0 for name in COMPONENTS) == pytest.approx(
            engines.polars[request]["request_time"], abs=1e-6
        )


def _by_record(vector: Row) -> dict[str, Row]:
    """What the records say without their spans."""
    return {**vector["split"], **vector.get("split_without_spans", {})}


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_the_view_of_the_store_splits_a_request_alike(engines: Engines, vector: Row) -> None:
    for request, expected in _by_record(vector).items():
        known = {"clock_offset": 0.0} if expected.get("clock_offset", 0.0) is None else {}  # unknown: taken as 0
        assert _differences(engines.view[request], {**expected, **known}) == {}


BARS = (
    "queueing delay",
    "service time",
    "network",
    "upload",
    "retries",
    "transfer",
    "redirected",
    "send",
    "unattributed",
)


def _bars(expected: Row) -> dict[str, float]:
    """The parts of a bar: unknown is 0, and where the wait is unknown it was the connection at least."""
    known = {name: expected.get(name, 0.0) or 0.0 for name in COLUMNS if name not in {"queue_source", "impossible"}}
    waited = known["connect"] + known["queue"]
    return {bar: waited if bar == "queueing delay" else known[bar.replace(" ", "_")] for bar in BARS}


@pytest.mark.parametrize("number", range(len(VECTORS)), ids=NAMES)
def test_the_dashboards_show_these_components(engines: Engines, number: int) -> None:
    vector = VECTORS[number]
    rows = _by_record(vector)
    service = vector["lines"][0]["service"]
    for request, expected in rows.items():
        view = View(BEGIN, BEGIN + timedelta(minutes=5), 60, {**opened("request"), "request_id": request})
        (row,) = engines.boards.panel("request", "Split", view).rows
        wanted = {**_bars(expected), "queueing delay": expected.get("queueing_delay", 0.0)}
        assert {bar: row[bar] or 0.0 for bar in BARS} == pytest.approx(
            {bar: value or 0.0 for bar, value in wanted.items()}, abs=1e-6
        )
    view = View(BEGIN, BEGIN + timedelta(minutes=5), 60, {**opened("requests"), "service": [service]})
    listed = engines.boards.panel("requests", "Slowest", view).rows
    assert {row["request id"]: row["queueing delay"] for row in listed} == pytest.approx(
        {request: expected.get("queueing_delay", 0.0) for request, expected in rows.items()}, abs=2e-7
    )
    served = [_bars(expected) for request, expected in rows.items() if engines.polars[request]["status"] != 101]
    view = View(BEGIN, BEGIN + timedelta(minutes=5), 60, {**opened("verdict"), "service": [service]})
    for row in engines.boards.panel("verdict", "What the slowest 1 % are made of", view).rows[:1] if served else ():
        means = {bar: sum(bars[bar] for bars in served) / len(served) for bar in BARS}
        assert {bar: row[bar] for bar in BARS} == pytest.approx(means, abs=2e-7)


def test_dashboards_count_held_workers_as_busy(make_store: Callable[[], str], tmp_path: Path) -> None:
    """Of the schedule of tests/vectors/held.json, before and after `sojourn store explain`."""
    log, dsn, upstream = tmp_path / "held.jsonl", make_store(), "10.0.0.1:80"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines()))
    load(dsn, log)
    held = {phase: seconds for (_, name, phase), seconds in scheduled(1).items() if name == upstream}

    def answers() -> list[Row]:
        since = BEGIN + timedelta(minutes=1)
        panels = (("load", "Busy workers"), ("load", "Utilisation"), ("explain", "Saturation of backends"))
        with connect(dsn) as store:
            views = [
                View(since, since + timedelta(seconds=59), 60, {**opened(name), "upstream": [upstream]})
                for name, _ in panels
            ]
            boards = Boards(store.client)
            return [boards.panel(*panel, view).rows[0] for panel, view in zip(panels, views, strict=True)]

    busy, utilisation, saturation = answers()
    assert (busy["busy workers"], busy["busy workers, at least"]) == (None, pytest.approx(0.2))
    assert (utilisation["utilisation"], utilisation["utilisation, at least"]) == (None, pytest.approx(0.1))
    assert saturation["busy is"] == "service only"
    explain_store(dsn)
    busy, utilisation, saturation = answers()
    assert (busy["busy workers"], busy["busy workers, at least"]) == (pytest.approx(sum(held.values()) / 60), None)
    assert utilisation["utilisation"] == saturation["utilisation"] == pytest.approx(0.29)
    assert (saturation["busy is"], saturation["workers"]) == ("held", 2)


def test_the_shop_log_shows_one_number_in_a_file_a_store_and_the_dashboards(make_store: Callable[[], str]) -> None:
    """The figures are those of the table in docs/explanation/what-is-measured.md."""
    dsn = make_store()
    load(dsn, str(SHOP))
    shares: list[dict[str, float]] = []
    for source in (SHOP, dsn):
        means = sojourn.split(source).measures.means()[1]
        total = sum(means.values())
        shares.append({bar: value / total for bar, value in _bars(means).items()})
    with connect(dsn) as store:
        view = View(BEGIN, BEGIN + timedelta(minutes=5), 60, opened("verdict"))
        boards = Boards(store.client)
        (row, _) = boards.panel("verdict", "What the slowest 1 % are made of", view).rows
        total = sum(row[bar] for bar in BARS)
        shares.append({bar: row[bar] / total for bar in BARS})
        (share,) = boards.panel("verdict", "Share of queueing", view).rows
    assert share["value"] == pytest.approx(sojourn.split(SHOP).queueing_share, abs=1e-9)
    for others in shares[1:]:
        assert others == pytest.approx(shares[0], abs=1e-9)
    text = (ROOT / "docs/explanation/what-is-measured.md").read_text("utf-8")
    table = re.findall(r"^\| ([a-z ]+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$", text, re.MULTILINE)
    shown = {part: list(map(float, values)) for part, *values in table}
    assert shown == {bar: [round(100 * each[bar], 3) for each in shares] for bar in BARS}


def test_panels_of_the_split_say_what_is_left_out() -> None:
    """Spans, inference, and drift within an hour are in `sojourn split` alone."""
    folder = Path(__file__).parents[2] / "dashboards/grafana/dashboards"
    panels = [
        panel
        for file in sorted(folder.glob("*.json"))
        for panel in json.loads(file.read_text())["panels"]
        for target in panel.get("targets", ())
        if re.search(r"rollup_minute|requests_split", target.get("rawSql", ""))
        and re.search(r"\bqueueing_(seconds|quantiles|histogram|by_response|delay)\b", target["rawSql"])
    ]
    assert len(panels) > 15
    assert [panel["title"] for panel in panels if "Spans are not in it" not in panel["description"]] == []
