"""The benchmark of the replay runs beside its peers; how fast is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def test_it_writes_its_table_as_json_and_markdown(tmp_path: Path) -> None:
    command = [sys.executable, str(HOUSE / "analysis/benchmarks/queueing.py"), "--requests", "5000", "--repeats", "1"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = {row["what"]: row for row in json.loads((tmp_path / "queueing.json").read_text())["rows"]}
    assert {"SimPy, M/M/1", "Ciw, M/M/1", "fifo, 16 workers, one queue", "sjf, 1 worker"} <= set(rows)
    assert rows["SimPy, M/M/1"]["to_simpy"] == 1
    assert all(row["requests_per_second"] > 0 for row in rows.values())
    assert (tmp_path / "queueing.md").read_text().strip() in done.stdout
