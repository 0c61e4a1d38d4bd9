"""The explanations name what there is: formulas their functions, the index every page."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest
from docs_support import DOCS, KINDS, ROOT, links, pages
from sojourn.queueing import theory

FORMULAS = (DOCS / "explanation/formulas.md").read_text(encoding="utf-8")
FUNCTIONS = sorted(set(re.findall(r"`(sojourn\.[a-z_.0-9]+)`", FORMULAS)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_of_every_formula_exists(name: str) -> None:
    module, _, function = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), function))


def test_every_formula_has_a_source_and_a_function() -> None:
    rows = [row for row in FORMULAS.splitlines() if row.startswith("| ") and "---" not in row and "source |" not in row]
    assert len(rows) > 30
    for row in rows:
        *_, source, function = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip("| "))]
        assert re.search(r"\d{4}|ours|Linux|man 2|arithmetic|the same|\]\(", source), row
        assert re.fullmatch(r"`sojourn\.[a-z_.0-9]+`", function), row


def test_every_formula_of_theory_is_listed() -> None:
    public = {
        name
        for name, thing in vars(theory).items()
        if inspect.isfunction(thing) and thing.__module__ == theory.__name__ and name.endswith(("_wait", "_bound"))
    }
    assert {name for name in public if f"sojourn.queueing.theory.{name}" not in FORMULAS} == set()


def test_every_page_is_in_the_index() -> None:
    index = links(DOCS / "README.md")
    for kind in KINDS:
        assert {page.name for page in (DOCS / kind).glob("*.md")} <= {
            page.name for page in index if page.parent.name == kind
        }


def test_every_page_is_reached_from_the_front_page() -> None:
    start = (ROOT / "README.md").resolve()
    reached, wave = {start}, [start]
    while wave:
        values = {to for page in wave for to in links(page) if to.suffix == ".md" and to.exists()} - reached
        reached |= values
        wave = list(values)
    assert [page for page in pages() if page.resolve() not in reached] == []


def test_glossary_terms_are_sorted_and_unique() -> None:
    text = (DOCS / "explanation/glossary.md").read_text(encoding="utf-8")
    everything: list[str] = []
    for table in re.split(r"^## ", text, flags=re.M)[1:]:
        words = [word for word in re.findall(r"^\| ([^|]+?) \|", table, re.M) if word not in ("word", "---")]
        assert words == sorted(words, key=str.casefold)
        everything += words
    assert len(everything) == len(set(everything)) > 50


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(DOCS)))
def test_every_anchor_has_a_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        other = (page.parent / file).resolve() if file else page
        assert other.suffix != ".md" or anchor in _anchors(other), target


def _anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(
        re.findall(r'<a (?:id|name)="([^"]+)"', text)
    )
