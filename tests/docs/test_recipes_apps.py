"""The recipes for apps: the code of each page is run by the page's own command, behind nginx with our two includes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import sojourn
from recipe_support import (
    OURS,
    ROOT,
    Answer,
    blocks_of,
    command_environment,
    fetch,
    fetch_together,
    log_lines,
    page_server,
    page_text,
    run_check,
    shell,
    why_no_nginx,
)
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port

SERVICE_S = 0.2
# How much later than the law says a request may be served before it is a fault: the machine may be busy.
SLACK_S = 2.0
TABLE = json.loads((ROOT / "tests" / "vectors" / "request_start.json").read_text())


@dataclass(frozen=True)
class Recipe:
    """A page, the files it has one write, and how `worker` and `route` come out."""

    page: str
    files: tuple[str, ...]
    worker: str = r"[0-9]+"
    route: str = "/slow/{number}"
    needs: str = ""
    at_least: tuple[int, int] = (0, 0)
    start: str = "start"
    prepare: Callable[[Path], None] | None = field(default=None, compare=False)


def django_project(folder: Path) -> None:
    """A project as Django itself makes it, with the page's lines at the end of its settings."""
    making = ["django-admin", "startproject", "shop", "."]
    subprocess.run(making, cwd=folder, env=command_environment(), check=True, timeout=60)
    settings = folder / "shop" / "settings.py"
    text = settings.read_text().replace("ALLOWED_HOSTS = []", 'ALLOWED_HOSTS = ["127.0.0.1"]')
    settings.write_text(text + "\n" + blocks_of("django.md")["at the end of shop/settings.py"])


def ruby_gem(folder: Path) -> None:
    """The gem, built and installed by the page's commands in a copy of the checkout's folder."""
    package = "collector/middleware/ruby"
    shutil.copytree(ROOT / package, folder / package)
    shell(f"cd {folder} && " + blocks_of("rails-rack.md")["install"])


def node_package(folder: Path) -> None:
    """The page's command for npm; without npm, the symbolic link that npm makes of a folder."""
    line = "npm install ./collector/middleware/node"
    assert f"    {line}\n" in page_text("node.md")
    if shutil.which("npm"):
        options = "--offline --no-audit --no-fund --no-package-lock --update-notifier=false"
        shell(f"cd {folder} && {line.replace('./', f'{ROOT}/')} {options} --cache {folder}/.npm")
    else:
        (folder / "node_modules").mkdir()
        (folder / "node_modules" / "sojourn-middleware").symlink_to(ROOT / "collector" / "middleware" / "node")


def go_module(folder: Path) -> None:
    """A module as `go mod init` makes it, with the page's commands for this checkout."""
    install = blocks_of("go.md")["install"]
    assert "../sojourn/" in install
    for command in ("go mod init shop", *install.replace("../sojourn/", f"{ROOT}/").splitlines()):
        environment = {**command_environment(), "GOPROXY": "off", "GOFLAGS": ""}
        subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=True, timeout=60)


def java_middleware(folder: Path) -> None:
    if not Path("/usr/share/java/tomcat10-catalina.jar").is_file():
        pytest.skip("libtomcat10-java is not installed")
    shutil.copytree(
        ROOT / "collector" / "middleware" / "java" / "src" / "main" / "java" / "sojourn", folder / "sojourn"
    )


RECIPES = {
    "flask": Recipe("flask.md", ("app.py",), route="/slow/<int:number>"),
    "django": Recipe("django.md", ("shop/wsgi.py", "shop/urls.py"), route="/slow/<int:number>", prepare=django_project),
    "fastapi": Recipe("fastapi.md", ("app.py",)),
    "puma": Recipe("rails-rack.md", ("config.ru",), route="/slow/:number", needs="puma", prepare=ruby_gem),
    "unicorn": Recipe(
        "rails-rack.md", ("config.ru",), route="/slow/:number", needs="unicorn", prepare=ruby_gem, start="start unicorn"
    ),
    "node": Recipe(
        "node.md", ("server.js",), route="/slow/:number", needs="node", at_least=(18, 0), prepare=node_package
    ),
    "go": Recipe("go.md", ("main.go",), worker=r"[0-9]+\.1", needs="go", at_least=(1, 23), prepare=go_module),
    "java": Recipe(
        "java.md",
        ("Shop.java",),
        worker=r"[0-9]+\.1",
        route="/slow/*",
        needs="javac",
        at_least=(17, 0),
        prepare=java_middleware,
    ),
}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """One nginx for all recipes, one after the other."""
    if (reason := why_no_nginx()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("proxy")
    nginx = Nginx(folder, "location / { return 404; }", access_log=folder / "access.jsonl")
    with nginx.start():
        yield nginx
    assert nginx.alerts() == []


def location(name: str, port: int) -> str:
    """The recipe's own location, as the pages have it; its app sees the path without the name."""
    return (
        f"location /{name}/ {{ include sojourn/sojourn_proxy.conf; proxy_set_header Host $host;"
        f" proxy_pass http://127.0.0.1:{port}/; }}"
    )


def version_of(program: str) -> tuple[int, ...]:
    """The first two numbers of its version."""
    requested = [program, "version"] if program == "go" else [program, "--version"]
    run = {"capture_output": True, "text": True, "timeout": 30, "env": command_environment()}
    process = subprocess.run(requested, check=False, **run).stdout
    match = re.search(r"(\d+)\.(\d+)", process)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def written(recipe: Recipe, folder: Path) -> dict[str, str]:
    """Lays out the folder as the page says; returns the page's blocks."""
    if recipe.needs and shutil.which(recipe.needs) is None:
        pytest.skip(f"{recipe.needs} is not installed")
    if recipe.needs and version_of(recipe.needs) < recipe.at_least:
        pytest.skip(f"{recipe.needs} is older than {'.'.join(map(str, recipe.at_least))}, which the recipe needs")
    blocks = blocks_of(recipe.page)
    if recipe.prepare is not None:
        recipe.prepare(folder)
    for name in recipe.files:
        (folder / name).write_text(blocks[name])
    return blocks


def assert_nothing_of_ours(answer: Answer) -> None:
    assert answer.status == 200, answer.body
    assert not set(OURS) & set(answer.headers)


def assert_waited_in_turn(rows: list[dict[str, str]]) -> None:
    """One worker begins with a request when it is done with the one before; the waits grow, the services do not."""
    starts = sorted(float(row["request_start"]) + float(row["queueing_delay"]) for row in rows)
    for earlier, later in pairwise(starts):
        assert later - earlier > SERVICE_S - 0.01, rows  # two clocks that are cut to milliseconds
    assert_figures(rows)


def assert_figures(rows: list[dict[str, str]]) -> None:
    """The last request waited for others, and no service took longer for it."""
    waits = [float(row["queueing_delay"]) for row in rows]
    assert -0.01 < min(waits) < max(waits) < len(rows) * SERVICE_S + SLACK_S, rows
    assert max(waits) > SERVICE_S, rows
    for row in rows:
        assert SERVICE_S - 0.01 < float(row["service_time"]) < SERVICE_S + SLACK_S, rows


SLOWEST = ("java", "puma", "unicorn")  # to start


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] if name in SLOWEST else []) for name in RECIPES]
)
def test_a_recipe_measures_behind_nginx(
    name: str, tmp_path: Path, proxy: Nginx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEM_HOME", str(tmp_path / "gems"))  # a page's commands install no gem for the whole machine
    recipe = RECIPES[name]
    blocks = written(recipe, tmp_path)
    port = free_port()
    proxy.reconfigure(location(name, port), "")
    with page_server(tmp_path, blocks[recipe.start], port):
        # The first request pays for what is loaded late; its figures prove nothing but that there are some.
        assert_nothing_of_ours(fetch(proxy.port, f"/{name}/slow/0"))
        log_lines(proxy.access_log, f"/{name}/", 1)
        for answer in fetch_together(proxy.port, f"/{name}/slow/7", 4):
            assert_nothing_of_ours(answer)
        lines = log_lines(proxy.access_log, f"/{name}/", 5)
        rows = [json.loads(line) for line in lines]
        assert_waited_in_turn(rows[1:])
        assert len({row["worker"] for row in rows}) == 1
        assert re.fullmatch(recipe.worker, rows[0]["worker"])
        assert rows[0]["route"] == recipe.route
        assert recipe.route in page_text(recipe.page)

        log = tmp_path / "access.jsonl"
        log.write_text("".join(line + "\n" for line in lines[1:]))
        result = sojourn.split(str(log))
        assert result.sources == {"stamp": 4}
        assert result.means["connect"] + result.means["queue"] > 0.5 * SERVICE_S

        address = f"http://127.0.0.1:{proxy.port}/{name}"
        printed = run_check(recipe.page, address, proxy.access_log, f"/{name}/", 9)
        assert_figures([json.loads("{" + line + "}") for line in printed])
        assert len(printed) == 4
        if "verdict" in blocks:
            assert "queue" in shell(blocks["verdict"].replace("/var/log/nginx/sojourn.jsonl", str(log)))


def test_go_is_laid_out_as_gofmt_does(tmp_path: Path) -> None:
    recipe = RECIPES["go"]
    written(recipe, tmp_path)
    assert shell(f"cd {tmp_path} && gofmt -l . && go vet .") == ""
