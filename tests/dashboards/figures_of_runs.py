"""Figures of the dashboard that compares two runs."""

from __future__ import annotations

import polars as pl
from dashboards_support import BEGIN, LATER, Boards
from figures_support import at_nines, checks, mean, near, panel_rows, queueing_share, sketched

RUNS = {"service_a": "shop", "service_b": "shop", "start_b": (BEGIN + LATER).strftime("%Y-%m-%d %H:%M"), "minutes": "5"}


def _two(facts: pl.DataFrame) -> dict[str, pl.DataFrame]:
    shop = facts.filter(pl.col("service") == "shop")
    starts = {"A": BEGIN.timestamp(), "B": (BEGIN + LATER).timestamp()}
    return {
        run: shop.filter((pl.col("minute") >= at) & (pl.col("minute") < at + 300)).with_columns(
            minutes=((pl.col("minute") - at) // 60).cast(pl.Int64)
        )
        for run, at in starts.items()
    }


@checks(("compare", "A and B"))
def _summary(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title, **RUNS)
    shown = {row["measure"]: row for row in rows}
    assert next(iter(shown)) == "requests"
    for run, part in _two(facts).items():
        exact = {
            "requests": part.height,
            "rate": part.height / (60 * part["minute"].n_unique()),
            "mean response": mean(part, "response"),
            "mean queueing": mean(part, "waited"),
            "mean service": mean(part, "worked"),
            "share of queueing": queueing_share(part),
            "5xx": (part["status"] >= 500).sum(),
            "timed out": (part["status"] == 504).sum(),
            "abandoned": (part["status"] == 499).sum(),
        }
        for measure, expected in exact.items():
            assert near(shown[measure][run], float(expected)), (run, measure)
        for measure, level in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)):
            assert sketched(shown[f"{measure} response"][run], part["response"], level)
    assert all(near(row["B / A"], row["B"] / row["A"]) for row in rows if row["A"])


@checks(
    ("compare", "Queueing delay and service time"),
    ("compare", "p99 of the response"),
    ("compare", "Share of queueing"),
    ("compare", "Rate"),
)
def _aligned(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title, **RUNS)
    runs = _two(facts)
    assert [row["minutes"] for row in rows] == sorted({m for part in runs.values() for m in part["minutes"]})
    for row in rows:
        for run, everything in runs.items():
            part = everything.filter(pl.col("minutes") == row["minutes"])
            if not part.height:
                assert all(value is None for label, value in row.items() if label.endswith(f" {run}"))
            elif title == "p99 of the response":
                assert sketched(row[f"response time {run}"], part["response"], 0.99)
            elif title == "Rate":
                assert near(row[f"response time {run}"], part.height / 60)
            elif title == "Share of queueing":
                assert near(row[f"queueing delay {run}"], queueing_share(part))
            else:
                assert near(row[f"queueing delay {run}"], mean(part, "waited"))
                assert near(row[f"service time {run}"], mean(part, "worked"))


@checks(("compare", "By nines"))
def _nines_of_both(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    runs = _two(facts)
    rows = panel_rows(store, name, title, **RUNS)
    assert [row["nines"] for row in rows] == sorted(row["nines"] for row in rows)
    for row in rows:
        for run, part in runs.items():
            assert near(row[f"response time {run}"], at_nines(part["response"], row["nines"]), 1e-6)
