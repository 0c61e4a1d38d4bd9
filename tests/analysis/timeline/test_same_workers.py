"""Addresses that lead to the same workers."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import sojourn
from worker_log import WorkerSystem, worker_log


def _records(path: Path, system: WorkerSystem) -> list[dict[str, str]]:
    worker_log(path, system)
    return [json.loads(line) for line in path.read_text().splitlines()]


def _written(path: Path, records: list[dict[str, str]]) -> Path:
    records.sort(key=lambda record: float(record["time"]))
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("seed", [1, 2])
def test_two_addresses_of_one_pool_are_one_backend(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    records = _records(tmp_path / "a.jsonl", WorkerSystem(seed=seed))
    for record in records:
        record["upstream_addr"] = rng.choice(["10.0.0.1:80", "10.0.0.1:81"])
    log = _written(tmp_path / "a.jsonl", records)
    result = sojourn.blame(log)
    assert [(row["upstream"], row["workers"], row["joined"]) for row in result.workers] == [
        ("10.0.0.1:80", 4, ["10.0.0.1:81"])
    ]
    assert result.dispatch + result.imbalance < 0.02 * result.waited
    overall = sojourn.depth(log).overall
    assert overall["workers"] == 4
    assert overall["utilisation"] == pytest.approx(0.85, abs=0.06)


@pytest.mark.parametrize("seed", [1, 2])
def test_containers_with_equal_worker_names_remain_two_backends(tmp_path: Path, seed: int) -> None:
    one = _records(tmp_path / "a.jsonl", WorkerSystem(seed=seed, load=0.5))
    two = _records(tmp_path / "b.jsonl", WorkerSystem(seed=seed + 10, load=0.5))
    for record in two:
        record |= {"upstream_addr": "10.0.0.2:80", "request_id": "b" + record["request_id"][1:]}
    log = _written(tmp_path / "c.jsonl", one + two)
    assert [row["workers"] for row in sojourn.blame(log).workers] == [4, 4]


def test_addresses_without_common_names_remain_apart(tmp_path: Path) -> None:
    records = _records(tmp_path / "a.jsonl", WorkerSystem())
    for record in records:
        record["upstream_addr"] = "10.0.0.1:80" if record["worker"] < "2" else "10.0.0.1:81"
    assert len(sojourn.blame(_written(tmp_path / "a.jsonl", records)).workers) == 2
