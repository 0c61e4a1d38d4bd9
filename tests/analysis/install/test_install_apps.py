"""The lines for the apps behind nginx: each app server of the configuration gets its own, and they work as printed."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from doctor_support import got
from install_support import DEADLINE_S, Tree, conf_text, nginx_of, tree_at
from sojourn.install import apps
from sojourn.install.apps import apps_behind
from sojourn_lab.runtime.ports import wait_for_port
from sojourn_lab.runtime.process import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
LOCATIONS = """\
location / { proxy_pass http://127.0.0.1:@APP@; }
        location /admin { proxy_pass http://127.0.0.1:@APP@; }
        location /gone { proxy_pass http://127.0.0.1:@SPARE@; }"""
APP = """\
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
"""


@contextmanager
def gunicorn(one: Tree) -> Iterator[None]:
    port = int(one.values["APP"])
    command = [sys.executable, "-m", "gunicorn", "-w", "2", "-b", f"127.0.0.1:{port}", "shop:app"]
    with Process(command, name="gunicorn", folder=one.folder / "logs", cwd=one.folder) as process:
        wait_for_port("127.0.0.1", port, DEADLINE_S, process)
        yield


def test_lines_for_gunicorn_work_as_printed(tmp_path: Path) -> None:
    one = tree_at(tmp_path, {"nginx.conf": conf_text(LOCATIONS)})
    code_of_app = tmp_path / "shop.py"
    code_of_app.write_text(APP)
    with nginx_of(one), gunicorn(one):
        assert one.install("--yes")[0] == 0
        app, gone = apps_behind(one.conf)
        code, output = one.command("install", "app", str(one.conf))
    assert (code, gone.server.name, gone.command) == (0, "", "")
    assert (app.server.name, app.processes, app.folder) == ("gunicorn", 3, str(tmp_path))
    assert app.places == ["location /, server shop.example", "location /admin, server shop.example"]
    assert app.command.split()[:4] == [sys.executable, "-m", "pip", "install"]
    assert Path(app.command.split()[4], "pyproject.toml").is_file()
    # The environment of the tests has all frameworks.
    assert {"Django", "Flask", "FastAPI"} <= {each.name for each in app.frameworks}
    assert app.command in output
    (plain,) = [each for each in apps._FRAMEWORKS["python"] if not each.package]
    code_of_app.write_text(APP + "\n".join(plain.lines) + "\n")
    with nginx_of(one), gunicorn(one):
        got(one.port)
        deadline = time.monotonic() + DEADLINE_S
        while not json.loads(one.log.read_text().splitlines()[-1])["service_time"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_frameworks_are_those_that_the_app_has_installed(tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    (site / "django").mkdir(parents=True)
    words = [str(tmp_path / "venv" / "bin" / "python3.12"), "gunicorn"]
    assert {each.name for each in apps._frameworks("python", words, "")} == {"Django", "Django, routes"}
    (tmp_path / "package.json").write_text('{"dependencies": {"koa": "^2"}}')
    assert [each.name for each in apps._frameworks("node", ["node"], str(tmp_path))] == ["Koa"]
    (tmp_path / "Gemfile.lock").write_text("GEM\n  specs:\n    rails (7.1.3)\n      actionpack (= 7.1.3)\n")
    assert [each.name for each in apps._frameworks("ruby", ["puma"], str(tmp_path))] == ["Rails"]
    (tmp_path / "package.json").write_text("[1")
    assert len(apps._frameworks("node", ["node"], str(tmp_path))) > 1


@pytest.mark.parametrize("language", list(apps._FRAMEWORKS))
def test_each_language_has_a_command_and_pages(language: str) -> None:
    assert language in apps._COMMANDS
    for each in apps._FRAMEWORKS[language]:
        page = (DOCS / f"{each.page}.md").read_text()
        assert "sojourn" in page


def test_outside_a_checkout_the_path_is_that_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "_CHECKOUT", tmp_path)
    assert not apps.is_checkout()
    assert apps.middleware_folder() == "sojourn/collector/middleware"
