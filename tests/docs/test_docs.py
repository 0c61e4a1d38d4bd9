"""What the documents say is what the code does: keys, reasons, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_blocks import pages
from sojourn.model.components import COMPONENTS
from sojourn.model.verdict import CAUSES
from sojourn.readers.record import KEYS, REASONS

ROOT = Path(__file__).parents[2]
PAGES = pages()


def code_words(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_0-9]+)`", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_has_a_target(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#", target):
            assert (page.parent / target.split("#")[0]).exists(), target


def logged_keys() -> list[str]:
    return re.findall(r"""'[{,]"([a-z_]+)":"\$""", (ROOT / "nginx/sojourn_variables.conf").read_text())


def test_nginx_the_reader_and_the_reference_name_the_same_keys() -> None:
    page = (ROOT / "docs/reference/record.md").read_text()
    table = page.split("## Stamps")[0]
    documented = {word for row in re.findall(r"^\| (`.*?) \|", table, re.M) for word in code_words(row)}
    assert set(logged_keys()) == set(KEYS) == documented
    assert len(logged_keys()) == len(set(logged_keys()))


def test_the_reference_has_every_reason_for_refusal() -> None:
    section = (ROOT / "docs/reference/record.md").read_text().split("## Reasons")[1]
    rows = re.findall(r"^\| (`.*?) \|", section, re.M)
    assert {word for row in rows for word in code_words(row)} == set(REASONS)


def test_the_explanation_has_every_component_and_the_reference_every_cause() -> None:
    explained = (ROOT / "docs/explanation/what-is-measured.md").read_text()
    assert set(re.findall(r"^\| `([a-z_]+)` \|", explained, re.M)) == set(COMPONENTS)
    reference = (ROOT / "docs/reference/split.md").read_text()
    for cause in CAUSES:
        assert cause in reference


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_guides_have_one_name_for_the_log_of_nginx(page: Path) -> None:
    calls = re.findall(r"(?:sojourn|/var/log/nginx/)[^`'\n]*?\baccess\.jsonl", page.read_text())
    assert not calls


def test_make_alone_lists_the_targets_of_the_readme() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("setup", "demo", "test", "lint", "format", "bench", "clean"):
        assert re.search(rf"^{target}:.*##", makefile, re.M), target
    assert {"demo", "test", "setup"} <= set(re.findall(r"`?make ([a-z]+)`?", (ROOT / "README.md").read_text()))


def test_requirements_carry_hashes_and_no_index() -> None:
    for name in ("run", "dev", "app"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        assert "://" not in text
        assert "index" not in re.findall(r"^--(\S+)", text, re.M)
        pins = re.findall(r"^[A-Za-z0-9_.\[\]-]+==\S+", text, re.M)
        assert len(pins) > 20
        assert text.count("--hash=sha256:") >= len(pins)
