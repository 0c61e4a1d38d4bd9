"""A lean log has the same answers as the full log of the same requests: from its lines, and from a store."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import sojourn
from sojourn.doctor.nginx_records import LEAN
from sojourn.nginx.includes import includes_folder
from sojourn.store import load
from sojourn.store.client import connect, rows

SHOP = Path(__file__).parents[2] / "docs/examples/shop.jsonl.gz"
LEAN_KEYS = re.findall(r'"(\w+)":"\$', (includes_folder() / LEAN.http).read_text())
EMPTY = ("request_id", "uri")  # by default
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "split": sojourn.split,
    "blame": sojourn.blame,
    "depth": sojourn.depth,
    "laws": sojourn.laws,
    "capacity": lambda log: sojourn.capacity(log, slo="p99=0.5"),
    "whatif": lambda log: sojourn.whatif(log, {"workers": "+1"}),
}
Record = dict[str, str]


def lean(record: Record) -> Record:
    return {key: "" if key in EMPTY else record.get(key, "") for key in LEAN_KEYS}


def written(path: Path, records: Iterable[Record], separators: tuple[str, str] | None = None) -> Path:
    path.write_text("".join(json.dumps(each, separators=separators) + "\n" for each in records))
    return path


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """The full records of a shop, with the connections that its example does not have."""
    lines = gzip.decompress(SHOP.read_bytes()).decode().splitlines()
    return [
        {"connection": str(number // 7), "connection_requests": str(number % 7 + 1), **json.loads(line)}
        for number, line in enumerate(lines)
        if line.startswith("{")
    ]


@pytest.fixture(scope="module")
def logs(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("logs")
    return written(folder / "full.jsonl", records), written(folder / "lean.jsonl", map(lean, records))


def without_names(value: Any) -> Any:
    """A result without what names single requests: a lean record has neither their id nor their URI."""
    if isinstance(value, dict):
        return {key: without_names(each) for key, each in value.items() if key not in EMPTY}
    return [without_names(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("question", QUESTIONS)
def test_same_answer(logs: tuple[Path, Path], question: str) -> None:
    full, of_lean = (without_names(QUESTIONS[question](log).to_dict()) for log in logs)
    assert of_lean == full
    assert full


def test_retries_of_clients_are_unknown_without_clients(logs: tuple[Path, Path]) -> None:
    full, of_lean = (without_names(sojourn.goodput(log).to_dict()) for log in logs)
    assert full.pop("client_repeats") > 0
    assert full.pop("amplification") > 1
    assert (of_lean.pop("client_repeats"), of_lean.pop("amplification")) == (None, None)
    assert of_lean == full


def test_record_that_is_delivered_twice_is_one(records: list[Record], tmp_path: Path) -> None:
    """Also where the second copy has another form, which another reader reads."""
    some = [lean(each) for each in records[:500]]
    first = written(tmp_path / "first.jsonl", some)
    again = written(tmp_path / "again.jsonl", [{**each, "route": each["route"]} for each in some], (",", ":"))
    escaped = written(tmp_path / "escaped.jsonl", ({"time": each["time"], **each} for each in some[::-1]))
    escaped.write_text(escaped.read_text().replace('"shop"', '"\\u0073hop"'))
    split = sojourn.split([first, again, escaped])
    assert (split.records.read, split.requests) == (1500, 500)


@pytest.mark.parametrize("key", ["connection", "connection_requests", "proxy", "time"])
def test_requests_that_differ_in_one_part_of_the_identity(records: list[Record], tmp_path: Path, key: str) -> None:
    one = lean(records[0])
    other = {**one, key: {"time": "1767225600.011", "proxy": "edge-2"}.get(key, "99")}
    log = written(tmp_path / "log.jsonl", [one, other])
    assert sojourn.split(log).requests == 2


@pytest.mark.parametrize("key", ["connection_requests", "proxy"])
def test_without_a_part_of_the_identity_the_whole_line_counts(records: list[Record], tmp_path: Path, key: str) -> None:
    one = {**lean(records[0]), key: ""}
    log = written(tmp_path / "log.jsonl", [one, {**one, "bytes_sent": "7"}, one])
    assert sojourn.split(log).requests == 2


def test_store_holds_each_record_once(logs: tuple[Path, Path], store_dsn: str) -> None:
    load(store_dsn, [logs[1], logs[1]])
    with connect(store_dsn) as store:
        (counted,) = rows(store, "SELECT count(), uniqExact(record), sum(app_service_time) > 0 FROM requests FINAL")
    assert counted == (3087, 3087, True)


@pytest.mark.thorough
def test_same_answer_from_a_store(logs: tuple[Path, Path], make_store: Callable[[], str]) -> None:
    splits = []
    for log in logs:
        dsn = make_store()
        load(dsn, [log])
        splits.append(without_names(sojourn.split(dsn).to_dict()))
    assert splits[0] == splits[1]
