"""The Python README followed literally: every block is run under a real server."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from collector_support import fetch, served
from prometheus_client.parser import text_string_to_metric_families

PYTHON = Path(__file__).parents[2] / "collector" / "middleware" / "python"
README = (PYTHON / "README.md").read_text("utf-8")
BLOCKS = {
    match[2]: textwrap.dedent(match[1] + match[0].split("\n", 1)[1].rsplit("\n", 1)[0])
    for match in re.finditer(r"^( *)```python\n *# (\w+: \w+\.py)\n.*?```", README, re.MULTILINE | re.DOTALL)
}

METERED = ("flask: metered.py", "fastapi: metered.py", "bare: metered.py")
POOLED = "fastapi: pooled.py"


def server(folder: Path, app: str, asynchronous: bool) -> list[str]:
    """A server for the block that was written to `folder`."""
    if asynchronous:
        where = ["--app-dir", str(folder), "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning"]
        return [sys.executable, "-m", "uvicorn", *where, app]
    where = ["--chdir", str(folder), "--bind", "127.0.0.1:{port}", "--no-control-socket"]
    return [sys.executable, "-m", "gunicorn", *where, app]


def test_every_block_is_known() -> None:
    assert len(BLOCKS) == README.count("```python")
    assert set(BLOCKS) == {
        *("flask: app.py", "bare: app.py", "fastapi: app.py", "fastapi: marked.py"),
        *("django: wsgi.py", "django: settings.py"),
        *METERED,
        POOLED,
    }


@pytest.mark.parametrize("name", ["flask: app.py", "bare: app.py", "fastapi: app.py", "fastapi: marked.py"])
def test_one_file_apps(tmp_path: Path, name: str) -> None:
    module = name.split(": ")[1]
    (tmp_path / module).write_text(BLOCKS[name])
    command = server(tmp_path, module.replace(".py", ":app"), "fastapi" in name)
    with served(command, tmp_path) as (port, _):
        answer = fetch(port, "/users/7")
    assert answer.status == 200
    assert {"x-queueing-delay", "x-service-time", "x-worker"} <= set(answer.headers)
    assert ("x-route" in answer.headers) == ("bare" not in name)


@pytest.mark.parametrize("name", METERED)
def test_apps_with_metrics(tmp_path: Path, name: str) -> None:
    """One worker: a scrape shows all requests in either mode. The bare app sums up those of several processes."""
    (tmp_path / "metered.py").write_text(BLOCKS[name])
    files = tmp_path / "metrics"
    files.mkdir()
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(files)} if "bare" in name else {}
    route = {"flask": "/users/<int:number>", "fastapi": "/users/{number}", "bare": ""}[name.partition(":")[0]]
    labels = {"service": "shop", "route": route, "status_class": "2xx"}
    with served(server(tmp_path, "metered:app", "fastapi" in name), tmp_path, environment) as (port, _):
        for _ in range(3):
            assert fetch(port, "/users/7").status == 200
        text = fetch(port, "/metrics/" if "fastapi" in name else "/metrics").body.decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    for metric in ("sojourn_queueing_delay_seconds", "sojourn_service_time_seconds"):
        counts = {
            frozenset(sample.labels.items()): sample.value for sample in samples if sample.name == f"{metric}_count"
        }
        assert counts == {frozenset(labels.items()): 3}


def test_app_with_pools(tmp_path: Path) -> None:
    program = BLOCKS[POOLED].replace("sqlite:///shop.db", f"sqlite:///{tmp_path}/shop.db")
    assert program != BLOCKS[POOLED]
    (tmp_path / "pooled.py").write_text(program)
    with served(server(tmp_path, "pooled:app", True), tmp_path) as (port, _):
        assert fetch(port, "/users/7").body == b"7"
        text = fetch(port, "/metrics/").body.decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    places = {sample.labels["pool"]: sample.value for sample in samples if sample.name == "sojourn_pool_places"}
    assert places == {"anyio_threads": 40, "main": 15}
    assert {sample.labels["service"] for sample in samples if "pool" in sample.labels} == {"shop"}
    documented = set(re.findall(r"^\| gauge `(sojourn_pool_\w+)` \|", README, re.MULTILINE))
    assert documented == {sample.name for sample in samples if "pool" in sample.labels}


def test_django_project(tmp_path: Path) -> None:
    """A project as Django itself makes it, with the two blocks put where the README says."""
    making = [sys.executable, "-m", "django", "startproject", "site_of_a_user", str(tmp_path)]
    subprocess.run(making, check=True, timeout=60)
    project = tmp_path / "site_of_a_user"
    wsgi = BLOCKS["django: wsgi.py"].replace('"settings"', '"site_of_a_user.settings"')
    assert wsgi != BLOCKS["django: wsgi.py"]
    (project / "wsgi.py").write_text(wsgi)
    with (project / "settings.py").open("a") as settings:
        settings.write("\n" + BLOCKS["django: settings.py"])
    with served(server(tmp_path, "site_of_a_user.wsgi:application", False), tmp_path) as (port, _):
        answer = fetch(port, "/admin/login/", {"Host": "localhost"})
    assert answer.status == 200
    assert {"x-queueing-delay", "x-service-time", "x-worker"} <= set(answer.headers)
    assert answer.headers["x-route"] == "/admin/login/"


def test_options_of_the_table_are_the_options_there_are() -> None:
    from sojourn_middleware.exchange import Options  # noqa: PLC0415

    documented = set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))
    assert documented == set(Options.__annotations__) - {"clock"}  # which is for tests


@pytest.mark.parametrize("file", sorted((PYTHON / "src").rglob("*.py")), ids=lambda file: file.name)
def test_source_is_readable_by_the_oldest_python_promised(file: Path) -> None:
    assert 'requires-python = ">=3.9"' in (PYTHON / "pyproject.toml").read_text()
    tree = ast.parse(file.read_text("utf-8"), feature_version=(3, 9))
    future = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    # Annotations such as `int | None` are legal there only because nothing evaluates them.
    assert future or file.name == "__init__.py"
