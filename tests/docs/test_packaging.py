"""The wheels hold what they need to work without a checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    for project in (HOUSE, HOUSE / "collector/middleware/python"):
        done = subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(project)],
            capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_everything_is_in_the_wheel(built: Path) -> None:
    (wheel,) = built.glob("sojourn-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "sojourn/py.typed", "sojourn/report/templates/report.html", "sojourn_lab/scenarios/benchmark.toml",
        "sojourn/store/schema/010_requests.sql",
        "sojourn_lab/nginx/sojourn.conf", "sojourn_lab/nginx/sojourn.js", "sojourn_lab/backend/app.py",
        "sojourn_lab/middleware/ruby/sojourn.rb",
    ):  # fmt: skip
        assert name in names
    assert not [name for name in names if name.startswith(("tests", "docs"))]


def test_the_command_works_from_the_wheels_alone(built: Path, tmp_path: Path) -> None:
    """Unpacked somewhere else, ahead of the checkout: lists its scenarios and splits a log."""
    for wheel in built.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "a.jsonl").write_text('{"time":"1767225600.000","request_time":"0.1","status":"200"}\n')
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from sojourn.cli import main; import sojourn, sojourn_lab; "
    )
    code += "print(sojourn.__file__, sojourn_lab.__file__, file=sys.stderr); main()"
    for arguments, words in ((["lab", "list"], "benchmark"), (["split", "a.jsonl"], "1 requests")):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "site"), *arguments],
            capture_output=True, text=True, check=False, cwd=tmp_path, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert words in done.stdout
        assert str(HOUSE) not in done.stderr.replace(str(tmp_path), "")


def test_the_middleware_depends_on_nothing(built: Path) -> None:
    (wheel,) = built.glob("sojourn_middleware-*.whl")
    metadata = next(n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert not [line for line in text.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
