"""The recipe for PHP-FPM: the page's command, its line in the pool and its location, on a real PHP-FPM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sojourn
from recipe_support import (
    DEADLINE_S,
    OURS,
    ROOT,
    blocks_of,
    fetch,
    fetch_together,
    log_lines,
    page_text,
    run_check,
    shell,
    why_no_nginx,
)
from sojourn.doctor.doctor import diagnose
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.others import fpm_program
from test_recipes_apps import SERVICE_S, SLACK_S, assert_figures, assert_waited_in_turn

PAGE = "php.md"
PARAMS = Path("/etc/nginx/fastcgi_params")
SOCKET = "/run/php/php8.2-fpm.sock"
LOG = "/var/log/nginx/sojourn.jsonl"
INSTALLED = "/usr/share/php/sojourn"


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    """nginx with the page's location, before a PHP-FPM of one child with the page's line in its pool."""
    if (reason := why_no_nginx()) is not None:
        pytest.skip(reason)
    program = fpm_program()
    if program is None or not PARAMS.is_file():
        pytest.skip("php-fpm is not installed, or nginx without its fastcgi_params")
    blocks = blocks_of(PAGE)
    shell(f"cd {ROOT}\n" + blocks["install"].replace(INSTALLED, str(tmp_path / "sojourn-php")))
    (tmp_path / "slow.php").write_text(f"<?php\n{blocks['in the router']}usleep(200000); echo 'done';")
    (tmp_path / "broken.php").write_text("<?php nothing_of_the_kind();")
    (line,) = re.findall(r"^ +(php_admin_value\S+ = \S+)$", page_text(PAGE), re.M)
    assert INSTALLED in line
    line = line.replace(INSTALLED, str(tmp_path / "sojourn-php"))
    (setting,) = re.findall(r"^ +(env\S+ = \S+)$", page_text(PAGE), re.M)
    socket = tmp_path / "php.sock"
    (tmp_path / "php.conf").write_text(
        f"[global]\nerror_log = {tmp_path}/php.log\npid = {tmp_path}/php.pid\n"
        f"[www]\nlisten = {socket}\nlisten.mode = 0666\npm = static\npm.max_children = 1\n{line}\n{setting}\n"
    )
    place = blocks["location.conf"].replace(SOCKET, str(socket))
    one = Nginx(tmp_path, f"root {tmp_path};\n{place}", access_log=tmp_path / "access.jsonl")
    command = [program, "-F", "-R", "-y", tmp_path / "php.conf"]
    with Process(command, name="php-fpm", folder=tmp_path) as process:
        process.wait_until(socket.exists, DEADLINE_S, "PHP-FPM to listen")
        with one.start():
            yield one
    assert one.alerts() == []


def test_the_recipe_measures_behind_nginx(nginx: Nginx, tmp_path: Path) -> None:
    assert fetch(nginx.port, "/slow.php").status == 200
    log_lines(nginx.access_log, "/slow.php", 1)
    for answer in fetch_together(nginx.port, "/slow.php", 4):
        assert (answer.status, answer.body) == (200, b"done")
        assert not set(OURS) & set(answer.headers)
    lines = log_lines(nginx.access_log, "/slow.php", 5)
    rows = [json.loads(line) for line in lines]
    assert_waited_in_turn(rows[1:])
    assert len({row["worker"] for row in rows}) == 1
    assert {row["route"] for row in rows} == {"/slow/{number}"}
    log = tmp_path / "four.jsonl"
    log.write_text("".join(line + "\n" for line in lines[1:]))
    result = sojourn.split(str(log))
    assert result.sources == {"stamp": 4}
    assert result.means["connect"] + result.means["queue"] > 0.5 * SERVICE_S
    assert fetch(nginx.port, "/broken.php").status == 500
    (broken,) = log_lines(nginx.access_log, "/broken.php", 1)
    assert 0 <= float(json.loads(broken)["service_time"]) < SLACK_S

    printed = run_check(PAGE, f"http://127.0.0.1:{nginx.port}", nginx.access_log, "/slow.php", 9)
    assert_figures([json.loads("{" + line + "}") for line in printed])
    assert len(printed) == 4
    verdict = shell(blocks_of(PAGE)["split"].replace(LOG, str(nginx.access_log)))
    assert re.search(r"^/slow/\{number\} +9 ", verdict, re.M)


def test_the_doctor_has_nothing_against_the_location(nginx: Nginx, tmp_path: Path) -> None:
    findings = diagnose(str(next(tmp_path.rglob("nginx.conf"))), somaxconn=4096).findings
    assert [each for each in findings if each.subject.startswith("location ~") or "keepalive" in each.code] == []
