"""Figures of the dashboards about the pipeline and the listen queues: the fixtures' rows are their truth."""

from __future__ import annotations

from collections import Counter

import polars as pl
from dashboards_fixtures import ARRIVED, AT, OUTSTANDING, REFUSED, SAMPLES, SOURCE
from dashboards_support import Boards, first_run
from figures_support import checks, near, panel_rows, times

OFFSETS = {"10.0.4.1:8080": 0.137, "10.0.4.2:8080": -0.052, "10.0.3.1:8080": 0.137, "10.0.3.2:8080": -0.052}


@checks(("load", "Depth against backlog"), ("load", "Filled"))
def _depth(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    highest: dict[tuple[int, str], int] = {}
    for at, machine, socket, port, depth, _ in SAMPLES:
        key = (at // 60 * 60, f"{machine} {socket}:{port}")
        highest[key] = max(highest.get(key, 0), depth)
    rows = panel_rows(store, name, title)
    shown = {(t, row["place"]): row for t, row in zip(times(rows), rows, strict=True)}
    assert set(shown) == set(highest)
    for key, row in shown.items():
        if title == "Filled":
            assert near(row["Value"], highest[key] / 64)
        else:
            assert (row["waiting to be accepted"], row["backlog"]) == (highest[key], 64)


@checks(("pipeline", "Outstanding lines"))
def _outstanding(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    assert panel_rows(store, name, title) == [{"value": OUTSTANDING}]


@checks(("pipeline", "Lines missing by file"))
def _reconciliation(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    [row] = panel_rows(store, name, title)
    assert row["file"] == SOURCE
    assert (row["arrived"], row["missing"], row["gaps"]) == (1_180, OUTSTANDING, 1)
    assert (row["missing bytes"], row["outstanding"], row["lost"]) == (2_000, OUTSTANDING, 0)
    assert row["missing spans"] == 7


@checks(("pipeline", "Requests without a span"))
def _without_span(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    assert {row["service"] for row in rows} == {"shop"}
    assert {t - AT: row["Value"] for t, row in zip(times(rows), rows, strict=True)} == {0: 0, 60: 7, 120: 0}


@checks(("pipeline", "Files of the logs"))
def _files(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    [row] = panel_rows(store, name, title)
    assert (row["file"], row["bytes"], row["unread"], row["overdue"], row["gone"]) == (
        "web:/log",
        2_500,
        1_500,
        0,
        "no",
    )


@checks(("pipeline", "Parts put aside"))
def _parts(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    [row] = panel_rows(store, name, title)
    assert (row["table"], row["reason"]) == ("capacity", "detached by hand")


@checks(("pipeline", "What is there"))
def _stored(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    requests = {row["file"]: row["requests"] for row in rows if row["requests"]}
    assert list(requests.values()) == [first_run(facts).height]
    [refused] = [row for row in rows if row["file"] == SOURCE]
    assert (refused["requests"], refused["dead letters"], refused["refused"]) == (0, 2, 1.0)


@checks(("pipeline", "Newest row"))
def _freshness(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    [row] = panel_rows(store, name, title)
    assert 0 <= row["value"] < 3_600  # since the fixtures were loaded


@checks(("pipeline", "Minutes to roll up"))
def _due(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    assert panel_rows(store, name, title) == [{"value": 0}]


@checks(("pipeline", "Lines that arrive"))
def _arrived(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    expected = {at: {"accepted": 0.0, "refused": 0.0} for at, *_ in ARRIVED}
    for at, kind, _, count in ARRIVED:
        expected[at]["accepted" if kind == "requests" else "refused"] += count / 60
    assert {
        t: {"accepted": row["accepted"], "refused": row["refused"]} for t, row in zip(times(rows), rows, strict=True)
    } == expected


DIFFERENT = sorted(set(REFUSED))


@checks(("pipeline", "Refused, by reason"))
def _refused(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    expected = Counter((at // 60 * 60, reason) for at, _, _, _, reason, _ in DIFFERENT)
    assert {(t, row["reason"]): row["Value"] for t, row in zip(times(rows), rows, strict=True)} == dict(expected)


@checks(("pipeline", "Reasons"))
def _reasons(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    assert [(row["kind"], row["reason"], row["file"], row["lines"]) for row in rows] == [
        ("requests", "invalid_json", SOURCE, 2),
        ("spans", "invalid_span", "otlp", 1),
    ]
    assert rows[0]["the last of them"] == "<script>alert(1)</script>"
    assert len(rows[1]["the last of them"]) == 2_000


@checks(("pipeline", "Samples"))
def _samples(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    assert [row["line"] for row in rows] == [raw[:2_000] for *_, raw in sorted(DIFFERENT, key=lambda row: -row[0])]
    assert [row["refused"].timestamp() for row in rows] == sorted((at for at, *_ in DIFFERENT), reverse=True)


COUNTED = {"Errors": ("edge store", {1: 3, 2: 1, 3: 3}), "Discarded": ("edge parse", {2: 2})}


@checks(("pipeline", "Errors"), ("pipeline", "Discarded"))
def _counted(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    place, steps = COUNTED[title]
    rows = panel_rows(store, name, title)
    assert {row["place"] for row in rows} == {place}
    assert [t - AT for t in times(rows)] == [0, 60, 120, 180]
    assert [row["Value"] for row in rows] == [steps.get(minute, 0) / 60 for minute in range(4)]


@checks(("pipeline", "Buffered bytes"), ("pipeline", "Buffered events"))
def _buffers(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    assert {row["place"] for row in rows} == {"edge store"}
    assert [row["Value"] for row in rows] == ([0, 4_096, 1_024, 0] if title == "Buffered bytes" else [0, 8, 2, 0])


@checks(("pipeline", "Clock offsets"))
def _offsets(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    assert {row["backend"] for row in rows} == set(OFFSETS)
    for row in rows:
        assert abs(row["offset"] - OFFSETS[row["backend"]]) <= row["uncertainty"] < 0.01
        assert row["at least"] <= OFFSETS[row["backend"]] <= row["at most"]


@checks(("pipeline", "Clock uncertainty by pair"), ("pipeline", "Clock uncertainty"))
def _uncertainty(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    worst = max(row["uncertainty"] for row in panel_rows(store, "pipeline", "Clock offsets"))
    rows = panel_rows(store, name, title)
    if title == "Clock uncertainty":
        assert rows == [{"value": worst}]
        return
    assert {row["pair"] for row in rows} == {f"edge-1 to {backend}" for backend in OFFSETS}
    assert max(row["Value"] for row in rows) == worst
