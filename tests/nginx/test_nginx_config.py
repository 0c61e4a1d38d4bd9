"""The configuration as nginx -t and a linter see it, and the README followed literally."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nginx_support import LOCATION, PROXY, app_upstream, get, logged
from nginx_upstream import Upstream, answer_with
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import Nginx, js_module_line, nginx_program
from sojourn_lab.runtime.nginx import build_text as nginx_build_text
from sojourn_lab.runtime.ports import wait_for_port
from sojourn_lab.runtime.process import Process

EVERYTHING = f"server_name shop.example; location / {{ {PROXY} include sojourn/sojourn_server_timing.conf; }}"


def test_nginx_accepts_it_without_a_warning(shop: Callable[..., Nginx]) -> None:
    nginx = shop(EVERYTHING)
    program = nginx_program()
    assert program is not None
    words = nginx.config_words(program)
    assert "test is successful" in words
    assert "[" not in words, words


def test_there_is_room_for_the_users_own_variables(shop: Callable[..., Nginx]) -> None:
    """nginx warns when a hash of fixed size gets full of variables; ours must not be the last straw."""
    maps = "".join(f'map "" $own_variable_{number} {{ default 1; }}' for number in range(15))
    nginx = shop(EVERYTHING, http=maps)
    assert "[warn]" not in nginx.error_log_text()


def gixy_findings(config: Path) -> list[dict[str, str]]:
    gixy = shutil.which("gixy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if gixy is None:
        pytest.skip("gixy is not installed")
    done = subprocess.run([gixy, "-f", "json", config], capture_output=True, text=True, timeout=60, check=False)
    findings: list[dict[str, str]] = json.loads(done.stdout)
    return findings


def test_the_linter_has_nothing_to_say(shop: Callable[..., Nginx]) -> None:
    """gixy cannot look into njs, so it takes what $sojourn_judged holds for anything, line ends included.

    That one finding is a false positive: judged() returns "", "t=" and digits with a dot, or "refused:" and one of five
    words; the table of test_nginx_judge.py shows it. With the variable declared harmless nothing is left.
    """
    nginx = shop(EVERYTHING)
    findings = gixy_findings(nginx.folder / "nginx.conf")
    assert [(one["plugin"], one["reason"]) for one in findings] == [
        ("http_splitting", 'At least variable "$sojourn_stamp_sent" can contain "\\n"')
    ]

    system = nginx.folder / "sojourn" / "sojourn.conf"
    text, replaced = re.subn(
        r"js_set \$sojourn_judged [^;]*;", 'map "" $sojourn_judged { default judged; }', system.read_text()
    )
    assert replaced == 1
    system.write_text(text)
    assert gixy_findings(nginx.folder / "nginx.conf") == []


def test_every_variable_is_explained_and_ours(shop: Callable[..., Nginx]) -> None:
    """No variable outside the prefix: an include must not take names from its user."""
    text = "".join(path.read_text() for path in resource_file("nginx").glob("*.conf"))
    matches = re.findall(r"^(?:map|geo|js_set)\b[^{;\n]* ?\$(\w+) *(?:\{|sojourn\.)", text, re.MULTILINE)
    assert matches
    assert all(name.startswith("sojourn_") for name in matches)


OLD_SPAN_ID = 'map "" $sojourn_span_made { default "50f0a4e2${sojourn_x0}"; } map "" $sojourn_x0 { default 12345678; }'


@pytest.mark.parametrize("http", ["", "include sojourn/sojourn_span_id.conf;"], ids=["left over", "included"])
def test_span_id_file_of_an_earlier_version_does_no_harm(serve: Callable[..., Nginx], app: Upstream, http: str) -> None:
    nginx = serve(LOCATION, http=app_upstream(app.address) + http, files={"sojourn_span_id.conf": OLD_SPAN_ID})
    assert get(nginx).status == 200
    (row,) = logged(nginx)
    assert row["span_id"] == ""
    assert "[warn]" not in nginx.error_log_text()


def test_the_readme_followed_literally(serve: Callable[..., Nginx], app: Upstream, tmp_path: Path) -> None:
    """Its nginx.conf, with only the ports, the log's place and the module's place of this machine put in."""
    app.answer = answer_with([("X-Queueing-Delay", "0.000010"), ("X-Service-Time", "0.001000"), ("X-Worker", "1")])
    readme = resource_file("nginx", "README.md").read_text()
    block = re.search(r"```nginx\n( *load_module.*?)```", readme, re.DOTALL)
    assert block is not None
    running = serve(
        LOCATION, http=app_upstream(app.address)
    )  # supplies a folder laid out as /etc/nginx/sojourn would be
    folder = running.folder
    running.stop()
    line = js_module_line(nginx_build_text(nginx_program() or Path("nginx")))
    assert line is not None
    text = block[1]
    for old, new in (
        ("load_module modules/ngx_http_js_module.so;", line),
        ("/var/log/nginx/sojourn.jsonl", f'"{running.access_log}"'),
        ("127.0.0.1:8000", app.address),
        ("listen 8080", f"listen 127.0.0.1:{running.port}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    temp = folder / "temp"
    paths = "".join(
        f'{name}_temp_path "{temp / name}";' for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    text = text.replace("http {", f"http {{ {paths}", 1)
    (folder / "nginx.conf").write_text(f'daemon off; {user} pid "{folder}/logs/nginx.pid";\n' + text)
    running.access_log.unlink()

    program = nginx_program()
    assert program is not None
    command: list[str | os.PathLike[str]] = [program, "-p", f"{folder}/", "-e", running.error_log]
    with Process([*command, "-c", folder / "nginx.conf"], name="literal", folder=folder / "logs") as process:
        wait_for_port("127.0.0.1", running.port, 20, process)
        response = get(running, headers=[("X-Request-Start", "t=1")])
        assert response.status == 200
        assert response.values("x-worker") == []
        (row,) = logged(running)
    assert (row["service"], row["stamp"], row["host"]) == ("shop.example", "own", "shop.example")
    assert (row["queueing_delay"], row["service_time"]) == ("0.000010", "0.001000")
    assert app.requests[0].values("host") == ["shop.example"]
    assert float(row["request_start"]) > 1.7e9
