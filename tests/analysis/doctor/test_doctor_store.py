"""Stores that are missing, old, empty or incomplete."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sojourn.doctor.doctor import diagnose
from sojourn.model.errors import SojournError
from sojourn.store import connect, load
from test_doctor_log import blank, every, log, raw_route

pytest.importorskip("chdb")
FED_ONCE = {"store-quiet", "listen-missing"}  # of an old log, loaded once


def codes(dsn: str) -> set[str]:
    return {each.code for each in diagnose(dsn).findings}


def test_store_that_cannot_be_opened(tmp_path: Path) -> None:
    missing = diagnose(f"chdb://{tmp_path}/nowhere").findings
    assert [(each.code, each.how) for each in missing] == [("store-missing", "run")]
    assert missing[0].fix == f"sojourn store init chdb://{tmp_path}/nowhere"
    unreachable = diagnose("clickhouse://user:secret@127.0.0.1:1/x")
    assert [each.code for each in unreachable.findings] == ["store-unreachable"]
    assert "secret" not in str(unreachable.to_dict())
    with pytest.raises(SojournError, match=r"not a store"):
        diagnose("mysql://host/x")


def test_empty_store_and_old_store(store_dsn: str) -> None:
    assert codes(store_dsn) == {"store-empty", "listen-missing"}
    with connect(store_dsn) as store:
        store.client.command(
            "ALTER TABLE schema_state DELETE WHERE name = 'tables/blame_minute' SETTINGS mutations_sync = 1"
        )
    (finding,) = diagnose(store_dsn).findings
    assert (finding.code, finding.severity) == ("store-old", "error")
    assert "tables/blame_minute" in finding.what
    assert finding.fix == f"sojourn store init '{store_dsn}'"


def test_complete_log_in_a_store(tmp_path: Path, store_dsn: str) -> None:
    load(store_dsn, [log(tmp_path / "a.jsonl")])
    diagnosis = diagnose(store_dsn)
    assert {each.code for each in diagnosis.findings} == FED_ONCE
    assert not diagnosis.broken
    assert "600 of 600 lines could be used" in diagnosis.checked


@pytest.mark.thorough
def test_shares_are_of_all_answers_with_many_routes(
    tmp_path: Path, make_store: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sojourn.doctor.store.MOST_BACKENDS", 20)

    def changed(number: int, row: dict[str, str]) -> dict[str, str]:
        return raw_route(number, blank(40, "queueing_delay", "service_time", "worker")(number, row))

    dsn = make_store()
    load(dsn, [log(tmp_path / "a.jsonl", changed)])
    assert codes(dsn) - FED_ONCE == {"routes-many"}
    later = diagnose(dsn, since=datetime(2030, 1, 1, tzinfo=UTC))
    assert not later.broken
    assert len(later.unseen) == 1


def test_store_gives_the_findings_of_its_log(tmp_path: Path, make_store: Callable[[], str]) -> None:
    def changed(number: int, row: dict[str, str]) -> dict[str, str]:
        for change in (
            blank(2, "queueing_delay", "service_time", "worker"),
            every(5, stamp="refused:future"),
            raw_route,
        ):
            row = change(number, row)
        return row

    source = log(tmp_path / "a.jsonl", changed)
    with Path(source).open("a") as file:
        file.write("not a record\n" * 10)
    dsn = make_store()
    load(dsn, [source])
    in_log = {each.code: each for each in diagnose(source).findings}
    in_store = {each.code: each for each in diagnose(dsn).findings}
    assert set(in_store) - FED_ONCE == set(in_log)
    assert {"app-silent", "stamp-refused", "routes-many", "lines-refused"} <= set(in_store)
    for code, finding in in_log.items():
        assert (in_store[code].what, in_store[code].severity) == (finding.what, finding.severity)


@pytest.mark.thorough
def test_stamps_of_the_end_in_a_store_are_those_of_the_log(tmp_path: Path, store_dsn: str) -> None:
    def of_the_end(number: int, row: dict[str, str]) -> dict[str, str]:
        return {**row, "request_start": row["time"], "proxy_start": row["time"]} if number % 4 else row

    source = log(tmp_path / "a.jsonl", of_the_end)
    load(store_dsn, [source])
    of_log, of_store = (
        next(each for each in diagnose(target).findings if each.code == "log-stamp") for target in (source, store_dsn)
    )
    assert "75 % of the requests to an app (450 of 600)" in of_log.what
    assert (of_store.what, of_store.severity, of_store.fix) == (of_log.what, "error", of_log.fix)
