"""Public kinds of configurations as trees of files, each with a real nginx that runs it and real apps behind it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from apps_behind import way_to
from doctor_support import app, got
from sojourn.cli import app as commands
from sojourn_lab.runtime.nginx import build_text, nginx_program
from sojourn_lab.runtime.ports import free_ports, wait_for_port
from sojourn_lab.runtime.process import Process
from typer.testing import CliRunner

SETUPS = Path(__file__).with_name("setups")
DEADLINE_S = 30.0
_PORTS = ("PORT", "APP", "TLS", "SPARE", "OTHER")
_PLACEHOLDER = re.compile(rb"@([A-Z]+)@")


_CONF = """\
user root;
pid @RUN@/nginx.pid;
error_log @LOGS@/error.log;
events { worker_connections 1024; }
http {
    access_log @LOGS@/access.log;
    HTTP
    server {
        listen 127.0.0.1:@PORT@;
        server_name shop.example;
        SERVER
    }
}
"""


def conf_text(server: str, http: str = "") -> str:
    """Return a configuration with these lines in its server, and at its http level."""
    return _CONF.replace("SERVER", server).replace("HTTP", http)


@dataclass
class Tree:
    """A configuration in a folder of its own.

    ``etc``: its files. ``logs``, ``run``, ``root``: folders for logs, sockets and pages. ``values``: of placeholders.
    """

    folder: Path
    values: dict[str, str]

    @property
    def etc(self) -> Path:
        return self.folder / "etc"

    @property
    def conf(self) -> Path:
        return self.etc / "nginx.conf"

    @property
    def log(self) -> Path:
        return self.folder / "logs" / "sojourn.jsonl"

    @property
    def port(self) -> int:
        return int(self.values["PORT"])

    def command(self, *words: str, answers: str | None = None) -> tuple[int, str]:
        """Run ``sojourn WORDS`` and return its exit code and its output."""
        runner = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"})
        result = runner.invoke(commands, list(words), input=answers)
        error = f"{result.exception}\n" if result.exception and result.exit_code else ""
        return result.exit_code, result.stdout + error

    def install(self, *options: str, answers: str | None = None) -> tuple[int, str]:
        places = ("--log", str(self.log), "--backup", str(self.folder / "backups"))
        return self.command("install", "nginx", str(self.conf), *places, *options, answers=answers)

    def uninstall(self, *options: str) -> tuple[int, str]:
        return self.command("uninstall", "nginx", str(self.conf), "--backup", str(self.folder / "backups"), *options)

    def filled(self, content: bytes) -> bytes:
        """Return a text with the values in place of its placeholders."""
        return _PLACEHOLDER.sub(lambda match: self.values.get(match[1].decode(), match[0].decode()).encode(), content)

    def contents(self) -> dict[str, bytes | str]:
        """Return the content of each file by its path; of a link, its target."""
        return {
            str(path.relative_to(self.etc)): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in sorted(self.etc.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


def tree_of(name: str, folder: Path) -> Tree:
    """Return the set-up of a name, with this machine's ports and paths; skips without a module that it loads."""
    tree = _empty_tree(folder)
    shutil.copytree(SETUPS / name, tree.etc, symlinks=True)
    for path in tree.etc.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = tree.filled(path.read_bytes())
            for module in re.findall(rb"load_module (\S+);", content):
                if not os.path.exists(module):
                    pytest.skip(f"{os.path.basename(module.decode())} is not installed")
            path.write_bytes(content)
    return tree


def tree_at(folder: Path, files: Mapping[str, str]) -> Tree:
    """Return a configuration of files, by path below its folder, with this machine's ports and paths."""
    tree = _empty_tree(folder)
    for name, text in files.items():
        path = tree.etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tree.filled(text.encode()))
    return tree


def _empty_tree(folder: Path) -> Tree:
    program = nginx_program()
    if program is None:
        pytest.skip("nginx is not installed")
    build = re.search(r"--modules-path=(\S+)", build_text(program))
    for each in ("logs", "run", "root", "cert"):
        (folder / each).mkdir()
    values = {name.upper(): str(folder / name) for name in ("etc", "logs", "run", "root", "cert")}
    values |= dict(zip(_PORTS, map(str, free_ports(len(_PORTS))), strict=True))
    return Tree(folder, {**values, "MODULES": build[1] if build else "/usr/lib/nginx/modules"})


@contextmanager
def apps_of(tree: Tree) -> Iterator[list[dict[str, list[str]]]]:
    """The apps behind a set-up, as long as the block; yields the headers that the one that speaks HTTP received."""
    texts = {path: path.read_bytes() for path in tree.etc.rglob("*") if path.is_file() and not path.is_symlink()}
    whole = b"".join(texts.values())
    if b"@CERT@" in whole or b"ssl_certificate" in whole:
        _certificate(Path(tree.values["CERT"]))
    with ExitStack() as stack:
        if b"app.sock" in whole:
            stack.enter_context(way_to("proxy", tree.folder / "run", unix=True))
        for family in ("fastcgi", "uwsgi", "grpc"):
            name = family.upper()
            if f"@{name}@".encode() in whole:
                way = stack.enter_context(way_to(family, tree.folder / "root"))
                tree.values[name] = way.lines[0].split()[1].rstrip(";")
        (tree.folder / "root" / "index.php").write_text('<?php header("X-Worker: 1"); echo "ok";')
        for path, text in texts.items():
            path.write_bytes(tree.filled(text))
        yield stack.enter_context(app(int(tree.values["APP"])))


def _certificate(folder: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=shop.example",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip


@contextmanager
def nginx_of(tree: Tree) -> Iterator[None]:
    """A real nginx that runs a set-up, as long as the block."""
    command = [str(nginx_program()), "-c", str(tree.conf), "-g", "daemon off;"]
    with Process(command, name="nginx", folder=tree.folder / "logs") as process:
        wait_for_port("127.0.0.1", tree.port, DEADLINE_S, process)
        yield


PLAIN = "location / {\n            proxy_pass http://127.0.0.1:@APP@;\n        }"
Received = list[dict[str, list[str]]]


def tree(folder: Path, server: str = PLAIN, http: str = "", **files: str) -> Tree:
    others = {f"{name}.conf": content for name, content in files.items()}
    return tree_at(folder, {"nginx.conf": conf_text(server, http), **others})


@contextmanager
def running(one: Tree) -> Iterator[Received]:
    with apps_of(one) as received, nginx_of(one):
        yield received


def row_of_request(one: Tree, path: str = "/", headers: dict[str, str] | None = None) -> dict[str, str]:
    """Send a request, and return its line in the log: nginx writes it after the answer."""
    before = one.log.read_bytes().count(b"\n")
    got(one.port, path, headers)
    deadline = time.monotonic() + DEADLINE_S
    while one.log.read_bytes().count(b"\n") == before:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return json.loads(one.log.read_text().splitlines()[-1])
