"""What the tests of the documents share: where things are, and the pages there are."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KINDS = ("tutorial", "how-to", "reference", "explanation")

sys.path.insert(0, str(DOCS))  # sojourn_docs, which writes the generated pages


def pages() -> list[Path]:
    """Every Markdown page below docs/."""
    return sorted(DOCS.rglob("*.md"))


def links(page: Path) -> list[Path]:
    """The files that a page links to, within the project."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [(page.parent / target.split("#")[0]).resolve() for target in targets if not re.match(r"[a-z]+:|#", target)]
