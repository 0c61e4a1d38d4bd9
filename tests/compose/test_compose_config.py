"""docker-compose.yml as Compose itself reads it, with every profile, and without any of a user's variables."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROFILES = {
    "": {"prepare", "app1", "app2", "nginx", "listen-nginx", "listen-app1", "listen-app2", "clickhouse", "store-init"}
    | {"log-files", "vector", "vector-spans", "grafana"},
    "load": {"load"},
    "explain": {"explain"},
    "lab": {"lab"},
    "capture": {"capture"},
    "prometheus": {"export", "prometheus"},
    "scale": {"kafka", "shard1", "shard2", "scale-init", "aggregator", "agent"},
}


def composed(profile: str, **variables: str) -> dict[str, Any]:
    """The project as Compose resolves it; skipped where the plugin is missing. No engine is needed."""
    if shutil.which("docker") is None:
        pytest.skip("docker is missing")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose plugin")
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("SOJOURN_", "PIP_", "COMPOSE_"))}
    command = ["docker", "compose", "-f", "docker-compose.yml", "--profile", profile, "config", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env={**outside, **variables})
    # A warning, of a variable that is not set for instance, is a fault of the file.
    assert (done.returncode, done.stderr) == (0, "")
    project: dict[str, Any] = json.loads(done.stdout)
    return project


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_adds_what_it_says_and_nothing_else(profile: str) -> None:
    assert set(composed(profile)["services"]) == PROFILES[""] | PROFILES[profile]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_limit_is_one_to_the_engine(profile: str) -> None:
    for name, service in composed(profile)["services"].items():
        memory = int(service["mem_limit"])
        assert 16 << 20 <= memory <= 4 << 30, name
        heap = re.search(r"-Xmx(\d+)m", service.get("environment", {}).get("KAFKA_HEAP_OPTS", ""))
        if "kafka:" in service["image"]:
            assert heap is not None, f"{name}: the default heap is 1 GiB"
            assert int(heap[1]) << 20 <= 0.6 * memory
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1"


def test_ports_days_and_sizes_can_be_chosen() -> None:
    ports = {"nginx": "18080", "grafana": "13000", "prometheus": "19090"}
    chosen = composed(
        "prometheus",
        SOJOURN_HTTP_PORT=ports["nginx"],
        SOJOURN_GRAFANA_PORT=ports["grafana"],
        SOJOURN_PROMETHEUS_PORT=ports["prometheus"],
        SOJOURN_KEEP_DAYS="7",
        SOJOURN_LOG_BYTES="1000",
    )["services"]
    assert {name: [port["published"] for port in chosen[name]["ports"]] for name in ports} == {
        name: [port] for name, port in ports.items()
    }
    assert chosen["nginx"]["environment"]["SOJOURN_LOG_BYTES"] == "1000"
    assert chosen["store-init"]["command"][-2:] == ["--keep", "7"]
    assert "--storage.tsdb.retention.time=7d" in chosen["prometheus"]["command"], "both stores keep the same days"


def test_a_sampler_is_judged_by_its_own_file() -> None:
    services = composed("")["services"]
    samplers = {name: service for name, service in services.items() if name.startswith("listen-")}
    assert len(samplers) == 3
    for name, service in samplers.items():
        out = service["command"][service["command"].index("--out") + 1]
        assert out == f"/var/log/sojourn/{name}.jsonl"
        assert out in service["healthcheck"]["test"][-1]
        # Alone in a network that is gone it has to end, and the engine to start it in the new one.
        assert "--gone" in service["command"]
        assert service["restart"] == "unless-stopped"
        watched = service["network_mode"].removeprefix("service:")
        assert service["depends_on"][watched]["restart"] is True


def test_certificates_of_a_proxy_reach_the_build_and_nothing_else() -> None:
    project = composed("", PIP_CERT="/somewhere/ca.crt")
    assert project["secrets"]["pip_cert"]["file"] == "/somewhere/ca.crt"
    for name, service in project["services"].items():
        assert not service.get("secrets"), f"{name} gets it at run time"
        if "build" in service:
            assert [secret["source"] for secret in service["build"]["secrets"]] == ["pip_cert"]
    assert composed("")["secrets"]["pip_cert"]["file"] == "/dev/null"
