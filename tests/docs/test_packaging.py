"""The wheels and source archives hold what they need: built, installed and run with no checkout in sight."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distributions, packages_distributions, requires
from pathlib import Path

import pytest
from build_hook import GO, SHARED
from docs_support import ROOT
from packaging.requirements import Requirement
from sojourn.model.extras import missing_package
from sojourn_docs import manual

LINE = '{"time":"1767225600.000","request_time":"0.1","status":"200","request_start":"-"}\n'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source archives of all distributions, and the wheels that are made of them, not of the checkout."""
    out = tmp_path_factory.mktemp("dist")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(project)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for project in (ROOT, ROOT / "lab", ROOT / "collector/middleware/python")
    ]  # fmt: skip
    for each in started:
        reported, _ = each.communicate(timeout=200)
        assert each.returncode == 0, reported
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds all wheels, and sees what they depend on where it lies already."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    install(folder, *built.glob("*.whl"))
    # Named in a .pth, a folder's own .pth files are not followed: the checkout installed there is not importable.
    (site_packages(folder) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def install(folder: Path, *wheels: Path) -> None:
    """Install wheels, without their dependencies, into a virtual environment."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(folder / "bin/python"),
        "install",
        "--no-deps",
        "--no-index",
    ]
    done = subprocess.run(
        [*command, "--quiet", *map(str, wheels)], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr


def site_packages(folder: Path) -> Path:
    (site,) = (folder / "lib").glob("python*/site-packages")
    return site


def names_in(built: Path, distribution: str) -> set[str]:
    """Return the names of the files in a wheel."""
    (wheel,) = built.glob(f"{distribution}-*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    return subprocess.run(
        [str(installed / "bin" / arguments[0]), *arguments[1:]],
        capture_output=True, text=True, check=False, cwd=folder, timeout=100, env={**env, "COLUMNS": "100"},
    )  # fmt: skip


def test_everything_is_in_the_wheel(built: Path) -> None:
    names = names_in(built, "sojourn")
    for name in (
        "sojourn/py.typed", "sojourn/__init__.pyi", "sojourn/present/templates/report.html",
        "sojourn/store/schema/tables/requests.sql", "sojourn/doctor/doctor.md", "sojourn/cli/examples/shop.jsonl.gz",
        "sojourn/nginx/includes/sojourn.conf", "sojourn/nginx/includes/sojourn.js", "sojourn/serve/static/index.html",
    ):  # fmt: skip
        assert name in names
    assert {name.partition("/")[0] for name in names} == {
        "sojourn", "sojourn-0.1.0.dist-info", "sojourn-0.1.0.data",
    }  # fmt: skip
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".go", ".java", ".rb", ".php"))]
    scripts = [name for name in names if name.endswith((".js", ".mjs"))]
    assert not [name for name in scripts if not re.search("/(?:templates|includes|static)/", name)]


def test_everything_of_the_lab_is_in_its_wheel(built: Path) -> None:
    names = names_in(built, "sojourn_lab")
    for name in (
        "py.typed", "scenarios/benchmark.toml", "playbooks/collector.toml", "k6/websocket.js",
        "backend/app.py", "backend/App.java", "backend/TomcatApp.java",
        "vector/config/agent.yaml",
        "middleware/php/auto_prepend.php", "middleware/php/src/Measurement.php",
        "middleware/ruby/lib/sojourn-middleware.rb", "middleware/ruby/lib/sojourn/stamp.rb",
        "middleware/node/package.json", "middleware/node/src/index.js",
        "middleware/java/src/main/java/sojourn/middleware/SojournFilter.java",
    ):  # fmt: skip
        assert f"sojourn_lab/{name}" in names
    assert {name.partition("/")[0] for name in names} == {
        "sojourn_lab", "sojourn_lab-0.1.0.dist-info", "sojourn_lab-0.1.0.data",
    }  # fmt: skip
    assert not [name for name in names if name.endswith((".pyc", ".nbi"))]


def test_sources_of_the_go_module_are_in_the_wheel_of_the_lab(built: Path) -> None:
    """Without the tests and the nested modules."""
    folder = "sojourn_lab/middleware/go/"
    packed = {name.removeprefix(folder) for name in names_in(built, "sojourn_lab") if name.startswith(folder)}
    sources = {file.name for file in (ROOT / "collector/middleware/go").glob("*.go")}
    assert packed == {name for name in sources if not name.endswith("_test.go")} | {"go.mod"}


def test_every_command_has_a_manual_page(built: Path) -> None:
    for distribution, pages in (("sojourn", manual.pages()), ("sojourn_lab", {"sojourn-lab.1": manual.lab_page()})):
        folder = f"{distribution}-0.1.0.data/data/share/man/man1/"
        (wheel,) = built.glob(f"{distribution}-*.whl")
        with zipfile.ZipFile(wheel) as opened:
            packed = {
                name.removeprefix(folder): opened.read(name).decode()
                for name in opened.namelist()
                if name.startswith(folder)
            }
        assert packed == pages


def test_sources_of_the_wheels_are_copied_into_the_image() -> None:
    """A folder that is not copied there would let the image's build fail."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    sources = {*wheel["packages"], *wheel["force-include"], *SHARED, GO, "lab/sojourn_lab"}
    sources |= {"hatch_build.py", "docs/sojourn_docs", "docs/reference/configuration.md"}  # what hooks read
    docker = (ROOT / "lab/images/Dockerfile").read_text()
    copied = re.findall(r"^COPY (.*) /src/project(?:/(\S*))?$", docker, re.M)
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for folders in ([each for line, _ in copied for each in line.split()], let_in):
        assert {each for each in sources if not any(f"{each}/".startswith(f"{one}/") for one in folders)} == set()


def test_the_distributions_of_the_checkout_have_one_version() -> None:
    projects = [tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "lab")]
    assert projects[0]["version"] == projects[1]["version"]
    assert projects[0]["optional-dependencies"]["lab"] == [f"sojourn-lab>={projects[1]['version']}"]
    assert f"sojourn[charts,compiled]>={projects[0]['version']}" in projects[1]["dependencies"]


def test_this_version_has_its_notes() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (ROOT / f"docs/releases/{version}.md").read_text().startswith(f"# Sojourn {version}\n")
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "Unreleased" or headings[0] == version


def test_source_archive_has_sources_tests_and_docs(built: Path) -> None:
    (archive,) = built.glob("sojourn-*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    for name in (
        "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "docs/examples/shop.jsonl.gz", "tests/conftest.py",
        "analysis/notebooks/first_analysis.py", "docs/releases/0.1.0.md",
    ):  # fmt: skip
        assert name in names
    assert not [
        name for name in names if name.startswith(("runs/", ".venv", ".tools", "site/")) or "__pycache__" in name
    ]


def test_the_command_works_from_the_wheels_alone(installed: Path, tmp_path: Path) -> None:
    """Run from elsewhere: verbs, the lab's scenarios, the manual."""
    where = run(
        installed,
        tmp_path,
        "python",
        "-c",
        "import sojourn, sojourn_lab; print(sojourn.__file__, sojourn_lab.__file__)",
    )
    assert str(ROOT) not in where.stdout
    assert where.stdout.count(str(installed)) == 2
    (tmp_path / "a.jsonl").write_text(LINE * 3)
    for arguments, words in (
        (["split", "a.jsonl", "--json", "--parquet", "a.parquet"], '"requests": 3'),
        (["lab", "list"], "benchmark"),
        (["doctor", "--help"], "nginx"),
        (["--version"], "polars"),
        (["config"], "no configuration file"),
    ):
        done = run(installed, tmp_path, "sojourn", "--no-config", *arguments)
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
        assert str(ROOT) not in done.stdout + done.stderr
    for page in ("sojourn.1", "sojourn-split.1", "sojourn-lab.1"):
        assert ".TH" in (installed / "share/man/man1" / page).read_text()


def test_the_base_wheel_alone_names_the_command_that_installs_the_lab(
    built: Path, installed: Path, tmp_path: Path
) -> None:
    base = tmp_path / "venv"
    venv.create(base, with_pip=False, symlinks=True)
    install(base, *built.glob("sojourn-*.whl"))
    # Beside it the dependencies, where an entry point of the lab is installed: only the modules are visible.
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith(("sojourn", "_editable_impl", "__editable__")):
            (dependencies / each.name).symlink_to(each)
    (site_packages(base) / "dependencies.pth").write_text(f"{dependencies}\n")
    done = run(base, tmp_path, "sojourn", "--no-config", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert " split " in done.stdout
    assert " lab " not in done.stdout
    done = run(base, tmp_path, "sojourn", "--no-config", "lab", "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"sojourn: {missing_package('sojourn-lab', 'sojourn lab', 'lab')}\n"


def test_a_page_of_the_doctor_is_in_the_package(installed: Path, tmp_path: Path) -> None:
    codes = re.findall(r"^### ([a-z][a-z0-9-]*)$", (ROOT / "docs/reference/doctor.md").read_text(), re.M)
    done = run(installed, tmp_path, "sojourn", "doctor", "--explain", codes[0])
    assert done.returncode == 0, done.stderr
    assert codes[0] in done.stdout


# Hides every module that is not among the dependencies, as if nothing else were installed.
BARE = """
import json, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

hidden = set(json.loads(sys.argv.pop(1)))
sys.meta_path.insert(0, Hidden())
from sojourn.cli import main
main()
"""


def hidden_modules(installed: Path) -> list[str]:
    """Top-level modules of what is there and is no dependency of a bare ``pip install .``."""
    (own,) = distributions(name="sojourn", path=[str(site_packages(installed))])
    wanted: set[str] = set()
    to_see = [*_plain(own.requires)]
    while to_see:
        name = _normal(to_see.pop())
        if name not in wanted:
            wanted.add(name)
            with contextlib.suppress(PackageNotFoundError):  # for another Python or system
                to_see += _plain(requires(name))
    kept = {"sojourn", "sojourn_lab", "_distutils_hack", "setuptools", "pkg_resources"}
    return [
        module
        for module, owners in packages_distributions().items()
        if module not in kept and not wanted & {_normal(each) for each in owners}
    ]


def _plain(needed: list[str] | None) -> list[str]:
    """Names of what is needed without any extra."""
    each = [Requirement(text) for text in needed or ()]
    return [one.name for one in each if one.marker is None or one.marker.evaluate({"extra": ""})]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_a_bare_install_starts_and_names_the_extra_that_is_missing(installed: Path, tmp_path: Path) -> None:
    hidden = hidden_modules(installed)
    assert {"chdb", "scapy", "aiohttp", "pytest", "numba", "altair", "PIL", "pyarrow", "scipy"} <= set(hidden)
    assert not {"polars", "duckdb", "numpy", "typer", "rich", "textual", "msgspec"} & set(hidden)
    (tmp_path / "a.jsonl").write_text(LINE * 3)

    def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run(installed, tmp_path, "python", "-c", BARE, json.dumps(hidden), "--no-config", *arguments)

    for arguments in (["--help"], ["split", "a.jsonl"], ["split", "a.jsonl", "--parquet", "bare.parquet"]):
        done = bare(*arguments)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "bare.parquet").stat().st_size > 1_000
    for arguments, extra in (
        (["split", "a.jsonl", "--html", "bare.html"], "charts"),
        (["simulate", "--arrivals", "poisson:8", "--service", "exponential:0.1", "--requests", "1000"], "compiled"),
        (["store", "init", f"chdb://{tmp_path}/store"], "store"),
        (["store", "init", "clickhouse://127.0.0.1:1/x"], "store"),
        (["capture", "--port", "80", "--sniffer", "scapy", "--out", "f.pcap"], "capture"),
    ):
        done = bare(*arguments)
        assert done.returncode == 1, (arguments, done.stderr)
        assert f"'.[{extra}]'" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_the_middleware_depends_on_nothing(built: Path) -> None:
    (wheel,) = built.glob("sojourn_middleware-*.whl")
    metadata = next(n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert not [line for line in text.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
