"""Outputs for a log without redaction: paths, and no query."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
from pathlib import Path

import pytest
from sojourn.cli import main
from sojourn.model.redaction import SWITCH

SECRET = "s3cr3t-t0k3n"
ADDRESS = "203.0.113.77"
SHOP = Path(__file__).parents[3] / "docs/examples/shop.jsonl.gz"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Part of the example log with a secret in every query, and a line that cannot be read."""
    produced = tmp_path / "whole.jsonl"
    with gzip.open(SHOP, "rt") as lines, produced.open("w") as out:
        for _, line in zip(range(600), lines, strict=False):
            record = json.loads(line)
            out.write(json.dumps({**record, "uri": f"{record['uri']}?token={SECRET}", "remote_addr": ADDRESS}) + "\n")
        out.write(f'{{"uri":"/a?token={SECRET}","remote_addr":"{ADDRESS}"\n')
    return produced


def said(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", ["sojourn", "--no-config", *arguments])
    with contextlib.suppress(SystemExit):
        main()
    return "".join(capfd.readouterr())


@pytest.mark.parametrize("arguments", [["blame", "{log}", "--json"], ["doctor", "{log}"]])
def test_no_query_is_shown(
    arguments: list[str], log: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = said([each.format(log=log) for each in arguments], monkeypatch, capfd)
    assert len(text) > 200
    assert SECRET not in text
    assert ADDRESS not in text


def test_no_query_is_in_a_report(log: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    said(["report", str(log), "--html", f"{log}.html"], monkeypatch, capfd)
    page = Path(f"{log}.html").read_text()
    assert "invalid_json" in page
    assert SECRET not in page
    assert ADDRESS not in page


def test_the_switch_shows_it(log: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(SWITCH, "off")
    assert SECRET in said(["blame", str(log), "--json"], monkeypatch, capfd)
