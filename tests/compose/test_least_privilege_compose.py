"""Privileges in the stack of docker-compose.yml and in Grafana: the least that each part needs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# Volumes a service may write to; everything else of it is read-only or in memory.
WRITABLE = {
    "prepare": {"secrets", "clickhouse-users", "clickhouse-secrets", "logs", "vector-data", "spans-data", "agent-data"}
    | {"runs", "captures"},
    "nginx": {"logs"},
    "listen-nginx": {"logs"},
    "listen-app1": {"logs"},
    "listen-app2": {"logs"},
    "log-files": {"logs"},
    "clickhouse": {"clickhouse-data"},
    "vector": {"vector-data"},
    "vector-spans": {"spans-data"},
    "agent": {"agent-data"},
    "grafana": {"grafana-data"},
    "lab": {"runs"},
    "capture": {"captures"},
    "prometheus": {"prometheus-data"},
    "kafka": {"kafka-data"},
    "shard1": {"shard1-data"},
    "shard2": {"shard2-data"},
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_writes_to_its_own_volumes_only(name: str) -> None:
    mounts = [mount.split(":") for mount in SERVICES[name].get("volumes", [])]
    writable = {source for source, *rest in mounts if rest[-1] != "ro"}
    assert writable == WRITABLE.get(name, set())


def test_only_three_services_publish_a_port_and_all_are_on_a_network_of_their_own() -> None:
    published = {name: service["networks"] for name, service in SERVICES.items() if "ports" in service}
    assert set(published) == {"nginx", "grafana", "prometheus"}
    assert all("edge" in networks for networks in published.values())


def test_spans_and_the_apps_cannot_leave_the_machine() -> None:
    assert COMPOSE["networks"]["telemetry"]["internal"]
    assert COMPOSE["networks"]["web"]["internal"]
    for name in ("app1", "app2"):
        assert set(SERVICES[name]["networks"]) == {"web", "telemetry"}


def test_metrics_stay_between_the_exporter_prometheus_grafana_and_nginx() -> None:
    """The exporter listens on all addresses of its container; beside these, its networks reach nginx only."""
    assert SERVICES["export"]["networks"] == ["metrics", "status"]
    for network, expected in (("metrics", {"export", "prometheus", "grafana"}), ("status", {"export", "nginx"})):
        assert COMPOSE["networks"][network]["internal"]
        members = {name for name, service in SERVICES.items() if network in service.get("networks", [])}
        assert members == expected


def test_grafana_has_no_anonymous_access_and_no_sign_up() -> None:
    output = SERVICES["grafana"]["environment"]
    assert output["GF_AUTH_ANONYMOUS_ENABLED"] == output["GF_USERS_ALLOW_SIGN_UP"] == "false"
    assert output["GF_USERS_VIEWERS_CAN_EDIT"] == output["GF_SNAPSHOTS_EXTERNAL_ENABLED"] == "false"
    assert output["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana_admin"
    assert "GF_SECURITY_ADMIN_PASSWORD" not in output


def test_grafana_queries_as_the_reader_and_its_data_source_is_read_only() -> None:
    provisioning = ROOT / "dashboards/grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/sojourn.yaml").read_text())["datasources"]
    assert source["editable"] is False
    assert source["jsonData"]["username"] == "sojourn_reader"
    assert re.fullmatch(r"\$__file\{/run/secrets/\w+\}", source["secureJsonData"]["password"])
    (provider,) = yaml.safe_load((provisioning / "dashboards/sojourn.yaml").read_text())["providers"]
    assert (provider["disableDeletion"], provider["allowUiUpdates"]) == (True, False)
    boards = sorted((ROOT / "dashboards/grafana/dashboards").glob("*.json"))
    assert boards
    for board in boards:
        assert not json.loads(board.read_text())["editable"], board.name


def test_no_service_can_switch_redaction_off_by_a_variable() -> None:
    """The store redacts what the agents send; whether it does is in the queries of their sinks."""
    assert all("SOJOURN_REDACT" not in service.get("environment", {}) for service in SERVICES.values())
    for folder in ("config", "spans", "scale"):
        for file in (ROOT / "collector/vector" / folder).glob("*.yaml"):
            assert "redact" not in yaml.safe_dump(yaml.safe_load(file.read_text())), file.name


def test_each_secret_is_readable_by_those_who_need_it() -> None:
    matches = re.findall(r"^secret (\w+) \S+ \S+ (\d+)$", (ROOT / "lab/images/prepare.sh").read_text(), re.M)
    assert len(matches) == 3
    assert all(mode in {"0400", "0440"} for _, mode in matches)


def test_no_file_of_the_stack_holds_a_password() -> None:
    """What looks like one in a configuration is a file's name, a reference to one, or a name of a variable."""
    in_xml = re.compile(r"(?i)<\w*(?:password|secret)\w*>\s*([^<\s…]+)")
    arguments = re.compile(r"(?i)\b[\w.]*(?:password|passwd|secret_key|api_key|token)\w*[\"']?\s*[:=]\s*(\S+)")
    allowed = re.compile(r"^[\"']?(/run/secrets/|SECRET\[|\$__file\{|\$\{|\$hash|\$\(|os\.|environ)|_FILE")
    files = [ROOT / "docker-compose.yml", *(ROOT / "collector").rglob("*.yaml"), *(ROOT / "collector").rglob("*.xml")]
    files += [*(ROOT / "dashboards/grafana/provisioning").rglob("*.yaml")]
    matches = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        for line in file.read_text("utf-8").splitlines()
        for value in (in_xml if file.suffix == ".xml" else arguments).findall(line.partition("# ")[0])
        if not allowed.search(value)
    ]
    assert matches == []
