"""The benchmark runs; how fast is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def test_it_writes_its_table_as_json_and_markdown(tmp_path: Path) -> None:
    command = [sys.executable, str(HOUSE / "analysis/benchmarks/bench.py"), "--lines", "500", "--repeats", "1"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert rows[0]["what"] == "sojourn split"
    assert rows[0]["split_to_this"] == 1
    assert len(rows) >= 2
    assert all(row["seconds"] > 0 and row["peak_mb"] > 0 for row in rows)
    assert (tmp_path / "bench.md").read_text().strip() in done.stdout
