"""The README of the Node package and its how-to page followed literally: every block is run as a server."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from collector_support import fetch, served
from node_support import INSTALLED, PACKAGE, ROOT, node, why_not_installed
from sojourn_lab.runtime.ports import free_port

README = (PACKAGE / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "how-to" / "node.md").read_text("utf-8")
BLOCK = re.compile(r"^```js\n// ([^\n]+)\n.*?\n^```$", re.MULTILINE | re.DOTALL)
FRAMEWORKS = {
    "express": "express5",
    "fastify": "fastify5",
    "koa": "koa3",
    "@koa/router": "@koa/router",
    "prom-client": "prom-client",
}


def blocks_of(text: str) -> dict[str, str]:
    """The blocks of a page by the name in their first line."""
    return {match[1]: match[0].removeprefix("```js\n").removesuffix("```") for match in BLOCK.finditer(text)}


def project(folder: Path) -> None:
    """An app's folder with what `npm install` makes of the package and the frameworks: links, and copies."""
    modules = folder / "node_modules"
    (modules / "@koa").mkdir(parents=True)
    (modules / "sojourn-middleware").symlink_to(PACKAGE)
    for name, installed in FRAMEWORKS.items():
        source = INSTALLED / "node_modules" / installed
        if source.exists():
            (modules / name).symlink_to(source)


def command(file: Path) -> list[str]:
    """Put the port into the file of a block and run it."""
    return ["sh", "-c", f"sed -i s/8000/{{port}}/ {file} && exec {node()} {file}"]


BLOCKS = blocks_of(README) | blocks_of(PAGE)


def test_every_block_is_known() -> None:
    assert set(blocks_of(README)) == {
        *("http: app.js", "express: app.js", "fastify: app.mjs", "koa: app.js", "prometheus: app.js", "stats: app.js"),
    }
    assert set(blocks_of(PAGE)) == {"server.js", "express.js", "fastify.js", "koa.js"}
    assert len(blocks_of(README)) == README.count("```js")
    assert len(blocks_of(PAGE)) == PAGE.count("```js")


# The tests of the how-to pages run its server.js behind nginx.
@pytest.mark.parametrize("name", sorted(set(BLOCKS) - {"prometheus: app.js", "stats: app.js", "server.js"}))
def test_server_of_a_block(tmp_path: Path, name: str) -> None:
    if name != "http: app.js" and (reason := why_not_installed()):
        pytest.skip(reason)
    project(tmp_path)
    file = tmp_path / name.rpartition(" ")[2]
    file.write_text(BLOCKS[name])
    path, route = ("/users/7", "/users/:id") if ": " in name else ("/slow/7", "/slow/:number")
    with served(command(file), tmp_path) as (port, _):
        answer = fetch(port, path)
    assert answer.status == 200
    assert answer.queueing_delay > -0.01
    assert answer.service_time > 0
    assert answer.headers["x-route"] == route


def test_stats_of_a_block(tmp_path: Path) -> None:
    project(tmp_path)
    stats_port = free_port()
    file = tmp_path / "app.js"
    file.write_text(BLOCKS["stats: app.js"].replace("8001", str(stats_port)))
    with served(command(file), tmp_path) as (port, _):
        assert fetch(port).body == b"hello\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{stats_port}", timeout=20) as response:
            answer = json.load(response)
    example = re.search(r"^    (\{\"sojourn\".*?\}\n)", README, re.MULTILINE | re.DOTALL)
    assert example is not None
    documented = json.loads(example[1])
    assert list(answer) == list(documented)
    assert {type(value) for value in answer.values()} <= {int, str, float, dict}
    assert list(answer["event_loop_delay"]) == list(documented["event_loop_delay"])
    assert (answer["sojourn"], answer["kind"], answer["requests"]) == (1, "node", 1)


def test_histograms_of_a_block(tmp_path: Path) -> None:
    if reason := why_not_installed():
        pytest.skip(reason)
    project(tmp_path)
    metrics_port = free_port()
    file = tmp_path / "app.js"
    file.write_text(BLOCKS["prometheus: app.js"].replace("8001", str(metrics_port)))
    documented = re.search(r"^    (sojourn_queueing_delay_seconds_bucket\{.*) 1$", README, re.MULTILINE)
    assert documented is not None
    with served(command(file), tmp_path) as (port, _):
        assert fetch(port).body == b"hello\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}", timeout=20) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            samples = dict(line.rsplit(" ", 1) for line in response.read().decode().splitlines() if "{" in line)
    labels = '{service="shop",route="",status_class="2xx"}'
    assert samples[f"sojourn_service_time_seconds_count{labels}"] == "1"
    assert samples[f"sojourn_queueing_delay_seconds_count{labels}"] == "1"
    assert documented[1] in samples
    names = set(re.findall(r"^\| `(sojourn_\w+)` \|", README, re.MULTILINE))
    assert names == {re.sub(r"(_bucket|_sum|_count)?\{.*", "", series) for series in samples}


def test_options_of_the_table_are_the_options_there_are() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", README.split("## Options")[1].split("\n## ")[0], re.MULTILINE))
    declared = re.search(r"export interface Options.*?^\}", (PACKAGE / "src" / "index.d.ts").read_text(), re.M | re.S)
    assert declared is not None
    assert documented == set(re.findall(r"^  (\w+)\?:", declared[0], re.MULTILINE)) - {"clock"}  # which is for tests


def test_version_is_the_oldest_node_promised() -> None:
    manifest = json.loads((PACKAGE / "package.json").read_text())
    assert manifest["engines"] == {"node": ">=18"}
    assert "Node 18 and later" in README
    assert "dependencies" not in manifest
