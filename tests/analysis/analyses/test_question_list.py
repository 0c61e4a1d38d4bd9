"""The list of questions: whatever is in it is a command, a function, a section of the report, a page of the docs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import sojourn
from sojourn.analyses import question, questions

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "docs/examples/shop.jsonl.gz"

# A question in a folder of its own.
MADE_UP = {
    "__init__.py": """
from sojourn.analyses.question import Question

QUESTION = Question(
    package=__name__,
    name="uploads",
    asks="How long did requests take to be read?",
    needs="the stamp",
    example="docs/examples/shop.jsonl.gz",
    title="How long uploads took",
)
""",
    "run.py": '''
from __future__ import annotations

from dataclasses import dataclass

from sojourn.model.result import Result
from sojourn.sources.opening import RequestsLike, requests_from


@dataclass(frozen=True, repr=False)
class Uploads(Result):
    """Seconds spent reading requests."""

    seconds: float

    def to_dict(self) -> dict[str, float]:
        """The JSON object."""
        return {"seconds": self.seconds}


def uploads(requests: RequestsLike) -> Uploads:
    """Sum the time that nginx took to read requests from clients."""
    return Uploads(float(requests_from(requests).rows.collect()["upload"].sum()))
''',
    "section.py": """
from __future__ import annotations

from made_up_question.run import Uploads, uploads
from sojourn.analyses.question import ReportContext
from sojourn.present.display import lay_out
from sojourn.present.section import Section


@lay_out.register(Uploads)
def uploads_section(result: Uploads) -> Section:
    return Section("uploads", "How long uploads took", f"Requests were read for {result.seconds:.3f} s in all.")


def report_section(context: ReportContext) -> Section:
    return uploads_section(uploads(context.requests))
""",
    "command.py": '''
from __future__ import annotations

from sojourn.invocation.answer import answer
from sojourn.invocation.options import AsJson, Quiet, Sources
from sojourn.invocation.reading import requests_of


def uploads(sources: Sources, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Sum the time that nginx took to read requests."""
    from made_up_question.run import uploads as run

    answer(run(requests_of(sources, quiet=quiet)), as_json=as_json)
''',
}
SCRIPT = """
import contextlib, io, json, sys
from sojourn import analyses
analyses.register("made_up_question")
import sojourn
from sojourn.cli import app
from sojourn_docs import commands, json_keys, manual, python_page
from typer.testing import CliRunner

log, page = sys.argv[1:]
run = lambda *arguments, **env: CliRunner(env={"COLUMNS": "100", **env}).invoke(app, list(arguments)).output
written = sojourn.write_report(log, page)
print(json.dumps({
    "help": run("--help"),
    "own help": run("uploads", "--help"),
    "printed": run("uploads", log),
    "json": json.loads(run("uploads", log, "--json")),
    "api": sojourn.uploads(log).seconds,
    "listed": "uploads" in sojourn.__all__ and "uploads" in dir(sojourn),
    "sentence": str(sojourn.uploads(log)),
    "completed": run(_SOJOURN_COMPLETE="complete_bash", COMP_WORDS="sojourn upl", COMP_CWORD="1"),
    "commands.md": commands.page(),
    "json.md": json_keys.section("uploads"),
    "python.md": python_page.page(),
    "man": sorted(manual.pages()),
}))
"""


def test_a_folder_is_enough_for_a_question(tmp_path: Path) -> None:
    folder = tmp_path / "made_up_question"
    folder.mkdir()
    for name, text in MADE_UP.items():
        (folder / name).write_text(text)
    page = tmp_path / "report.html"
    paths = [str(tmp_path), str(ROOT / "docs"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SHOP), str(page)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    seconds = float(sojourn.split(SHOP).rows.collect()["upload"].sum())
    assert seen["api"] == seconds
    assert seen["json"] == {"seconds": round(seconds, 9)}
    sentence = f"Requests were read for {seconds:.3f} s in all."
    assert seen["sentence"] == sentence
    assert sentence in seen["printed"]
    text = page.read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert sentence in text
    assert "How long uploads took" in text
    assert re.search(r"^  uploads +Sum the time that nginx took to read requests\.$", seen["help"], re.M)
    assert "SOURCE..." in seen["own help"]
    assert seen["listed"]
    assert seen["completed"].split() == ["uploads"]
    assert "## sojourn uploads" in seen["commands.md"]
    assert "How long did requests take to be read? Needs: the stamp." in seen["commands.md"]
    assert "| `seconds` | number |" in seen["json.md"]
    assert "| `uploads(requests)` | Sum the time that nginx took to read requests from clients. |" in seen["python.md"]
    assert "sojourn-uploads.1" in seen["man"]


def test_every_question_has_its_rooms() -> None:
    for each in questions():
        assert callable(each.load("command", each.name))
        assert all(callable(each.load(module, name)) for name, module in each.public.items())
        assert not each.title or callable(each.load("section", "report_section"))
        assert each.asks.endswith("?")
        assert question(each.name) is each
