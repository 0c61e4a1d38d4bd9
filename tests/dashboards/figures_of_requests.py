"""Figures of the dashboards about single requests."""

from __future__ import annotations

import polars as pl
from dashboards_fixtures import AT, SPANS
from dashboards_support import NAMED, ROOT_SPAN, TRACE, Boards, first_run
from figures_support import by, checks, near, panel_rows, times

CHOICES = (
    ({}, pl.lit(value=True)),
    ({"min_queueing": "0.3"}, pl.col("queueing") > 0.3 + 1e-9),
    ({"min_service": "0.1", "max_service": "0.25"}, pl.col("service_time").is_between(0.1, 0.25)),
    ({"min_response": "1.5"}, pl.col("response") >= 1.5),
    ({"has_id": "missing"}, pl.col("request_id").is_in(["", "-"])),
    (
        {"has_id": "present", "status": ["504", "499"]},
        ~pl.col("request_id").is_in(["", "-"]) & pl.col("status").is_in([499, 504]),
    ),
    ({"method": ["POST"], "service": ["api"]}, (pl.col("method") == "POST") & (pl.col("service") == "api")),
    (
        {"upstream": ["10.0.4.1:8080"], "min_queueing": "0.3", "method": ["GET"]},
        (pl.col("upstream") == "10.0.4.1:8080") & (pl.col("queueing") > 0.3 + 1e-9) & (pl.col("method") == "GET"),
    ),
)


def chosen(facts: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    return first_run(facts).filter(condition)


@checks(("requests", "Matching requests"))
def _how_many(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for values, condition in CHOICES:
        expected = chosen(facts, condition).height
        assert expected > 0, values
        assert panel_rows(store, name, title, **values) == [{"value": expected}], values


@checks(("requests", "When"))
def _when(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for values, condition in CHOICES:
        kept = chosen(facts, condition).with_columns(
            kind=pl.when(pl.col("status") == 499)
            .then(pl.lit("499"))
            .otherwise((pl.col("status") // 100).cast(pl.String) + "xx")
        )
        expected = {
            (t, kind): part.filter(pl.col("kind") == kind).height
            for t, part in by(kept, 60).items()
            for kind in part["kind"].unique()
        }
        rows = panel_rows(store, name, title, **values)
        assert {(t, row["class"]): row["Value"] for t, row in zip(times(rows), rows, strict=True)} == expected


@checks(("requests", "Slowest"))
def _slowest(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    for values, condition in CHOICES:
        expected = chosen(facts, condition).sort("response", descending=True)
        rows = panel_rows(store, name, title, **values)
        assert len(rows) == min(expected.height, 100)  # each once, though delivered twice
        assert [row["response time"] for row in rows] == expected["response"].head(100).to_list()
        known = {
            (r["service"], r["time"], r["request_id"], r["response"], r["upstream"]): r for r in expected.to_dicts()
        }
        for row in rows:
            ended = round(row["ended"].timestamp(), 3)
            truth = known[row["service"], ended, row["request id"], row["response time"], row["backend"]]
            assert (row["route"], row["method"], row["status"], row["attempts"]) == (
                truth["route"],
                truth["method"],
                truth["status"],
                truth["attempts"],
            )
            assert near(row["queueing delay"], truth["queueing"])
            assert near(row["service time"], truth["service_time"])
            parts = row["everything else"] + (row["queueing delay"] or 0) + (row["service time"] or 0)
            assert near(parts, row["response time"])


def one(facts: pl.DataFrame) -> dict[str, object]:
    [row] = facts.filter(pl.col("request_id") == NAMED).to_dicts()
    return row


@checks(("request", "Split"))
def _split(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    [row] = panel_rows(store, name, title, request_id=NAMED)
    truth = one(facts)
    named = {
        "upload": "upload",
        "retries": "retries",
        "queueing delay": "queueing",
        "service time": "service_time",
        "network": "network",
        "transfer": "transfer",
        "send": "send",
        "unattributed": "unattributed",
    }
    for column, part in named.items():
        assert near(row[column], truth[part]), column
    assert truth["retries"] > 0
    assert near(sum(row[column] for column in named), truth["response"])


@checks(("request", "Record"))
def _record(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    fields = {row["field"]: row["value"] for row in panel_rows(store, name, title, request_id=NAMED)}
    truth = one(facts)
    assert (fields["request id"], fields["route"], fields["trace id"], fields["attempts"]) == (
        NAMED,
        truth["route"],
        TRACE,
        "2",
    )
    assert near(float(fields["response time, s"]), truth["response"])
    assert near(float(fields["service time as the app said, s"]), truth["service_time"])
    assert "bytes sent" not in fields  # was not logged: not shown


@checks(("request", "Attempts"))
def _attempts(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    first, second = panel_rows(store, name, title, request_id=NAMED)
    truth = one(facts)
    assert (first["attempt"], first["status"], first["header"], first["connect"]) == (1, 504, None, None)
    assert near(first["response"], truth["retries"])
    assert (second["attempt"], second["status"], second["backend"]) == (2, 200, truth["upstream"])
    assert near(second["response"] - second["header"], truth["transfer"])


@checks(("request", "Spans"))
def _spans(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title, request_id=NAMED)
    assert len(rows) == len(SPANS)  # the one with the id, and the one of its trace; each once
    for row, (began, took, span, kind, *_) in zip(rows, SPANS, strict=True):
        assert (row["span"], row["kind"]) == (span, kind)
        assert near(row["took"], took)
        assert near(row["began"].timestamp(), AT + began)


@checks(("request", "Span tree"))
def _tree(store: Boards, facts: pl.DataFrame, name: str, title: str) -> None:
    rows = panel_rows(store, name, title, request_id=NAMED)
    truth = one(facts)
    tree = {row["spanID"]: row for row in rows}
    assert {row["traceID"] for row in rows} == {TRACE}
    assert len(tree) == len(rows) == len(SPANS) + 2
    root, waiting = tree[ROOT_SPAN], tree[f"{ROOT_SPAN}-queueing"]
    assert root["parentSpanID"] == ""
    assert all(row["parentSpanID"] in tree for row in rows if row is not root)  # one tree
    assert near(root["duration"], truth["response"] * 1000, 1e-6)
    assert near(root["startTime"].timestamp(), truth["time"] - truth["response"])
    assert near(waiting["duration"], truth["queueing"] * 1000, 1e-6)
    begun = truth["time"] - truth["response"] + truth["upload"] + truth["retries"]
    assert near(waiting["startTime"].timestamp(), begun)
    assert [row["startTime"] for row in rows] == sorted(row["startTime"] for row in rows)
    assert tree["33" * 8]["statusCode"] == 2
    assert tree["22" * 8]["tags"] == [{"key": "http.request.method", "value": "GET"}]
