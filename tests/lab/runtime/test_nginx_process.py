"""The lab's nginx: configured, checked, started on a free port, stopped without an alert."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.resources import resource_file
from sojourn_lab.runtime import nginx as lab_nginx
from sojourn_lab.runtime.nginx import Nginx, js_module_line, nginx_program, nginx_version, quoted
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.runtime.process import group_members

HELLO = "location / { return 200 hello; }"


@pytest.fixture(autouse=True)
def _needs_nginx() -> None:
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)


def lab(folder: Path, server: str = HELLO, **settings: object) -> Nginx:
    return Nginx(folder, server, access_log=folder / "access.jsonl", **settings)  # type: ignore[arg-type]


def body(nginx: Nginx) -> bytes:
    with urllib.request.urlopen(nginx.url, timeout=20) as answer:
        data: bytes = answer.read()
    return data


def test_serves_and_logs_and_leaves_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as nginx:
        group = nginx.process.pid
        assert body(nginx) == b"hello"
        assert len(group_members(group)) == 2
    assert group_members(group) == []
    assert json.loads(nginx.access_log.read_text())["status"] == "200"
    assert nginx.alerts() == []
    assert "[warn]" not in nginx.error_log_text()
    assert nginx.process.exit_code() == 0
    nginx.stop()


def test_the_houses_files_are_copied_unchanged(tmp_path: Path) -> None:
    with lab(tmp_path, files={"trusted.conf": "10.0.0.0/8 1;\n"}) as nginx:
        copies = sorted(path.name for path in (nginx.folder / "sojourn").iterdir())
        assert {"sojourn.conf", "sojourn_proxy.conf", "sojourn.js"} <= set(copies)
        for name in copies:
            same = (nginx.folder / "sojourn" / name).read_bytes() == resource_file("nginx", name).read_bytes()
            assert same == (name != "trusted.conf")


def test_everything_nginx_writes_is_in_its_folder(tmp_path: Path) -> None:
    with lab(tmp_path) as nginx:
        body(nginx)
        opened = [path for pid in group_members(nginx.process.pid) for path in opened_by(pid)]
    written = {path for path in opened if path.startswith("/") and not path.startswith("/dev/")}
    assert written
    assert all(path.startswith(str(tmp_path)) for path in written), written


def opened_by(pid: int) -> list[str]:
    """Return what a process holds open, without connections that end while they are listed."""
    targets = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            targets.append(os.readlink(entry))
    return targets


def test_nginxs_own_words_on_a_bad_configuration(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r'(?s)does not accept .*unknown directive "sing"'):
        lab(tmp_path, "sing loudly;").start()


def test_a_taken_port_is_picked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        used = stranger.getsockname()[1]
        picks = iter([used, free_port()])
        monkeypatch.setattr(lab_nginx, "free_port", lambda _host: next(picks))
        with lab(tmp_path) as nginx:
            assert nginx.port != used
            assert body(nginx) == b"hello"


def test_a_given_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        nginx = lab(tmp_path, port=stranger.getsockname()[1])
        with pytest.raises(LabError, match="Address already in use"):
            nginx.start()
        assert group_members(nginx.process.pid) == []


def test_requests_under_way_finish_and_hanging_ones_do_not_hold_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        with lab(tmp_path, f"location / {{ proxy_pass http://127.0.0.1:{port}; }}", drain_s=0.2) as nginx:
            client = socket.create_connection(("127.0.0.1", nginx.port), timeout=20)
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            upstream, _ = hanging.accept()
            nginx.stop()
            assert not nginx.process.running()
            assert client.recv(100) == b""
            client.close()
            upstream.close()
    assert nginx.alerts() == []


def test_detects_alerts(tmp_path: Path) -> None:
    nginx = lab(tmp_path)
    assert (nginx.error_log_text(), nginx.alerts()) == ("", [])
    nginx.error_log.parent.mkdir(parents=True)
    nginx.error_log.write_text("… [notice] 1#1: fine\n… [alert] 1#1: worker process exited on signal 11\n")
    assert nginx.alerts() == ["… [alert] 1#1: worker process exited on signal 11"]


def test_unusual_folders(tmp_path: Path) -> None:
    folder = tmp_path / 'a "quoted" folder; with {braces} and \\'
    folder.mkdir()
    with lab(folder) as nginx:
        assert body(nginx) == b"hello"
    with pytest.raises(LabError, match=r"read the \$"):
        lab(tmp_path / "run$1").start()


def test_before_the_start(tmp_path: Path) -> None:
    nginx = lab(tmp_path)
    nginx.stop()
    with pytest.raises(LabError, match="never started"):
        _ = nginx.process


def test_path_of_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ngx_http_js_module.so").touch()
    line = f"load_module {quoted(tmp_path / 'ngx_http_js_module.so')};"
    assert js_module_line(f"configure arguments: --modules-path={tmp_path} --x") == line
    assert js_module_line(f"configure arguments: --modules-path='{tmp_path}'") == line
    assert js_module_line("configure arguments: --add-module=/build/njs-0.8.4/nginx") == ""
    monkeypatch.setattr(lab_nginx, "_MODULE_FOLDERS", ())
    assert js_module_line(f"configure arguments: --modules-path={tmp_path}/none") is None


def test_a_missing_nginx_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_nginx, "nginx_program", lambda: None)
    assert Nginx.why_unavailable() is not None
    with pytest.raises(LabError, match="nginx is not installed"):
        lab(tmp_path).start()


def test_the_version() -> None:
    program = nginx_program()
    assert program is not None
    assert [int(part) for part in nginx_version(program).split(".")[:2]] >= [1, 18]


def test_an_ordinary_user_can_run_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; as an ordinary user every other test here shows it")
    none_waiting = pwd.getpwnam("nobody")
    try:
        subprocess.run(
            [sys.executable, "-c", "import sojourn_lab"], user="nobody", cwd="/", capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"an ordinary user may not run {sys.executable}, or not read this checkout")
    folder = Path("/tmp") / f"sojourn-lab-{os.getpid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, none_waiting.pw_uid, none_waiting.pw_gid)
    code = f"""
import pathlib, urllib.request
from sojourn_lab.runtime.nginx import Nginx
folder = pathlib.Path({str(folder)!r})
with Nginx(folder, {HELLO!r}, access_log=folder / "access.jsonl") as nginx:
    print(urllib.request.urlopen(nginx.url).read().decode())
print(nginx.alerts(), "[warn]" in nginx.error_log_text())
"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            user="nobody",
            group=none_waiting.pw_gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "hello\n[] False\n", done.stderr
    finally:
        shutil.rmtree(folder)


def test_a_refused_request_after_the_stop(tmp_path: Path) -> None:
    with lab(tmp_path) as nginx:
        pass
    with pytest.raises(urllib.error.URLError):
        body(nginx)
