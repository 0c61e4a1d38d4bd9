"""The configuration of the agent as data, and with paths that a test can write to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

ROOT = Path(__file__).parents[3]
VECTOR = ROOT / "collector" / "vector"
INSTALLED = "/etc/vector"


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
    insert = re.match(r"INSERT INTO (\w+) .*FORMAT (?:JSONEachRow|LineAsString)\Z", sink_parameters(sink)["query"])
    assert insert, sink["uri"]
    return insert[1]


def adapted_config(folder: Path, agent: str = "config") -> Path:
    """The configuration of an agent with the paths of ``folder``: what `vector validate` needs."""
    target = folder / "config"
    secrets, data = folder / "secrets", folder / "data"
    for produced in (target, secrets, data, folder / "data-spans", folder / "logs"):
        produced.mkdir()
    (secrets / "clickhouse_writer").write_text("for-tests-only\n")
    for file in (VECTOR / agent).glob("*.yaml"):
        text = (
            file.read_text("utf-8")
            .replace("/var/lib/vector", str(data))
            .replace("/var/log/sojourn", str(folder / "logs"))
        )
        (target / file.name).write_text(text.replace("/run/secrets", str(secrets)), "utf-8")
    return target
