"""Alert rules: the file Grafana reads, and each rule's query on a store where it must fire and where it must not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml
from dashboards_fixtures import NOW, SPAN_COUNTS, serve
from dashboards_support import BEGIN, END, HERE, Boards, boards, panels
from grafana_expand import View, expanded, provisioned
from sojourn_dashboards.alerts import RULES, Rule

FILE = HERE / "grafana" / "provisioning" / "alerting" / "sojourn.yaml"
BY_UID = {rule.uid: rule for rule in RULES}


@pytest.fixture(scope="module")
def rules() -> dict[str, dict[str, Any]]:
    [group] = yaml.safe_load(FILE.read_text())["groups"]
    assert (group["orgId"], group["folder"], group["interval"]) == (1, "Sojourn", "1m")
    return {rule["uid"]: rule for rule in group["rules"]}


def test_the_required_rules_exist(rules: dict[str, dict[str, Any]]) -> None:
    assert {"sojourn-queueing", "sojourn-growing", "sojourn-reconciliation", "sojourn-clock"} <= set(rules)
    assert {"sojourn-wasted", "sojourn-capacity"} <= set(rules)
    assert set(rules) == set(BY_UID)


@pytest.mark.parametrize("uid", BY_UID)
def test_a_rule_is_whole(rules: dict[str, dict[str, Any]], uid: str) -> None:
    rule = rules[uid]
    assert len(uid) <= 40
    assert rule["noDataState"] in {"OK", "NoData"}
    assert rule["execErrState"] == "Error"
    assert rule["for"].endswith("m")
    notes = rule["annotations"]
    assert len(notes["description"]) > 60
    assert "{{" in notes["summary"]
    # Of a provisioning file Grafana puts environment variables into everything but a query's model.
    assert {key: value for key, value in provisioned(rule).items() if key != "data"} == {
        k: v for k, v in rule.items() if k != "data"
    }
    assert notes["runbook_url"] == "/d/sojourn-runbook/runbook"
    assert f"## {rule['title']}" in (HERE / "runbook.md").read_text()
    board = next(board for board in boards().values() if board["uid"] == rule["dashboardUid"])
    assert rule["panelId"] in [panel["id"] for panel in panels(board)]
    query, threshold = rule["data"]
    assert (query["refId"], query["datasourceUid"], query["model"]["format"]) == ("A", "sojourn", 1)
    assert query["relativeTimeRange"] == {"from": BY_UID[uid].seconds, "to": 0}
    assert query["model"]["rawSql"] == BY_UID[uid].query.strip()
    assert (threshold["model"]["expression"], rule["condition"]) == ("A", "B")
    assert threshold["model"]["conditions"][0]["evaluator"] == {"type": "gt", "params": [BY_UID[uid].above]}


def fired(store: Boards, rule: Rule, now: datetime = NOW) -> dict[tuple[str, ...], float]:
    """Labels -> value, of what is above the threshold; in the one shape Grafana makes numbers with labels of."""
    requested = store.sql(expanded(rule.query, View(now - timedelta(seconds=rule.seconds), now)))
    numbers = [c for c, kind in zip(requested.columns, requested.types, strict=True) if "String" not in kind]
    assert len(numbers) <= 1  # one number a row; the rest are labels
    assert not any(kind.startswith("DateTime") for kind in requested.types)
    labels = [c for c in requested.columns if c not in numbers]
    for label in labels:
        assert f".Labels.{label}" in rule.summary or label == "service"
    return {tuple(row[c] for c in labels): row[numbers[0]] for row in requested.rows if row[numbers[0]] > rule.above}


@pytest.fixture
def store(store_dsn: str) -> Iterator[Boards]:
    from sojourn.store import connect  # noqa: PLC0415

    with connect(store_dsn) as opened:
        yield Boards(opened.client)


def test_queueing_over_the_slo(store: Boards) -> None:
    rule = BY_UID["sojourn-queueing"]
    serve(store, range(1, 11), waiting=0.9, name="queue")
    serve(store, range(1, 11), waiting=0.05, service=0.9, name="slow code")
    serve(store, range(1, 11), waiting=0.3, service=0.05, name="within the SLO")
    serve(store, range(1, 11), waiting=0.9, name="rare", each=5)
    alarms = fired(store, rule)
    assert set(alarms) == {("queue",)}
    assert alarms["queue",] == pytest.approx(0.9)
    assert fired(store, rule, NOW + timedelta(hours=1)) == {}


def test_queue_growing(store: Boards) -> None:
    rule = BY_UID["sojourn-growing"]
    serve(store, range(6, 11), waiting=2.0, name="growing")
    serve(store, range(1, 6), waiting=8.0, name="growing")
    serve(store, range(1, 11), waiting=8.0, name="long, and steady")
    serve(store, range(6, 11), waiting=0.01, name="small")
    serve(store, range(1, 6), waiting=0.5, name="small")
    serve(store, range(6, 11), waiting=1.0, name="enough workers", workers=10)
    serve(store, range(1, 6), waiting=4.0, name="enough workers", workers=10)
    serve(store, range(6, 11), waiting=8.0, name="shrinking")
    serve(store, range(1, 6), waiting=2.0, name="shrinking")
    assert fired(store, rule) == {("growing",): pytest.approx(4.0)}


def test_a_minute_that_is_not_over_counts_for_nothing(store: Boards) -> None:
    serve(store, range(1, 11), waiting=3.0)
    serve(store, range(1), waiting=30.0, each=600)
    assert fired(store, BY_UID["sojourn-growing"]) == {}


def test_work_for_disconnected_clients(store: Boards) -> None:
    """Of 300 s of work in five minutes, 20 s for clients that are gone are above 5 %, and 10 s are not."""
    for name, gone, each in (("wastes", 10, 2.0), ("a little", 10, 1.0), ("one slow one", 1, 60.0), ("sound", 0, 0.0)):
        serve(store, range(1, 6), waiting=0.1, service=1.0, name=name)
        give_up(store, name, gone, each)
    give_up(store, "long ago", 10, 2.0, NOW - timedelta(minutes=30))
    assert fired(store, BY_UID["sojourn-wasted"]) == {("wastes",): pytest.approx(20 / 320)}
    assert fired(store, BY_UID["sojourn-wasted"], NOW + timedelta(hours=1)) == {}


def give_up(store: Boards, name: str, count: int, seconds: float, at: datetime = NOW) -> None:
    """Requests that nginx gave up on two minutes before, and the spans of what their workers did all the same."""
    from sojourn.store.rollups import REFRESH  # noqa: PLC0415

    if not count:
        return
    end = at - timedelta(minutes=2)
    columns = ["time", "request_time", "status", "service", "route", "request_id", "attempt_addr", "attempt_status",
               "attempt_connect", "attempt_header", "attempt_response"]  # fmt: skip
    rows = [[end, 5.0, 504, name, "/", f"{name} {at} {n}", ["a:1"], [504], [0.0], [None], [5.0]] for n in range(count)]
    store.client.insert("incoming_rows", rows, column_names=columns)
    spans = [
        [end, end + timedelta(seconds=seconds), f"{n}", f"{n}", f"{name} {at} {n}", name, "server"]
        for n in range(count)
    ]
    names = ["start", "end", "trace_id", "span_id", "request_id", "service", "kind"]
    store.client.insert("spans", spans, column_names=names)
    store.client.command(REFRESH)


def test_near_capacity(store: Boards) -> None:
    for name, each in (("full", 100), ("half", 50), ("unknown", 100), ("taken back", 100)):
        serve(store, range(1, 6), waiting=0.1, name=name, each=each)
    for name, rate in (("full", 900.0), ("full", 2.0), ("half", 2.0), ("taken back", 1.0), ("taken back", 0.0)):
        store.client.insert("capacity", [[name, rate]], column_names=["service", "rate"])
    assert fired(store, BY_UID["sojourn-capacity"]) == {("full",): pytest.approx(100 / 60 / 2)}
    assert fired(store, BY_UID["sojourn-capacity"], NOW + timedelta(hours=1)) == {}


def test_listen_queue_filling(store: Boards) -> None:
    depths = {"full": lambda s: 60, "bursts": lambda s: 64 if s % 2 else 1, "half": lambda s: 32, "empty": lambda s: 0}
    rows = [
        [NOW - timedelta(seconds=s), "m", name, 8000, depth(s), 64]
        for name, depth in depths.items()
        for s in range(290)
    ]
    store.client.insert("listen_queue", rows, column_names=["time", "machine", "socket", "port", "depth", "backlog"])
    assert fired(store, BY_UID["sojourn-listen"]) == {("m", "full"): 60 / 64}


def test_reconciliation_gap(store: Boards) -> None:
    at = NOW - timedelta(minutes=30)
    for agent, missing, arrived in (
        ("loses", 100, 9_900),
        ("well", 0, 10_000),
        ("again", 0, 10_400),
        ("one", 1, 9_999),
    ):
        half = 100 * arrived // 2  # lines of 100 bytes
        runs = ((0, half, at), (half + 100 * missing, 2 * half + 100 * missing, at + timedelta(minutes=1)))
        store.client.insert(
            "line_runs",
            [[f"{agent}:/log", begin, end, (end - begin) // 100, when, when, False, when] for begin, end, when in runs],
            column_names=["source", "begin", "end", "lines", "since", "until", "refused", "arrived"],
        )
        store.client.insert(
            "lines_received",
            [[at, "requests", f"{agent}:/log", arrived]],
            column_names=["minute", "kind", "source", "lines"],
        )
    assert fired(store, BY_UID["sojourn-reconciliation"]) == {("loses:/log",): pytest.approx(0.01)}
    assert fired(store, BY_UID["sojourn-reconciliation"], NOW + timedelta(hours=4)) == {}  # what is over rings no more


def sampled(store: Boards, host: str, ago: float, size: int, read: int) -> None:
    """Store a sample of the only log of a host."""
    at = NOW - timedelta(seconds=ago)
    slot = at.replace(second=at.second // 10 * 10, microsecond=0)
    columns = ["host", "source", "file", "slot", "sampled", "arrived", "present", "low", "size", "read"]
    for source, file, of_file in ((host, "", (0, 0, -1)), (f"{host}:/log", "f", (size, size, read))):
        store.client.insert("log_files", [[host, source, file, slot, at, at, at, *of_file]], column_names=columns)


def test_agent_silent(store: Boards) -> None:
    rule = BY_UID["sojourn-agent"]
    sampled(store, "dead", 50, 1000, 400)
    sampled(store, "well", 50, 1000, 1000)
    sampled(store, "well", 5, 2000, 2000)
    sampled(store, "gone", 2 * 86400, 1000, 1000)
    assert fired(store, rule) == {("dead",): 50}
    assert fired(store, rule, NOW - timedelta(seconds=6)) == {}


def test_log_not_read(store: Boards) -> None:
    """What was written a minute before the last sample, and not what was written since."""
    for host, read in (("behind", 400), ("quick", 1900)):
        sampled(store, host, 120, 1000, 0)
        sampled(store, host, 5, 2000, read)
    assert fired(store, BY_UID["sojourn-unread"]) == {("behind:/log",): 600}


def test_spans_missing(store: Boards) -> None:
    """Fewer than ten, a share that is usual, and services without spans do not fire."""
    store.client.command("SYSTEM STOP VIEW spans_refresh")
    hour = NOW.replace(minute=0, second=0)
    usual = {"loses": 0, "a few": 0, "sampled": 90, "without spans": 100}
    lost = {"loses": 20, "a few": 9, "sampled": 95, "without spans": 100}
    rows = []
    for minute in range(-180, 0):
        values = lost if minute == -30 else usual
        columns = [[*usual], ["/"] * 4, ["edge:/log"] * 4, [100] * 4, [values[name] for name in usual]]
        rows.append([hour + timedelta(minutes=minute), hour, *columns])
    names = ["minute", "computed", *(f"counts.{name}" for name in SPAN_COUNTS)]
    store.client.insert("spans_minute", rows, column_names=names)
    minutes = 119  # whole ones in the last two hours, at half past a minute
    assert fired(store, BY_UID["sojourn-spans"]) == {("loses",): pytest.approx(20 / (100 * minutes))}
    assert fired(store, BY_UID["sojourn-spans"], NOW + timedelta(hours=4)) == {}


def test_store_damaged(store: Boards) -> None:
    rule = BY_UID["sojourn-damaged"]
    assert fired(store, rule) == {}
    store.client.insert("capacity", [["shop", 1.0]], column_names=["service", "rate"])
    store.client.command("ALTER TABLE capacity DETACH PARTITION tuple()")
    try:
        assert fired(store, rule) == {("capacity",): 1}
    finally:
        store.client.command("ALTER TABLE capacity ATTACH PARTITION tuple()")


def test_clock_uncertainty(boards_store: Boards, store: Boards) -> None:
    rule = BY_UID["sojourn-clock"]
    assert fired(boards_store, rule, END) == {}
    serve(store, range(1, 11), waiting=4.0, stamped=True)
    alarms = fired(store, rule)  # a queue that was never empty hides the lower envelope
    assert set(alarms) == {("edge", "a:1")}
    assert alarms["edge", "a:1"] > 1


def test_lines_refused(store: Boards) -> None:
    rule = BY_UID["sojourn-dead-letters"]
    put = lambda minutes, kind, lines: store.client.insert(  # noqa: E731
        "lines_received",
        [[NOW - timedelta(minutes=minutes), kind, "f", lines]],
        column_names=["minute", "kind", "source", "lines"],
    )
    put(3, "dead_letters", 5)
    assert fired(store, rule) == {}  # five lines are no rate
    put(4, "requests", 9_995)
    assert fired(store, rule) == {}
    put(5, "dead_letters", 10)
    assert fired(store, rule) == {(): pytest.approx(15 / 10_010)}


def test_nothing_arrives(store: Boards) -> None:
    rule = BY_UID["sojourn-silence"]
    store.client.insert(
        "lines_received",
        [[NOW - timedelta(minutes=11, seconds=30), "requests", "f", 1]],
        column_names=["minute", "kind", "source", "lines"],
    )
    assert fired(store, rule) == {(): 690}
    assert fired(store, rule, NOW - timedelta(minutes=5)) == {}
    assert BEGIN < NOW


def test_the_data_source_and_the_dashboards_are_provisioned() -> None:
    [source] = yaml.safe_load((HERE / "grafana/provisioning/datasources/sojourn.yaml").read_text())["datasources"]
    assert (source["uid"], source["type"]) == ("sojourn", "grafana-clickhouse-datasource")
    assert source["secureJsonData"]["password"].startswith("$__file{/run/secrets/")
    assert not any("password" in key.lower() for key in source["jsonData"])
    assert source["jsonData"]["defaultDatabase"] == "sojourn"
    [provider] = yaml.safe_load((HERE / "grafana/provisioning/dashboards/sojourn.yaml").read_text())["providers"]
    assert provider["folder"] == "Sojourn"
    assert provider["allowUiUpdates"] is False
