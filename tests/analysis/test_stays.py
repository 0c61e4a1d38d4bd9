"""Stays: what is drawn of each request, and the two pictures made of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from sojourn.charts.sequence import FOR_NOBODY, WAITING, WORKING, sequence_chart
from sojourn.errors import SojournError
from sojourn.explain.split import split
from sojourn.explain.stays import GIVEN_UP, SERVED, STAY, TURNED_AWAY, stays
from sojourn.movie import movie, places_of, scene, write_movie

HOSTILE = "</script><b>&\x1b[31m"


def drawn(*rows: tuple[float, float | None, float | None, float, str]) -> pl.DataFrame:
    """Stays of (arrival, begin, end, left, outcome)."""
    table = [
        {"number": n + 1, "arrival": a, "begin": b, "end": e, "left": gone, "outcome": outcome, "backend": "a:1"}
        for n, (a, b, e, gone, outcome) in enumerate(rows)
    ]
    return pl.DataFrame(table, schema_overrides=STAY)


TWO = drawn((0.0, 0.0, 45.0, 45.0, SERVED), (5.0, 45.0, 90.0, 65.0, GIVEN_UP), (6.0, None, None, 45.0, TURNED_AWAY))


def bars(table: pl.DataFrame) -> dict[str, list[tuple[str, float, float]]]:
    """Request -> (what, begin, end) of its bars, read from the chart itself."""
    found: dict[str, list[tuple[str, float, float]]] = {}
    spec = sequence_chart(table).to_dict()
    for layer in spec["layer"]:
        if layer["mark"]["type"] == "bar":
            for bar in spec["datasets"][layer["data"]["name"]]:
                found.setdefault(bar["request"], []).append((bar["what"], bar["begin"], bar["end"]))
    return found


def test_the_sequence_chart_shades_waiting_work_and_work_for_nobody() -> None:
    assert bars(TWO) == {
        "#1": [(WORKING, 0.0, 45.0)],
        "#2": [(WAITING, 5.0, 45.0), (WORKING, 45.0, 65.0), (FOR_NOBODY, 65.0, 90.0)],
        "#3": [(WAITING, 6.0, 45.0)],
    }


def test_one_that_was_given_up_on_before_its_work_began_waits_on_in_grey() -> None:
    late = drawn((0.0, 70.0, 72.0, 60.0, GIVEN_UP))
    assert bars(late)["#1"] == [(WAITING, 0.0, 60.0), (FOR_NOBODY, 60.0, 70.0), (FOR_NOBODY, 70.0, 72.0)]


def test_a_worker_s_place_is_the_lowest_that_is_free() -> None:
    assert places_of([(0.0, 3.0), (1.0, 2.0), (2.0, 4.0), (None, None), (2.5, 3.0)]) == [0, 1, 1, None, 2]
    assert scene("x", TWO)["workers"] == 1
    assert scene("x", TWO, 4)["workers"] == 4


def test_hostile_names_stay_text() -> None:
    page = movie({HOSTILE: TWO}, title=HOSTILE)
    assert page.count("</script>") == 2
    assert "<b>" not in page
    assert "\x1b" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert data is not None
    assert len(json.loads(data[1])[0]["requests"]) == 3


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three: one answered, one refused by the app server, one that nginx gave up on."""

    def line(start: float, taken: float, status: int, **app: str) -> str:
        record = {
            "time": f"{1_767_312_000 + start + taken:.3f}", "request_time": f"{taken:.3f}",
            "request_start": f"{1_767_312_000 + start:.3f}", "status": str(status), "route": "/r", "service": "s",
            "upstream_addr": "10.0.0.1:80", "upstream_status": str(status), "upstream_connect_time": "0.000",
            "upstream_header_time": "-" if status == 504 else f"{taken:.3f}", "upstream_response_time": f"{taken:.3f}",
        }  # fmt: skip
        return json.dumps(record | app) + "\n"

    path = tmp_path / "access.jsonl"
    answered = line(0.0, 2.0, 200, queueing_delay="0.5", service_time="1.5", worker="1")
    path.write_text(answered + line(1.0, 3.0, 503) + line(2.0, 9.0, 504))
    return path


def test_stays_of_a_log(log: Path) -> None:
    found = stays(split(log).rows)
    assert found.schema == pl.Schema(STAY)
    assert found.select("number", "status", "outcome").rows() == [
        (1, 200, SERVED),
        (2, 503, TURNED_AWAY),
        (3, 504, GIVEN_UP),
    ]
    assert found["arrival"].to_list() == pytest.approx([0.0, 1.0, 2.0])
    assert found["left"].to_list() == pytest.approx([2.0, 4.0, 11.0])
    # Nothing tells when, or whether, the last two were begun.
    assert [found[name].to_list() for name in ("begin", "end")] == [
        [pytest.approx(0.5, abs=1e-3), None, None],
        [pytest.approx(2.0, abs=1e-3), None, None],
    ]


def test_what_cannot_be_drawn_is_refused_with_words(log: Path) -> None:
    with pytest.raises(SojournError, match="3 requests are more than the 2"):
        stays(split(log).rows, most=2)
    with pytest.raises(SojournError, match="no queue to be drawn"):
        stays(split(log, where={"service": "nobody"}).rows)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_draws_the_instant_that_is_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "queue.html"
    write_movie({"one worker": TWO}, page, title="Two and one")
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--virtual-time-budget=2000", "--dump-dom",
    ]  # fmt: skip

    def shown(share: float) -> str:
        done = subprocess.run(
            [*command, f"{page.as_uri()}#{share}"], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    # 30 s of 90: the first is served, the others wait. 70 s: the second has been given up on and is worked on.
    assert "waiting 2 · served 0 · given up on 0" in shown(1 / 3)
    late = shown(7 / 9)
    assert "waiting 0 · served 1 · given up on 1 · turned away 1" in late
    assert "70.0 of 90.0 s" in late
