"""The configuration of the agent as data, and its programs under the `vrl` command."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[3]
VECTOR = ROOT / "collector" / "vector"
INSTALLED = "/etc/vector"
TABLE = json.loads((ROOT / "tests" / "vectors" / "log_lines.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]


def components(folder: Path = VECTOR / "config") -> dict[str, dict[str, Any]]:
    """Every component of the configuration by its name, with `group`: sources, transforms or sinks."""
    result: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.yaml")):
        for group, members in yaml.safe_load(file.read_text("utf-8")).items():
            if group in ("sources", "transforms", "sinks"):
                for name, options in members.items():
                    assert name not in result, f"{name} is there twice"
                    result[name] = {**options, "group": group, "config_file": file.name}
    return result


def sink_parameters(sink: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the address of a sink of the store; ``query`` is its INSERT."""
    return dict(parse_qsl(urlsplit(sink["uri"]).query))


def sink_table(sink: Mapping[str, Any]) -> str:
    """The table a sink of the store inserts into."""
    insert = re.fullmatch(r"INSERT INTO ([a-z_]+) FORMAT JSONEachRow", sink_parameters(sink)["query"])
    assert insert, sink["uri"]
    return insert[1]


def program_files(component: Mapping[str, Any]) -> list[Path]:
    """The files of a remap's program, in order."""
    named = component.get("files") or [component["file"]]
    return [VECTOR / Path(name).relative_to(INSTALLED) for name in named]


def program(name: str) -> str:
    """The program of a remap, put together as Vector does."""
    return "".join(file.read_text("utf-8") + "\n" for file in program_files(components()[name]))


def line_of(case: Mapping[str, Any]) -> bytes:
    """The line of a case, without its end."""
    return base64.b64decode(case["line_base64"]) if "line_base64" in case else str(case["line"]).encode()


def row_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The whole row of a case, without its source."""
    return {**TABLE["row_empty"], **case["row"]}


def find_vrl() -> str:
    """The `vrl` command; skips the test where there is none."""
    setting = os.environ.get("SOJOURN_VRL") or shutil.which("vrl")
    if not setting:
        pytest.skip("no vrl command: `cargo install vrl --version 0.38.0 --locked`, or name it in SOJOURN_VRL")
    return setting


def find_vector() -> str:
    """The `vector` command; skips the test where there is none."""
    setting = os.environ.get("SOJOURN_VECTOR") or shutil.which("vector")
    if not setting:
        pytest.skip("no vector command: install Vector 0.57.0 (https://vector.dev), or name it in SOJOURN_VECTOR")
    return setting


def run_program(source: str, events: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What becomes of each event: an object, a list of them, or the text it was refused with.

    The command tells refusals and errors on stderr, in the order of the events, and exits 0 whatever happens: an error
    that is no rejection shows as an unexpected text.
    """
    source = f"the_number = .the_number\n{source}\n"
    source += 'encode_base64(encode_json({ "number": the_number, "made": . }))\n'
    with tempfile.TemporaryDirectory() as folder:
        programs, input_ = Path(folder, "program.vrl"), Path(folder, "events.jsonl")
        programs.write_text(source, "utf-8")
        input_.write_text("".join(json.dumps({**e, "the_number": i}) + "\n" for i, e in enumerate(events)), "utf-8")
        done = subprocess.run(
            [find_vrl(), "--input", str(input_), "--program", str(programs)],
            capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    produced: dict[int, Any] = {}
    for line in done.stdout.splitlines():
        result = json.loads(base64.b64decode(line.strip('"')))
        produced[result["number"]] = result["made"]
    output = iter(done.stderr.splitlines())
    results = [produced[i] if i in produced else next(output, "nothing was said") for i in range(len(events))]
    left = list(output)
    assert not left, left[:20]
    return results


def adapted_config(folder: Path) -> Path:
    """The configuration with the paths of this checkout and of ``folder``: what `vector validate` and `test` need."""
    target = folder / "config"
    secrets, data = folder / "secrets", folder / "data"
    for produced in (target, secrets, data, folder / "logs"):
        produced.mkdir()
    (secrets / "clickhouse_writer").write_text("for-tests-only\n")
    for file in (VECTOR / "config").glob("*.yaml"):
        text = file.read_text("utf-8").replace(INSTALLED, str(VECTOR)).replace("/var/lib/vector", str(data))
        text = text.replace("/var/log/sojourn", str(folder / "logs")).replace("/run/secrets", str(secrets))
        (target / file.name).write_text(text, "utf-8")
    return target
