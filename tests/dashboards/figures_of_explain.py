"""Figures of the dashboard that explains."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import Any

import polars as pl
import pytest
from dashboards_explained import given_up
from dashboards_fixtures import CAPACITY
from dashboards_support import Boards, first_run, records
from figures_support import by, checks, near, panel_rows, times

EXPLAINED: dict[str, pl.DataFrame] = {}  # "blame", "held": filled by the test that runs the checks
CHOICES: tuple[dict[str, list[str]], ...] = (
    {},
    {"service": ["api"]},
    {"upstream": ["10.0.4.1:8080"]},
    {"route": ["/search"], "service": ["shop"]},
)


def _waits(values: dict[str, list[str]]) -> pl.DataFrame:
    """Blame of what is chosen; the route is the one that waited."""
    table = _of_place(EXPLAINED["blame"].with_columns(pl.col("service", "upstream").fill_null("")), values)
    return table.filter(pl.col("victim").is_in(values["route"])) if "route" in values else table


def _of_place(table: pl.DataFrame, values: dict[str, list[str]]) -> pl.DataFrame:
    for name in ("service", "upstream"):
        if name in values:
            table = table.filter(pl.col(name).is_in(values[name]))
    return table


def _sums(table: pl.DataFrame, *keys: str) -> dict[Any, float]:
    result = table.group_by(keys).agg(pl.col("seconds").sum()).iter_rows()
    return {(row[0] if len(keys) == 1 else row[:-1]): row[-1] for row in result}


def _same(shown: dict[Any, float], expected: dict[Any, float]) -> None:
    for key in shown.keys() | expected.keys():
        assert shown.get(key, 0.0) == pytest.approx(expected.get(key, 0.0), abs=1e-5), key


@checks(("explain", "Waiting by cause"))
def _over_time(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for values in CHOICES:
        table = _waits(values)
        most = sorted(_sums(table, "who").items(), key=lambda item: -item[1])[:10]
        kept = table.with_columns(
            pl.when(pl.col("who").is_in([waiting for waiting, _ in most]))
            .then("who")
            .otherwise(pl.lit("(other)"))
            .alias("who")
        )
        rows = panel_rows(store, name, title, **values)
        shown = {(t, row["culprits"]): row["Value"] for t, row in zip(times(rows), rows, strict=True)}
        _same(shown, _sums(kept, "minute", "who"))
        assert sum(shown.values()) > 1


@checks(("explain", "Workers held by phase"))
def _held(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for values in CHOICES[:3]:
        table = _of_place(EXPLAINED["held"], values).with_columns(pl.col("phase").replace("at_least", "(at least)"))
        rows = panel_rows(store, name, title, **values)
        _same(
            {(t, row["phases"]): row["Value"] for t, row in zip(times(rows), rows, strict=True)},
            _sums(table, "minute", "phase"),
        )
        assert {row["phases"] for row in rows} <= {"read", "service", "body", "after", "(at least)"}


@checks(("explain", "Culprits"))
def _culprits(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for values in CHOICES:
        expected = _sums(_waits(values), "who")
        rows = panel_rows(store, name, title, **values)
        _same({row["waited for"]: row["seconds"] for row in rows}, expected)
        part = first_run(facts)
        for column in ("service", "upstream"):
            if column in values:
                part = part.filter(pl.col(column).is_in(values[column]))
        total = sum(expected.values())
        for row in rows:
            assert near(row["share of waiting"], row["seconds"] / total, 1e-6)
            served = part.filter(pl.col("route") == row["waited for"]).height
            assert near(row["share of requests"], served / part.height if served else None)


@checks(("explain", "Victims and culprits"))
def _pairs(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for values in CHOICES:
        rows = panel_rows(store, name, title, **values)
        expected = _sums(_waits(values).with_columns(pl.col("victim").replace("", "-")), "victim", "who")
        _same({(row["who waited"], row["waited for"]): row["seconds"] for row in rows}, expected)
        assert [row["seconds"] for row in rows] == sorted((row["seconds"] for row in rows), reverse=True)


def _gone() -> list[tuple[dict[str, str], float]]:
    return given_up(json.loads(json.dumps(records())))


def _minute(record: dict[str, str]) -> int:
    return int(float(record["time"]) // 60 * 60)


@checks(("explain", "Share of work wasted"))
def _wasted(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    wasted: dict[tuple[int, str], float] = defaultdict(float)
    for record, seconds in _gone():
        wasted[_minute(record), record["service"]] += seconds
    rows = panel_rows(store, name, title)
    shown = {(t, row["name"]): row["Value"] for t, row in zip(times(rows), rows, strict=True)}
    for (minute, service), share in shown.items():
        part = first_run(facts).filter((pl.col("minute") == minute) & (pl.col("service") == service))
        spent = wasted.get((minute, service), 0.0)
        assert near(share, spent / (spent + part["worked"].sum()), 1e-6)
    assert set(wasted) <= set(shown)
    assert sum(share > 0 for share in shown.values()) == len(wasted) > 3


@checks(("explain", "Wasted, by route"))
def _wasted_routes(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    expected: dict[str, list[float]] = defaultdict(list)
    for record, seconds in _gone():
        expected[record["route"]].append(seconds)
    rows = panel_rows(store, name, title)
    assert {row["route"] for row in rows} == set(expected)
    for row in rows:
        spent = expected[row["route"]]
        assert row["given up on"] == len(spent)
        assert near(row["seconds wasted"], math.fsum(spent))
        assert near(row["longest"], max(spent))


@checks(("explain", "Unknown"))
def _untold(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    gone = first_run(facts)["status"].is_in([499, 504]).sum()
    assert panel_rows(store, name, title) == [{"value": pytest.approx(1 - len(_gone()) / gone)}]


def by_backend(facts: pl.DataFrame) -> dict[tuple[int, str, str], dict[str, Any]]:
    """Per minute, service and backend: what the view of saturation has."""
    values: dict[Any, dict[str, Any]] = {}
    for key, part in first_run(facts).partition_by("minute", "service", "upstream", as_dict=True).items():
        workers = part.filter(pl.col("worker") != "")["worker"].n_unique()
        values[key] = {
            "rate": part.height / 60, "workers": workers, "busy": part["worked"].sum() / 60,
            "present": part["response"].sum() / 60, "wait": part["waited"].sum() / part.height,
            "busy is": "service only",
        }  # fmt: skip
    for key, part in EXPLAINED["held"].partition_by("minute", "service", "upstream", as_dict=True).items():
        one = values.setdefault(key, {"rate": 0.0, "present": 0.0, "wait": 0.0})
        least = "at_least" in part["phase"]
        one |= {"busy": part["seconds"].sum() / 60, "workers": part["workers"][0]}
        one |= {"busy is": "held at least" if least else "held"}
    return values


@checks(("explain", "Waiting by utilisation"))
def _by_utilisation(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    bins: dict[float, list[tuple[float, float]]] = defaultdict(list)
    for one in by_backend(facts).values():
        if one["busy is"] == "held" and one["rate"]:
            place = round(one["busy"] / one["workers"] * 20) / 20
            bins[place].append((one["wait"] * one["rate"], one["rate"]))
    rows = panel_rows(store, name, title)
    assert [row["utilisation"] for row in rows] == pytest.approx(sorted(bins))
    for row, place in zip(rows, sorted(bins), strict=True):
        waits, rates = zip(*bins[place], strict=True)
        assert near(row["queueing delay"], sum(waits) / sum(rates), 1e-6)


@checks(("explain", "Throughput by concurrency"))
def _by_concurrency(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    minutes: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (minute, *_), one in by_backend(facts).items():
        minutes[minute][0] += one["present"]
        minutes[minute][1] += one["rate"]
    bins: dict[float, list[float]] = defaultdict(list)
    for present, rate in minutes.values():
        bins[10 ** (round(math.log10(present) * 10) / 10)].append(rate)
    rows = panel_rows(store, name, title)
    assert [row["requests in system"] for row in rows] == pytest.approx(sorted(bins))
    for row, place in zip(rows, sorted(bins), strict=True):
        assert near(row["throughput"], sum(bins[place]) / len(bins[place]), 1e-6)
        assert near(row["highest"], max(bins[place]), 1e-6)


@checks(("explain", "Throughput against capacity"))
def _against_capacity(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for typed, services in (("", ("shop",)), ("7.5", ("shop", "api")), ("many", ("shop",))):
        rows = panel_rows(store, name, title, capacity=typed)
        minutes = by(first_run(facts), 60)
        assert times(rows) == sorted(minutes)
        for t, row in zip(times(rows), rows, strict=True):
            assert near(row["throughput"], minutes[t].height / 60)
            there = set(minutes[t]["service"]) & set(services)
            rate = 7.5 if typed == "7.5" else CAPACITY
            assert near(row["capacity"], rate * len(there) if there else None)


@checks(("explain", "Share of capacity"))
def _share_of_capacity(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for typed, rate, services in (("", CAPACITY, {"shop"}), ("5", 5.0, {"shop", "api"})):
        rows = panel_rows(store, name, title, capacity=typed)
        assert {row["service"] for row in rows} == services
        for t, row in zip(times(rows), rows, strict=True):
            part = by(first_run(facts), 60)[t].filter(pl.col("service") == row["service"])
            assert near(row["Value"], part.height / 60 / rate)


@checks(("explain", "Saturation of backends"))
def _saturation(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    parts: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for (_, service, upstream), one in by_backend(facts).items():
        parts[service, upstream].append(one)
    rows = panel_rows(store, name, title)
    assert {(row["service"], row["backend"]) for row in rows} == set(parts)
    for row in rows:
        minutes = parts[row["service"], row["backend"]]
        assert near(row["rate"], sum(one["rate"] for one in minutes) / len(minutes))
        assert row["workers"] == max(one["workers"] for one in minutes)
        assert near(row["busy workers"], sum(one["busy"] for one in minutes) / len(minutes), 1e-6)
        shares = [one["busy"] / one["workers"] for one in minutes if one["workers"]]
        assert near(row["busiest minute"], max(shares), 1e-6)
        assert row["busy is"] == ", ".join(sorted({one["busy is"] for one in minutes}))
        requests = sum(one["rate"] for one in minutes)
        assert near(row["mean queueing"], sum(one["wait"] * one["rate"] for one in minutes) / requests, 1e-6)
