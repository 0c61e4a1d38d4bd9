"""Every command without the packages of any extra: it works, or it names the command that installs what it needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from sojourn.cli import app
from sojourn.model.extras import EXTRAS, install_command

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "examples"
SHOP = str(EXAMPLES / "shop.jsonl.gz")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LAB = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]
# Other modules that come with the packages of the extras.
WITH_THEM = {"llvmlite", "pandas", "scipy"}

# Runs commands one after the other in a process in which the modules named first cannot be imported.
RUN = """
import contextlib, io, json, sys

hidden, commands = json.loads(sys.stdin.read())


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Hidden())
from sojourn.cli import main

done = []
for command in commands:
    sys.argv = ["sojourn", "--no-config", *command]
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    done.append((code, output.getvalue(), errors.getvalue()))
json.dump(done, sys.stdout)
sys.stdout.flush()
"""

# Command -> the extra that it names; an empty text: it works. OUT is a folder.
CASES: list[tuple[str, str]] = [
    ("--version", ""),
    ("--help", ""),
    (f"split {SHOP} --spans {EXAMPLES}/shop-spans.jsonl.gz", ""),
    (f"split {SHOP} --json --parquet OUT/rows.parquet", ""),
    ("split OUT/rows.parquet", ""),
    (f"split {SHOP} --html OUT/split.html", "charts"),
    ("split clickhouse://127.0.0.1:1/x", "store"),
    (f"infer {EXAMPLES}/plain.log.gz", "compiled"),
    (f"blame {SHOP}", ""),
    (f"depth {SHOP}", ""),
    (f"goodput {SHOP}", ""),
    (f"capacity {EXAMPLES}/ramp.jsonl.gz --slo p99=0.5 --target-rate 240", ""),
    (f"laws {SHOP}", ""),
    (f"whatif {SHOP} --variant workers=+1", "compiled"),
    (f"compare {SHOP} --at 2026-01-01T00:01:00Z", ""),
    (f"contrast {SHOP} --above 1", ""),
    (f"tiers {EXAMPLES}/checkout-spans.jsonl.gz", ""),
    (f"pcap {EXAMPLES}/wire.pcap.gz --log {EXAMPLES}/wire.jsonl.gz", "compiled"),
    (f"clock {EXAMPLES}/clocks.jsonl.gz", ""),
    ("simulate --arrivals poisson:8 --service exponential:0.1 --requests 2000", "compiled"),
    (f"kernel {EXAMPLES}/kernel.jsonl.gz", ""),
    ("capture --port 80 --out OUT/a.pcap --print", ""),
    (f"report {SHOP} --html OUT/report.html", "charts"),
    (f"plot {SHOP} ccdf --out OUT/ccdf.svg", "charts"),
    (f"movie {SHOP} --out OUT/movie.html", ""),
    (f"movie {SHOP} --out OUT/movie.gif", "charts"),
    (f"timeline {SHOP} --out OUT/shop.pftrace", ""),
    (f"watch {SHOP} --once", ""),
    (f"export {SHOP} --once", ""),
    (f"export {SHOP} --otlp http://127.0.0.1:1", "otlp"),
    (f"serve {SHOP}", "serve"),
    ("mcp OUT", "mcp"),
    (f"doctor {SHOP}", ""),
    ("install nginx OUT/nginx.conf", ""),
    ("install app OUT/nginx.conf", ""),
    ("uninstall nginx OUT/nginx.conf", ""),
    ("config", ""),
    ("store init chdb://OUT/store", "store"),
    (f"store load chdb://OUT/store {SHOP}", "store"),
    ("store doctor clickhouse://127.0.0.1:1/x", "store"),
    ("lab list", ""),  # installed here, and required as a whole by the extra
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """Command -> exit status, stdout and stderr."""
    folder = str(tmp_path_factory.mktemp("base"))
    Path(folder, "nginx.conf").write_text("events {}\nhttp { server { location / { proxy_pass http://10.0.0.1; } } }\n")
    commands = [command.replace("OUT", folder).split() for command, _ in CASES]
    ran = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps((sorted({*EXTRAS, *WITH_THEM}), commands)),
        capture_output=True, text=True, check=True, timeout=200,
    )  # fmt: skip
    return dict(zip((command for command, _ in CASES), map(tuple, json.loads(ran.stdout)), strict=True))


@pytest.mark.parametrize(("command", "extra"), CASES)
def test_works_or_names_the_extra(command: str, extra: str, done: dict[str, tuple[int, str, str]]) -> None:
    code, output, errors = done[command]
    assert "Traceback" not in output + errors
    if not extra:
        assert code in {0, None}, errors
        assert len(output) > 70
        return
    assert code == 1
    assert output == ""
    assert re.fullmatch(rf"sojourn: .+ needs .+: {re.escape(install_command(extra))}\n", errors)


def test_there_is_a_case_for_every_command() -> None:
    commands = typer.main.get_group(app).commands
    assert {command.split()[0] for command, _ in CASES} - {"--version", "--help"} == {*commands, "lab"}


def test_the_modules_of_an_extra_are_those_that_its_packages_bring() -> None:
    """A module in the table belongs to no package of the base, and the extra that the table names brings it."""
    extras = PROJECT["optional-dependencies"]
    packages = {name: {_normal(Requirement(each).name) for each in needed} for name, needed in extras.items()}
    assert packages["lab"] == {LAB["name"]}
    packages["lab"] |= {_normal(Requirement(each).name) for each in LAB["dependencies"]}
    base = {_normal(Requirement(each).name) for each in PROJECT["dependencies"]}
    brought = {module: {_normal(each) for each in owners} for module, owners in packages_distributions().items()}
    for module, extra in EXTRAS.items():
        owners = brought.get(module, {_normal(module)})  # an editable installation does not list its modules
        assert not owners & base
        assert owners & packages[extra], (module, extra)
    assert packages["all"] == {"sojourn"}
    (everything,) = (Requirement(each).extras for each in extras["all"])
    assert everything == set(extras) - {"all"}


def test_the_installation_page_lists_every_extra() -> None:
    page = (ROOT / "docs/how-to/install.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| \+ [\d,]+ MB \|", page, re.M) == [
        "charts", "compiled", "store", "capture", "otlp", "web", "serve", "mcp", "lab", "all",
    ]  # fmt: skip
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == set(PROJECT["optional-dependencies"])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
