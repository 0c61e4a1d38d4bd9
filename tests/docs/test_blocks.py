"""Every block of code in the documents is at least sound: commands parse, configurations load, programs compile.

What can be run is run elsewhere: ``$ sojourn …`` blocks by test_examples.py, the recipes by test_recipes_*.py, the
middleware's by tests/collector, nginx's by tests/nginx.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from docs_blocks import WORDS, Block, blocks_of, pages, shell_of
from docs_commands import commands_in, known, parsed
from docs_support import ROOT
from sojourn.store import connect
from sojourn_lab.runtime.nginx import build_text, js_module_line, nginx_program

BLOCKS = [block for page in pages() for block in blocks_of(page)]

NOT_HERE = {
    "caddy": "test_recipes_proxies runs it where there is a caddy",
    "haproxy": "test_recipes_* loads it where there is an haproxy",
    "java": "test_recipes_apps runs it where there is a javac",
    "php": "test_recipes_php runs it where there is a php-fpm",
    "crontab": "its commands are parsed; cron itself is not run",
    "sqlite": "test_perfetto_trace runs it in SQLite",
    "promql": "test_recipes_prometheus runs it where there is a promtool",
    "ini": "test_recipes_prometheus checks the unit, and systemd where it is installed",
}
MIXED = ("lab/README.md: server = ",)  # a line of a scenario beside the command that does the same
HALF_TYPED = ("sp",)  # of the page on completion
CHECKED = {
    "shell", "console", "usage", "example", "python", "nginx", "json", "toml", "yaml", "sql", "js", "ruby", "go", "xml",
}  # fmt: skip


def of_kind(*kinds: str) -> list[object]:
    return [pytest.param(block, id=block.name) for block in BLOCKS if block.kind in kinds]


def test_every_kind_of_block_is_checked() -> None:
    assert {block.kind for block in BLOCKS} - CHECKED - set(NOT_HERE) - {"prose"} == set()


def test_prose_blocks_have_no_commands() -> None:
    lines = [(block.name, line) for block in BLOCKS if block.kind == "prose" for line in block.text.splitlines()]
    commands = [line for _, line in lines if line.startswith("sojourn ")]  # of a block that begins with something else
    for command in commands:
        parsed(command.removeprefix("sojourn "))
    suspects = [(at, line) for at, line in lines if line.startswith(("$ ", *WORDS)) and line not in commands]
    assert [at for at, line in suspects if re.search(r" --?[a-z]", line) and not at.startswith(MIXED)] == []


@pytest.mark.parametrize("block", of_kind("shell", "console"))
def test_shell_blocks_and_their_sojourn_calls_parse(block: Block) -> None:
    shell = shell_of(block)
    # A description may stand behind a command, which is no syntax.
    wrong = _wrong(shell) and _wrong(re.sub(r"\s{3,}[^\s#-][^\n]*", "", shell))
    assert wrong == ""
    for line in commands_in(shell):
        parsed(line)


def _wrong(shell: str) -> str:
    """What bash has against it, without running it."""
    values = {"input": shell, "capture_output": True, "text": True}
    return subprocess.run(["bash", "-n"], check=False, timeout=20, **values).stderr


@pytest.mark.parametrize("block", of_kind("usage", "crontab"))
def test_usage_lines_name_existing_options(block: Block) -> None:
    joined = re.sub(r"\n +(?=\[)", " ", block.text)
    lines = list(commands_in(joined))
    assert lines
    for line in lines:
        known(line)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_named_in_a_sentence_exist(page: Path) -> None:
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for words in re.findall(r"`(?:\.venv/bin/)?sojourn ([a-z][^`]*)`", text):
        if words not in HALF_TYPED:
            known(" ".join(words.split()))


@pytest.mark.parametrize("block", of_kind("python"))
def test_python_compiles_and_its_imports_exist(block: Block) -> None:
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                assert _there(name.name), name.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level and _there(node.module):
            if node.module.split(".")[0].startswith("sojourn"):
                module = importlib.import_module(node.module)
                for name in node.names:
                    assert hasattr(module, name.name) or _there(f"{node.module}.{name.name}"), name.name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sojourn":
            assert hasattr(importlib.import_module("sojourn"), node.attr), f"sojourn.{node.attr}"


def _there(module: str) -> bool:
    """Return whether a module exists; one of an app that the page itself makes need not."""
    own = {path.split("/")[-1].removesuffix(".py") for path in re.findall(r"# \w*:? ?(\S+\.py)", _ALL)}
    try:
        return module.split(".", maxsplit=1)[0] in own or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


_ALL = "\n".join(block.text for block in BLOCKS if block.kind == "python")


# Where a part of a configuration may stand: what is around it, the most likely first.
HTTP = "include sojourn/sojourn.conf; upstream app {{ server 127.0.0.1:8000; }}"
ZONES = "limit_req_zone $binary_remote_addr zone=few:1m rate=9r/s; limit_conn_zone $binary_remote_addr zone=each:1m;"
LEVELS = (
    f"events {{{{ }}}} http {{{{ {HTTP}\n{{text}}\n}}}}",
    "events {{ }} http {{\n{text}\n}}",
    f"events {{{{ }}}} http {{{{ {HTTP} {ZONES} server {{{{ location / {{{{\n{{text}}\n}}}} }}}} }}}}",
    f"events {{{{ }}}} http {{{{ {HTTP} server {{{{\n{{text}}\n}}}} }}}}",
    "events {{ }} http {{ upstream app {{ server 127.0.0.1:8000;\n{text}\n}} }}",
    "events {{ }} http {{ geo $there {{\n{text}\n}} }}",  # trusted.conf
    "events {{\n{text}\n}} http {{ }}",
    "events {{ }}\n{text}\nhttp {{ }}",
    f"events {{{{ }}}} http {{{{ {HTTP} {{maps}} log_format part\n{{text}}\n; }}}}",
    f"events {{{{ }}}} http {{{{ {HTTP} {{maps}} log_format part '{{text}}'; }}}}",
)

# By the first word, which of them to try first; it saves starting nginx in vain.
LIKELY = (
    (r"proxy_|limit_|set |add_header|uwsgi|return|include sojourn/sojourn_proxy", 2),
    (r"listen|server_name|location", 3),
    (r"keepalive|server ", 4),
    (r"[\d.]+", 5),
    (r"worker_connections", 6),
    (r"timer_|worker_|user ", 7),
    (r"'", 8),
    (r'"', 9),
)


@pytest.mark.parametrize("block", of_kind("nginx"))
def test_nginx_loads_its_configuration(block: Block, tmp_path: Path) -> None:
    """A whole configuration, or parts of one that each some level takes."""
    program = nginx_program()
    if program is None:
        pytest.skip("nginx is not installed: its configuration was not loaded")
    module = js_module_line(build_text(program))
    if module is None:
        pytest.skip("nginx has no njs module: its configuration was not loaded")
    shutil.copytree(ROOT / "nginx", tmp_path / "sojourn")
    (tmp_path / "logs").mkdir()

    def complaint(whole: str) -> str:
        (tmp_path / "nginx.conf").write_text(f"{module}\npid {tmp_path}/nginx.pid;\n{whole}\n")
        return subprocess.run(
            [program, "-t", "-q", "-p", tmp_path, "-c", tmp_path / "nginx.conf", "-e", tmp_path / "error.log"],
            capture_output=True, text=True, check=False, timeout=20,
        ).stderr.partition("\n")[0]  # fmt: skip

    text = re.sub(r"^load_module .*$", "", block.text, flags=re.M).replace("/var/log/nginx/", f"{tmp_path}/logs/")
    if re.search(r"^http \{", text, re.M):
        events = "" if re.search(r"^\s*events\b", text, re.M) else "events { }"
        upstream = "" if "upstream app" in text else "upstream app { server 127.0.0.1:8000; }"
        assert complaint(events + re.sub(r"^http \{", f"http {{ {upstream}", text, count=1, flags=re.M)) == ""
        return
    used = any(complaint(level.format(text=text, maps="")) == "" for level in _levels(text))
    parts = _statements(text)
    maps = "\n".join(part for part in parts if part.startswith("map "))
    for part in [] if used else parts:
        assert any(complaint(level.format(text=part, maps=maps)) == "" for level in _levels(part)), part


def _levels(text: str) -> list[str]:
    first = re.sub(r"^\s*#.*\n", "", text).lstrip()
    likely = [LEVELS[level] for pattern, level in LIKELY if re.match(pattern, first)]
    return likely + [level for level in LEVELS if level not in likely]


def _statements(text: str) -> list[str]:
    """A configuration cut after each directive and block of its outermost level."""
    parts, depth = [""], 0
    for line in text.splitlines():
        code = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        depth += code.count("{") - code.count("}")
        parts[-1] += line + "\n"
        if depth == 0 and code.endswith((";", "}", "'", '"')):
            parts.append("")
    return [part.strip() for part in parts if part.strip()]


@pytest.mark.parametrize("block", of_kind("json", "toml", "yaml", "xml"))
def test_data_parses(block: Block) -> None:
    parse = {
        "json": json.loads,
        "toml": tomllib.loads,
        "yaml": lambda text: list(yaml.safe_load_all(text)),
        "xml": lambda text: ElementTree.fromstring(f"<part>{text}</part>"),
    }
    parse[block.kind](block.text)


def test_sql_is_accepted_by_the_store(store_dsn: str) -> None:
    statements = [block for block in BLOCKS if block.kind == "sql"]
    assert statements
    with connect(store_dsn) as store:
        for block in statements:
            store.client.query(f"EXPLAIN {block.text.strip().rstrip(';')}")


@pytest.mark.parametrize("block", of_kind("js", "ruby", "go"))
def test_program_in_another_language_compiles(block: Block, tmp_path: Path) -> None:
    checks = {"js": ("node", "--check"), "ruby": ("ruby", "-c"), "go": ("gofmt", "-e", "-l")}
    tool, *options = checks[block.kind]
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed: what is written in {block.kind} was not checked")
    file = tmp_path / f"block.{'mjs' if re.search('^import ', block.text, re.M) else block.kind}"
    file.write_text(block.text + "\n")
    done = subprocess.run([tool, *options, file], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("line", "sound"),
    [
        ("split a.jsonl --by route | head", True),
        ("split a.jsonl --bye route", False),
        ("split --by route", False),  # nothing to split
        ("lab list                the scenarios", True),
        ("lab list                --there-is-no-such", False),
        ("lab run six-requests > out", True),
        ("labs run six-requests", False),
        ("--version", True),
        ("--there-is-no-such split a.jsonl", False),
        ("store load chdb:///x a.jsonl*", True),
        ("capacity --slo", False),
    ],
)
def test_parsing_of_calls(line: str, sound: bool) -> None:
    if sound:
        parsed(line)
    else:
        with pytest.raises(Exception, match=r".+"):
            parsed(line)


def test_calls_are_extracted() -> None:
    called = "sudo sojourn a 1\nX=1 .venv/bin/sojourn b \\\n2\n*/5 * * * *  sojourn c\nx | sojourn d"
    not_called = "echo sojourn e\n--group sojourn f\n# sojourn g"
    assert [" ".join(line.split()) for line in commands_in(f"{called}\n{not_called}")] == ["a 1", "b 2", "c", "d"]


def test_names_of_options_are_looked_up() -> None:
    known("split SOURCE… [--by route|upstream] [--since T]")
    known("lab run NAME")
    with pytest.raises(LookupError, match="no option --nowhere"):
        known("split SOURCE… [--nowhere]")
    with pytest.raises(LookupError, match="no command sojourn nothing"):
        known("nothing at all")
