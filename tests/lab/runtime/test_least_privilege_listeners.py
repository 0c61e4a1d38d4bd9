"""Nothing listens beyond loopback: not by configuration, not in the sources, not while the lab runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[3]
LISTENING = "0A"  # the state, in /proc/net/tcp
# Where every address of a container is meant, whose ports compose publishes at 127.0.0.1 or not at all; where hosts of
# others are described; and code that reads such an address from other programs.
EVERYWHERE = {
    "collector/vector/compose/listeners.yaml",
    "collector/vector/compose/spans_listeners.yaml",
    "docker-compose.yml",  # the exporter, in a network of its own; tests/compose checks what is published
    "dashboards/prometheus/scaling/scrape.yaml",  # a container of a pod, which Prometheus scrapes
    "lab/images/Dockerfile",
    "lab/sojourn_lab/runtime/compose",
    "docs/how-to/load-balancer-in-front.md",
    "analysis/sojourn/doctor",
    "analysis/sojourn/host/sock_diag.py",
    "lab/sojourn_lab/load/generator/local_ports.py",  # clients, who never listen
    "docs/reference/doctor.md",
}
ADDRESS = re.compile(r"(?<![\d.])0\.0\.0\.0(?!/)|\[::\]:\d|\bINADDR_ANY\b|(?:bind|create_server)\(\(?\"\"")


def sources() -> Iterator[Path]:
    """Files that a user runs or copies: programs, configuration, examples in the documents."""
    for folder, folders, names in os.walk(ROOT):
        # Not what a machine left behind, nor what starts with a dot.
        folders[:] = [
            name for name in folders if name[0] != "." and name not in {"runs", "site", "dist", "__pycache__"}
        ]
        yield from _shipped(Path(folder).relative_to(ROOT) / name for name in names)


def _shipped(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        kinds = {".py", ".rb", ".yaml", ".yml", ".toml", ".conf", ".md", ".sh", ".js", ".ru", ""}
        if path.suffix in kinds and path.parts[0] not in {"tests", "CHANGELOG.md"}:
            yield path


def addresses_of(value: Any) -> Iterator[str]:
    """Every `address` of a configuration of Vector's, however deep."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "address" and isinstance(each, str):
                yield each
            else:
                yield from addresses_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from addresses_of(each)


def test_no_source_asks_for_every_address() -> None:
    matches = []
    files = 0
    for path in sources():
        files += 1
        if not any(str(path).startswith(name) for name in EVERYWHERE) and (ROOT / path).is_file():
            text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
            matches += [
                f"{path}: {line.strip()}" for line in text.splitlines() if ADDRESS.search(line.partition("# ")[0])
            ]
    if not files:
        pytest.skip("this is no checkout of git")
    assert matches == []


@pytest.mark.parametrize("folder", ["config", "spans", "scale"])
def test_the_agent_listens_on_loopback(folder: str) -> None:
    files = sorted((ROOT / "collector/vector" / folder).glob("*.yaml"))
    addresses = [a for file in files for a in addresses_of(yaml.safe_load(file.read_text("utf-8")))]
    assert addresses
    assert all(address.startswith("127.0.0.1:") for address in addresses), addresses


def test_commands_of_the_documents_bind_to_loopback() -> None:
    server = re.compile(r"\b(?:gunicorn|uvicorn|hypercorn|unicorn|puma|rackup|waitress-serve|flask run)\b.*")
    option = re.compile(r"(?:--bind|-b|--listen|--host|-o|-l)[ =](\S+)")
    matches = []
    for page in (ROOT / "docs").rglob("*.md"):
        matches += [
            reported[1] for line in server.findall(page.read_text("utf-8")) for reported in option.finditer(line)
        ]
    assert len(matches) > 3
    # The lab fills {address} with one on the loopback.
    own = r"(?:tcp://)?127\.0\.0\.1|localhost|unix:|\[::1\]|\{address\}"
    assert all(re.match(own, address) for address in matches), matches


def family_of(pid: int) -> set[int]:
    """The process and everything it started, as long as that is there."""
    values = {pid}
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                children = {int(child) for child in task.read_text().split()}
            except OSError:
                continue
            waiting += children - values
            values |= children
    return values


def listening(pid: int) -> set[str]:
    """The addresses at which a process listens."""
    inodes = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry.path))
            if match:
                inodes.add(match[1])
        tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    except OSError:
        return set()
    rows = [line.split() for table in tables for line in table]
    return {address(row[1].split(":")[0]) for row in rows if row[3] == LISTENING and row[9] in inodes}


def address(digits: str) -> str:
    """An address of /proc/net/tcp: words of 32 bits in the machine's order."""
    words = [int(digits[i : i + 8], 16).to_bytes(4, sys.byteorder) for i in range(0, len(digits), 8)]
    return str(ip_address(b"".join(words)))


def test_an_address_is_read_as_the_kernel_writes_it() -> None:
    if sys.byteorder == "little":
        assert address("0100007F") == "127.0.0.1"
        assert address("00000000000000000000000001000000") == "::1"


@pytest.mark.thorough
def test_while_the_lab_runs_all_its_programs_listen_on_loopback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sojourn", "--no-config", "lab", "run", "two-requests", "--quick"]
    lab = subprocess.Popen(
        [*command, "--quiet", "--out", str(tmp_path / "run")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    result: dict[str, set[int]] = {}
    deadline = time.monotonic() + 90
    try:
        while lab.poll() is None:
            assert time.monotonic() < deadline
            for pid in family_of(lab.pid):
                for where in listening(pid):
                    result.setdefault(where, set()).add(pid)
            time.sleep(0.02)
    finally:
        lab.send_signal(signal.SIGINT)  # it takes down what it started; over already, it does not notice
        output, _ = lab.communicate(timeout=60)
    if not result:
        pytest.skip(f"the lab did not run here: {output[-300:]}")
    assert all(ip_address(where).is_loopback for where in result), result
    assert len(set().union(*result.values())) >= 2, "nginx and its apps were seen"
