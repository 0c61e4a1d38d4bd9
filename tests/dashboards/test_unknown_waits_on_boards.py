"""A wait that is not in a log is unknown on the dashboards too, never 0: they say what ``sojourn split`` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sojourn
from dashboards_support import Boards, boards, variables
from grafana_expand import View
from sojourn.store import connect, load
from test_unknown_waits import BEGIN, REQUESTS, SERVICE, WAIT, app_line, partly_known, proxy_line

BEGUN = datetime.fromtimestamp(BEGIN, UTC)
RANGE = (BEGUN, BEGUN + timedelta(minutes=3), 60)
Panel = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def app_log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_text("".join(map(app_line, range(REQUESTS))))
    return path


@pytest.fixture
def proxy_log(tmp_path: Path) -> Path:
    path = tmp_path / "proxy.jsonl"
    path.write_text("".join(map(proxy_line, range(REQUESTS))))
    return path


@contextmanager
def panels_of(dsn: str, sources: Sequence[Any]) -> Iterator[Panel]:
    """The rows of a panel over everything in a store with these logs."""
    load(dsn, sources)
    with connect(dsn) as store:

        def panel(name: str, title: str, **values: str) -> list[dict[str, Any]]:
            return Boards(store.client).panel(name, title, View(*RANGE, variables(boards()[name]) | values)).rows

        yield panel


def test_log_of_an_app_server_alone(store_dsn: str, app_log: Path) -> None:
    with panels_of(store_dsn, [sojourn.log_file(app_log, format="gunicorn")]) as panel:
        assert panel("verdict", "Verdict") == [{"verdict": "unknown"}]
        assert panel("verdict", "Share of queueing") == [{"value": None}]
        assert panel("verdict", "Share over time") == []
        for row in panel("verdict", "Mean response time, split"):
            assert row["queueing delay"] is None
            assert row["service time"] == pytest.approx(SERVICE)
        (row,) = panel("verdict", "By backend")
        assert (row["share of queueing"], row["mean queueing"], row["p99 queueing"]) == (None, None, None)
        assert row["mean service"] == pytest.approx(SERVICE)
        summary = {row["measure"]: row["A"] for row in panel("compare", "A and B")}
        assert (summary["share of queueing"], summary["mean queueing"]) == (None, None)
        assert summary["mean service"] == pytest.approx(SERVICE)


def test_log_of_a_proxy_is_as_before(store_dsn: str, proxy_log: Path) -> None:
    with panels_of(store_dsn, [proxy_log]) as panel:
        assert panel("verdict", "Verdict") == [{"verdict": "queueing"}]
        assert panel("verdict", "Share of queueing") == [{"value": pytest.approx(WAIT / 0.1)}]
        (row,) = panel("verdict", "By backend")
        assert row["mean queueing"] == pytest.approx(WAIT)


def test_share_of_both_is_of_the_requests_whose_wait_is_known(store_dsn: str, proxy_log: Path, app_log: Path) -> None:
    with panels_of(store_dsn, [proxy_log, sojourn.log_file(app_log, format="gunicorn")]) as panel:
        assert panel("verdict", "Verdict") == [{"verdict": "unknown"}]
        assert panel("verdict", "Share of queueing") == [{"value": pytest.approx(WAIT / 0.1)}]


@pytest.mark.parametrize("unknown", [2, 60, 390])
def test_share_is_of_the_known_requests_however_many_are_not(store_dsn: str, tmp_path: Path, unknown: int) -> None:
    log = partly_known(tmp_path / "access.jsonl", unknown)
    with panels_of(store_dsn, [log]) as panel:
        assert panel("verdict", "Share of queueing") == [{"value": pytest.approx(WAIT / 0.1)}]
        assert panel("verdict", "Verdict") == [{"verdict": sojourn.split(log).verdict.cause}]
