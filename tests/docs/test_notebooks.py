"""The notebooks run on the example data, and say what the data say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# Collecting the tests does not load it, which takes longer than the rest of this folder.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("marimo") is None, reason="marimo is not installed")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "analysis/notebooks"


def module_of(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"notebook_{name}", NOTEBOOKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ran(name: str) -> tuple[list[str], dict[str, Any]]:
    """What the cells of a notebook show, as HTML, and what they define."""
    import marimo  # noqa: PLC0415

    outputs, definitions = module_of(name).app.run()
    return [marimo.as_html(each).text for each in outputs if each is not None], dict(definitions)


def test_there_are_the_four_that_are_tested_here() -> None:
    assert {file.stem for file in NOTEBOOKS.glob("*.py")} == {
        "first_analysis", "distributions_for_a_paper", "what_if_study", "lab_study",
    }  # fmt: skip


def test_first_analysis() -> None:
    shown, result = ran("first_analysis")
    assert result["result"].verdict.cause == "queueing"
    assert result["blame"].culprits["culprit"][0] == "/export"
    assert result["whatif"].variants
    page = "".join(shown)
    assert page.count("<marimo-mime-renderer") == 4  # the charts
    assert str(result["whatif"])[:20] in page


def test_distributions_for_a_paper(tmp_path: Path) -> None:
    _, result = ran("distributions_for_a_paper")
    table = result["table"]
    assert len(table) == 9
    assert (table["from"] <= table["seconds"]).all()
    assert (table["seconds"] <= table["to"]).all()
    p99 = table.filter(quantile="p99").row(0, named=True)
    assert p99["seconds"] == pytest.approx(result["result"].response_time["p99"], rel=0.01)
    assert "3,087 requests over 164 s" in result["methods"]
    assert set(result["figures"]) == {"ccdf", "percentiles", "hexbin", "heatmap", "ridgeline"}
    result["plots"].save(result["figures"]["ccdf"], tmp_path / "ccdf.pdf")
    assert (tmp_path / "ccdf.pdf").read_bytes()[:5] == b"%PDF-"


def test_what_if_study() -> None:
    _, result = ran("what_if_study")
    assert not result["replayed"].refused
    assert result["carried"]["p99 (s)"].is_sorted()
    curve = result["curve"]
    assert ((curve["simulated wait (s)"] / curve["Erlang C (s)"] - 1).abs() < 0.05).all()
    assert result["capacity"].knees


def test_lab_study() -> None:
    shown, result = ran("lab_study")
    crowded = result["table"].filter(case="c8-s300").row(0, named=True)
    assert crowded["service"] == pytest.approx(300, rel=0.05)
    assert crowded["queueing"] == pytest.approx(crowded["queueing by the law"], rel=0.05)
    assert crowded["response in the article"] == 2200
    assert result["result"].requests == 679
    assert "28 of 28 criteria passed" in "".join(shown)


@pytest.mark.thorough
def test_a_notebook_is_a_script_too_and_marimo_finds_nothing_to_mend() -> None:
    """One of them as its own process; given a run of one's own by its option."""
    run = ROOT / "docs/examples/benchmark-run"
    script = [sys.executable, str(NOTEBOOKS / "lab_study.py"), "--", "--run", str(run)]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    files = sorted(map(str, NOTEBOOKS.glob("*.py")))
    checked = subprocess.run(
        [sys.executable, "-m", "marimo", "check", "--strict", *files],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (checked.returncode, checked.stdout.strip()) == (0, ""), checked.stdout + checked.stderr
