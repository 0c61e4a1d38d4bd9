"""Commands that the documents show without their output are run as well, on stand-ins for what they name.

Left out is what other tests run on real servers or what takes long: runs of the lab, recordings, predictions, reports.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from docs_blocks import blocks_of, pages, shell_of
from docs_commands import arguments_of, commands_in
from docs_support import DOCS
from sojourn.cli import app
from typer.testing import CliRunner

VERBS = ("split", "blame", "depth", "goodput", "clock", "store")
STORES = ("DSN", "chdb:///var/tmp/requests", "chdb:///tmp/store")
# What stands for something of one's own, or takes its time.
OWN = ("runs/", "clickhouse")
LEFT_OUT = {"FOLDER", "explain", "capacity", "T", "N", "-", "--html", "--agent"}
LINES = 400


def calls() -> Iterator[tuple[str, ...]]:
    """The calls of cheap verbs in the documents, each once, in order."""
    result: dict[tuple[str, ...], None] = {}
    for page in pages():
        for block in blocks_of(page):
            if block.kind in ("shell", "console"):
                for line in commands_in(shell_of(block)):
                    if line.partition(" ")[0] not in VERBS:
                        continue
                    words = tuple(arguments_of(line))
                    if not any(word.startswith(OWN) or word in LEFT_OUT for word in words):
                        result[words] = None
    yield from result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the documents name, a small log of each."""
    shutil.copytree(DOCS / "examples", tmp_path / "docs/examples")
    with gzip.open(DOCS / "examples/shop.jsonl.gz", "rb") as log:
        (tmp_path / "access.jsonl").write_bytes(b"".join(islice(log, LINES)))
    with gzip.open(DOCS / "examples/shop-spans.jsonl.gz", "rb") as spans:
        (tmp_path / "spans.jsonl").write_bytes(spans.read())
    (tmp_path / "gunicorn.log").write_text('[01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5000 r1 <12>\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_calls_shown_without_output_run(folder: Path, store_dsn: str) -> None:
    log = str(folder / "access.jsonl")
    stand_ins = {
        "/var/log/nginx/sojourn.jsonl": log,
        "/var/log/nginx/sojourn.jsonl*": f"{log}*",
        "/var/log/caddy/access.log": log,
        "/var/log/traefik/access.json": log,
        "LOG": log,
        "access.jsonl": log,
        "access.log": "docs/examples/plain.log.gz",
        "/var/log/nginx/access.log": "docs/examples/plain.log.gz",
    }
    stand_ins |= dict.fromkeys(STORES, store_dsn)
    runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "SOJOURN_CONFIG": ""})
    values = {
        tuple(stand_ins.get(word, word) for word in words): words for words in calls()
    }  # what comes to the same, once
    for stood_in, words in values.items():
        result = runner.invoke(app, stood_in)
        # The stand-ins are of one minute of 2026: another window holds none of them, and that is said.
        output = str(result.exception)
        assert result.exit_code == 0 or output.startswith(("no request", "the proxy's log has no request ids")), (
            f"sojourn {' '.join(words)}: {result.output} {output}"
        )
    assert len(values) > 12
