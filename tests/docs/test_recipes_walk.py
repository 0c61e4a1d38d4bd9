"""The newcomer's walk: its apps, its site and its load, with the commands of the page, end at the route it names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import sojourn
from recipe_support import FENCED, ROOT, command_environment, log_lines, why_no_nginx
from sojourn.install.apps import apps_behind
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process

PAGE = (ROOT / "docs" / "tutorial" / "newcomers-walk.md").read_text()
BLOCKS = {name: text for text, name in FENCED.findall(PAGE)}
DEADLINE_S = 60.0
LOAD_S = 8  # instead of twenty seconds

pytestmark = pytest.mark.skipif(why_no_nginx() is not None, reason=why_no_nginx() or "")


@contextmanager
def gunicorns(folder: Path, ports: dict[str, int]) -> Iterator[None]:
    """The servers of the page's block ``start``, each at a port of this machine."""
    with ExitStack() as stack:
        start = BLOCKS["start"]
        for old, new in ports.items():
            start = start.replace(f":{old}", f":{new}")
        for number, line in enumerate(start.splitlines()[1:]):
            words = ["sh", "-c", f"exec {line.removesuffix(' &')}"]
            process = stack.enter_context(
                Process(words, name=f"gunicorn{number}", folder=folder, env=command_environment(), cwd=folder)
            )
            port = re.search(r"127\.0\.0\.1:(\d+)", line)
            assert port is not None
            wait_for_port("127.0.0.1", int(port[1]), DEADLINE_S, process)
        yield


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sojourn", *words], capture_output=True, text=True, check=False, timeout=120,
        env=command_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_from_a_bare_nginx_to_the_route_that_causes_the_waiting(tmp_path: Path) -> None:
    ports = dict(zip(("8000", "8001", "8080"), free_ports(3), strict=True))
    conf, log = tmp_path / "nginx.conf", tmp_path / "sojourn.jsonl"
    site = BLOCKS["/etc/nginx/sites-enabled/shop"]
    for old, new in ports.items():
        site = re.sub(rf"\b{old}\b", str(new) if old != "8080" else f"127.0.0.1:{new}", site)
    user = "user root;" if os.geteuid() == 0 else ""
    conf.write_text(
        f"{user} pid {tmp_path}/pid; error_log {tmp_path}/error.log;\nevents {{ worker_connections 1024; }}\n"
        f"http {{\n    access_log {tmp_path}/access.log;\n{site.replace('/var/log/nginx', str(tmp_path))}}}\n"
    )
    before = conf.read_bytes()
    for name in ("shop.py", "admin.py"):
        (tmp_path / name).write_text(BLOCKS[name])
    backups = ("--backup", str(tmp_path / "backups"))
    with Process(["nginx", "-c", str(conf), "-g", "daemon off;"], name="nginx", folder=tmp_path) as nginx:
        wait_for_port("127.0.0.1", ports["8080"], DEADLINE_S, nginx)
        with gunicorns(tmp_path, ports):
            output = run("install", "nginx", str(conf), "--log", str(log), *backups, "--yes")
            assert output.count("the app does not report its times") == 2
            apps = apps_behind(conf)
            assert [each.server.name for each in apps] == ["gunicorn", "gunicorn"]
            run("install", "app", str(conf))
        # The lines of the page are those of the command.
        (flask,) = [each for each in apps[0].frameworks if each.name == "Flask"]
        assert all(line in PAGE for line in flask.lines)
        for name in ("shop.py", "admin.py"):
            (tmp_path / name).write_text(BLOCKS[name] + "\n" + "\n".join(flask.lines) + "\n")
        with gunicorns(tmp_path, ports):
            load = BLOCKS["load"].replace("+ 20", f"+ {LOAD_S}").replace("8080", str(ports["8080"]))
            subprocess.run(["sh", "-c", load], check=True, timeout=60)
        log_lines(log, "/reports/monthly", 5)
        result = sojourn.split(log)
        assert result.culprit is not None
        assert result.culprit.route.endswith("/reports/monthly")
        assert "/reports/monthly" in result.verdict.sentence.partition(": ")[0]
        run("uninstall", "nginx", str(conf), *backups, "--yes")
        assert conf.read_bytes() == before
        assert not (tmp_path / "sojourn").exists()
