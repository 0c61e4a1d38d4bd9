"""Every panel's figures against figures computed from the log's text. A new panel needs a check here."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import figures_of_explain
import figures_of_pipeline  # noqa: F401 - registers its checks
import figures_of_requests  # noqa: F401
import figures_of_runs  # noqa: F401
import polars as pl
import pytest
from dashboards_support import BEGIN, LATER, Boards, bucket, first_run, queries
from figures_of_runs import RUNS
from figures_support import (
    CHECKS,
    PARTS,
    SECONDS,
    at_nines,
    by,
    checks,
    in_its_bucket,
    mean,
    near,
    panel_rows,
    queueing_share,
    sketched,
    times,
)
from sojourn.model.verdict import verdict
from sojourn_dashboards.distributions import edges


def test_every_panel_is_checked() -> None:
    assert {(name, title) for name, title, _ in queries()} == set(CHECKS)


@pytest.mark.parametrize("place", CHECKS, ids=": ".join)
def test_the_figures(
    boards_store: Boards, facts: pl.DataFrame, explained: dict[str, pl.DataFrame], place: tuple[str, str]
) -> None:
    figures_of_explain.EXPLAINED.update(explained)
    CHECKS[place](boards_store, facts, *place)


@checks(("verdict", "Verdict"))
def _verdict(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for service, slo in (("shop", "0.5"), ("api", "0.5"), ("api", "60"), ("shop", "no number")):
        rows = first_run(facts).filter(pl.col("service") == service)
        means = {
            "queue": mean(rows, "waited"),
            "service_time": mean(rows, "worked"),
            "retries": mean(rows, "retries"),
            "upload": mean(rows, "upload"),
            "send": mean(rows, "send"),
            "transfer": mean(rows, "transfer"),
            "network": mean(rows, "network"),
            "unattributed": mean(rows, "unattributed"),
        }
        limit = 0.5 if slo == "no number" else float(slo)
        reported = verdict(means, means, rows["response"].quantile(0.99), rows.height, limit)
        assert panel_rows(store, name, title, service=[service], slo=slo) == [{"verdict": reported.cause}]


NUMBERS = {
    "Requests": lambda rows: rows.height,
    "Timed out": lambda rows: (rows["status"] == 504).mean(),
    "Abandoned": lambda rows: (rows["status"] == 499).mean(),
    "Unmeasured": lambda rows: rows["unmeasured"].mean(),
}


@checks(*(("verdict", title) for title in NUMBERS))
def _numbers(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for chosen in ({}, {"service": ["api"]}, {"route": ["/search"], "service": ["shop", "api"]}):
        rows = first_run(facts)
        for column, values in chosen.items():
            rows = rows.filter(pl.col(column).is_in(values))
        expected = NUMBERS[title](rows)
        assert expected > 0
        [row] = panel_rows(store, name, title, **chosen)
        assert near(row["value"], expected)


@checks(("verdict", "p99 of the response"))
def _p99(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    [row] = panel_rows(store, name, title)
    assert sketched(row["value"], first_run(facts)["response"], 0.99)


@checks(("verdict", "Share of queueing"))
def _share(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    [row] = panel_rows(store, name, title)
    assert near(row["value"], queueing_share(first_run(facts)))


@checks(("verdict", "Mean response time, split"))
def _split(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for interval in (60, 120):
        parts = by(first_run(facts), interval)
        rows = panel_rows(store, name, title, interval)
        assert times(rows) == sorted(parts)
        for t, row in zip(times(rows), rows, strict=True):
            assert near(row["queueing delay"], mean(parts[t], "waited"))
            assert near(row["service time"], mean(parts[t], "worked"))
            total = row["queueing delay"] + row["service time"] + row["everything else"]
            assert near(total, mean(parts[t], "response"))


@checks(("verdict", "Share over time"))
def _share_over_time(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    parts = by(first_run(facts), 60)
    rows = panel_rows(store, name, title)
    assert times(rows) == sorted(parts)
    assert all(
        near(row["share of queueing"], queueing_share(parts[t])) for t, row in zip(times(rows), rows, strict=True)
    )


@checks(("verdict", "What the slowest 1 % are made of"))
def _tail(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = first_run(facts).with_columns(b=pl.col("response").map_elements(bucket, return_dtype=pl.Int64))
    ordered = rows["b"].sort()
    since = ordered[-(-99 * len(ordered) // 100) - 1]
    everything, tail = panel_rows(store, name, title)
    assert (everything["requests"], tail["requests"]) == ("all requests", "slowest 1 %")
    for shown, part in ((everything, rows), (tail, rows.filter(pl.col("b") >= since))):
        assert shown["how many"] == part.height
        named = dict(
            zip(
                ("upload", "retries", "queueing delay", "service time", "network", "transfer", "send", "unattributed"),
                PARTS,
                strict=True,
            )
        )
        for column, source in named.items():
            assert near(shown[column], mean(part, source)), column
    assert 0.01 <= tail["how many"] / everything["how many"] < 0.03


@checks(("verdict", "Timed out, abandoned, failed"))
def _lost(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    parts = by(first_run(facts), 60)
    for t, row in zip(sorted(parts), panel_rows(store, name, title), strict=True):
        status = parts[t]["status"]
        assert row["timed out (504)"] == (status == 504).sum()
        assert row["abandoned (499)"] == (status == 499).sum()
        assert row["other 5xx"] == (status == 500).sum()


@checks(("verdict", "By route"), ("verdict", "By backend"))
def _tables(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    column, label = {"By route": ("route", "route"), "By backend": ("upstream", "backend")}[title]
    groups = {key[0]: part for key, part in first_run(facts).partition_by(column, as_dict=True).items()}
    rows = panel_rows(store, name, title)
    assert {row[label] for row in rows} == set(groups)
    assert [row["mean queueing"] * row["requests"] for row in rows] == sorted(
        (row["mean queueing"] * row["requests"] for row in rows), reverse=True
    )
    for row in rows:
        part = groups[row[label]]
        assert row["requests"] == part.height
        assert near(row["rate"], part.height / SECONDS)
        assert near(row["mean response"], mean(part, "response"))
        assert near(row["mean queueing"], mean(part, "waited"))
        assert near(row["mean service"], mean(part, "worked"))
        assert near(row["share of queueing"], queueing_share(part))
        for quantile, values in (
            ("p99 response", "response"),
            ("p99 queueing", "queueing"),
            ("p99 service", "service_time"),
        ):
            assert in_its_bucket(row[quantile], part[values], 0.99), (row[label], quantile)
        assert row["5xx"] == (part["status"] >= 500).sum()
        assert (row["timed out"], row["abandoned"]) == ((part["status"] == 504).sum(), (part["status"] == 499).sum())
        assert row["unmeasured"] == part["unmeasured"].sum()


SERIES = {"Response time": "response", "Queueing delay": "queueing", "Service time": "service_time"}


@checks(*(("distributions", f"{title}: heatmap") for title in SERIES))
def _heatmap(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    column = SERIES[title.partition(":")[0]]
    names = [edge for edge, _ in edges()]
    limits = [float(edge) for edge in names]
    assert limits == sorted(limits)
    assert limits[-1] == float("inf")
    for interval in (60, 300):
        parts = by(first_run(facts).drop_nulls(column), interval)
        rows = panel_rows(store, name, title, interval)
        assert times(rows) == sorted(parts)
        for t, row in zip(times(rows), rows, strict=True):
            assert list(row) == ["t", *names]
            counts = dict.fromkeys(names, 0)
            for value in parts[t][column]:
                place = next((k for k in range(-60, 41, 4) if bucket(value) < k), None)
                counts["+Inf" if place is None else f"{10 ** (place / 20):.3g}"] += 1
            assert {edge: row[edge] for edge in names} == counts


@checks(*(("distributions", f"{title}: percentiles") for title in SERIES))
def _percentiles(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    column = SERIES[title.partition(":")[0]]
    for interval in (60, 300):
        parts = by(first_run(facts), interval)
        rows = panel_rows(store, name, title, interval)
        assert times(rows) == sorted(parts)
        for t, row in zip(times(rows), rows, strict=True):
            for label, level in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)):
                assert sketched(row[label], parts[t][column], level), (t, label)


@checks(("distributions", "By nines"))
def _nines(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title)
    assert [round(row["nines"] * 10) for row in rows] == list(range(len(rows)))
    assert len(rows) == 42  # 13,000 requests: four nines and a bit
    shown = first_run(facts)
    for row in rows:
        for label, column in (
            ("response time", "response"),
            ("queueing delay", "queueing"),
            ("service time", "service_time"),
        ):
            assert near(row[label], at_nines(shown[column], row["nines"]), 1e-6), (row["nines"], label)


@checks(("load", "Rate"), ("load", "Concurrency"))
def _per_second(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for interval, chosen in ((60, {}), (120, {}), (60, {"service": ["api"]})):
        rows = first_run(facts)
        if chosen:
            rows = rows.filter(pl.col("service") == "api")
        parts = by(rows, interval)
        result = panel_rows(store, name, title, interval, **chosen)
        assert times(result) == sorted(parts)
        for t, row in zip(times(result), result, strict=True):
            part = parts[t]
            lost = part["status"].is_in([499, 500, 504]).sum()
            # A quarter of an hour by pairs of minutes: of the last pair one is out of the range.
            seconds = min(interval, BEGIN.timestamp() + SECONDS + 60 - t)
            expected = {
                "answered": (part.height - lost) / seconds,
                "failed or abandoned": lost / seconds,
                "waiting": part["waited"].sum() / seconds,
                "in service": part["worked"].sum() / seconds,
                "elsewhere": (part["response"].sum() - part["waited"].sum() - part["worked"].sum()) / seconds,
            }
            for label in set(row) - {"t"}:
                assert near(row[label], expected[label]), (t, label)


@checks(("load", "Busy workers"), ("load", "Utilisation"))
def _of_workers(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for interval, chosen in ((60, {}), (120, {}), (60, {"service": ["api"]})):
        parts: dict[int, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
        for (minute, service, upstream), one in figures_of_explain.by_backend(facts).items():
            if service in chosen.get("service", [service]):
                parts[minute // interval * interval][upstream].append(one)
        result = panel_rows(store, name, title, interval, **chosen)
        assert times(result) == sorted(parts)
        for t, row in zip(times(result), result, strict=True):
            seconds = min(interval, BEGIN.timestamp() + SECONDS + 60 - t)
            minutes = [one for backend in parts[t].values() for one in backend]
            busy = sum(one["busy"] for one in minutes) * 60 / seconds
            workers = sum(max(one["workers"] for one in backend) for backend in parts[t].values())
            bounded = any(one["busy is"] != "held" for one in minutes)
            expected = {"busy workers": busy, "workers": workers, "utilisation": busy / workers}
            for label in set(row) - {"t"}:
                known = bounded == label.endswith(", at least") or label == "workers"
                assert near(row[label], expected[label.removesuffix(", at least")] if known else None), (t, label)


@checks(("load", "Backends"))
def _backends(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    groups = dict(first_run(facts).partition_by("service", "upstream", as_dict=True).items())
    backends = figures_of_explain.by_backend(facts)
    rows = panel_rows(store, name, title)
    assert {(row["service"], row["backend"]) for row in rows} == set(groups)
    seconds = SECONDS + 60  # the range ends on a full minute, and that minute is in it
    for row in rows:
        part = groups[row["service"], row["backend"]]
        assert near(row["rate"], part.height / seconds)
        minutes = [one for key, one in backends.items() if key[1:] == (row["service"], row["backend"])]
        busy = sum(one["busy"] for one in minutes) * 60 / seconds
        assert near(row["busy workers"], busy)
        assert row["workers"] == 1
        assert near(row["utilisation"], busy)
        assert row["busy is"] == ", ".join(sorted({one["busy is"] for one in minutes}))
        assert near(row["waiting"], part["waited"].sum() / seconds)
        assert near(row["mean queueing"], mean(part, "waited"))


def test_two_services_in_one_range(boards_store: Boards, facts: pl.DataFrame) -> None:
    """No start, no length: both runs are the range of the dashboard."""
    rows = {
        row["measure"]: row for row in panel_rows(boards_store, "compare", "A and B", service_a="shop", service_b="api")
    }
    for run, service in (("A", "shop"), ("B", "api")):
        assert rows["requests"][run] == first_run(facts).filter(pl.col("service") == service).height


def test_a_start_may_be_unix_seconds(boards_store: Boards) -> None:
    unix = str(int((BEGIN + LATER).timestamp()))
    written = panel_rows(boards_store, "compare", "A and B", **RUNS)
    in_seconds = panel_rows(boards_store, "compare", "A and B", **(RUNS | {"start_b": unix}))
    assert all(near(one["B"], other["B"]) for one, other in zip(written, in_seconds, strict=True))


def test_a_range_that_cuts_through_minutes_divides_by_whole_ones(boards_store: Boards, facts: pl.DataFrame) -> None:
    from dashboards_support import View, opened  # noqa: PLC0415

    view = View(BEGIN + timedelta(seconds=90), BEGIN + timedelta(seconds=450), 300, opened("load"))
    rows = boards_store.panel("load", "Rate", view).rows
    parts = {t: part for t, part in by(first_run(facts), 60).items() if 120 <= t - BEGIN.timestamp() <= 420}
    total = sum(part.height for part in parts.values())
    measured = sum(
        (row["answered"] + row["failed or abandoned"]) * seconds for row, seconds in zip(rows, (180, 180), strict=True)
    )
    assert near(measured, total)


def test_a_minute_that_is_not_over_is_not_a_rate(make_store) -> None:
    """Half a minute's requests over a whole minute would look like a fall in load."""
    from dashboards_fixtures import serve  # noqa: PLC0415
    from dashboards_support import View, opened  # noqa: PLC0415
    from sojourn.store import connect  # noqa: PLC0415

    later = datetime.now(UTC) + timedelta(hours=1)
    with connect(make_store()) as store:
        boards = Boards(store.client)
        serve(boards, range(1, 3), waiting=0.1, now=later)
        serve(boards, range(100, 102), waiting=0.1, now=later)
        view = View(later - timedelta(hours=2), later, 60, opened("load"))
        for title in ("Rate", "Concurrency", "Utilisation"):
            assert len(boards.panel("load", title, view).rows) == 2
        [row] = boards.panel("load", "Backends", view).rows
    assert near(row["rate"] * (60 * 60), 120, 0.04)  # those that are over, over the minutes that are
