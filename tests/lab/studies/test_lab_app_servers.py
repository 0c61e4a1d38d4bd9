"""The page on app servers, from a run of two of its servers."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lab_support import find_scenario
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.servers.table import SERVERS as KINDS
from studies.app_servers.page import SERVERS, page

ROOT = Path(__file__).parents[3]
SCENARIO_FILE = ROOT / "lab" / "studies" / "app_servers" / "app-servers.toml"
BENCHMARK_RUN = ROOT / "docs" / "examples" / "benchmark-run"


def two_servers(folder: Path) -> Path:
    """The scenario with the cases of gunicorn's sync workers and uvicorn, a second each."""
    text = SCENARIO_FILE.read_text()
    head, *cases = re.split(r"(?m)^(?=\[\[cases\]\]|\[\[criteria\]\]|# Written)", text)
    blocks = [each for each in cases if "gunicorn-sync" in each or "uvicorn" in each]
    assert len(blocks) == 2
    head = re.sub(r"(?m)^duration = .*", "duration = 1.0", re.sub(r"(?m)^warmup = .*", "warmup = 0.5", head))
    path = folder / "app-servers.toml"
    path.write_text(head + "".join(blocks))
    return path


def test_page_of_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "sojourn_lab", "run", str(two_servers(tmp_path)), "--out", str(run), "--once"]
    subprocess.run([*command, "--quick", "--accept-void"], cwd=ROOT, capture_output=True, timeout=120, check=False)
    text = page(run)
    lines = [line for line in text.partition("## Measured")[2].splitlines() if line.startswith("| ")]
    measured = {row[0]: row[1:] for row in (line.strip("| ").split(" | ") for line in lines[2:])}
    assert list(measured) == ["gunicorn, sync", "uvicorn"]
    configuration, queueing, service, response, law, error, depth = measured["gunicorn, sync"]
    assert configuration == "2"
    assert 6 <= int(depth) <= 8  # eight clients, two workers; between two services a worker has no request
    assert float(queueing) + float(service) == pytest.approx(float(response), rel=0.1)
    assert float(queueing) == pytest.approx(float(law) * (1 + float(error.rstrip("%")) / 100), rel=0.02)
    assert measured["uvicorn"][4:6] == ["–", "–"]
    for server in SERVERS:
        assert f"| {server.name} | {server.worker} |" in text


def test_every_server_with_workers_is_described() -> None:
    described = {each.case for each in SERVERS}
    cases = {re.sub(r"-c\d+$", "", case.name): case for case in find_scenario(str(SCENARIO_FILE)).cases}
    assert set(cases) == described
    servers = {case.topology.server for case in cases.values() if case.topology is not None}
    assert servers == set(KINDS) - {"queue"}


def test_rejects_other_folders(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"needs run\.json"):
        page(tmp_path)
    (tmp_path / "run.json").write_bytes(gzip.decompress((BENCHMARK_RUN / "run.json.gz").read_bytes()))
    with pytest.raises(LabError, match="a run of benchmark"):
        page(tmp_path)
