"""Configuration of the static site: ``sphinx-build -b html -c docs . site``, from the project's Markdown files.

The pages are plain Markdown that is readable without the site. This file adds what only the site needs: the navigation,
from the four folders of ``docs``, and the docstrings below the page on Python. The site needs no network: it uses the
system's fonts.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

project = "Sojourn"
author = "The Sojourn authors"
copyright = author  # noqa: A001 - a name of Sphinx's
html_title = "Sojourn"
smartquotes = False  # two hyphens begin an option

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/README"
include_patterns = ["README.md", "*.md", "docs/**", "*/README.md", "collector/**", "lab/*/README.md", "dashboards/*.md"]
exclude_patterns = [
    ".*", "**/.*", "runs", "site", "dist", "build", "**/node_modules", "docs/sojourn_docs", "tests/*/**",
]  # fmt: skip
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # a language without colours is shown without

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_last_updated_fmt = None
# The summary of a hit would be fetched page by page, which browsers refuse for files on a disk.
html_show_search_summary = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#005a8c", "color-brand-content": "#005a8c"},
    "dark_css_variables": {"color-brand-primary": "#6fc0ee", "color-brand-content": "#6fc0ee"},
}

KINDS = {
    "Tutorial": "tutorial",
    "How-to": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
    "Decisions": "decisions",
}
PARTS = (
    "README", "nginx/README", "collector/README", "collector/middleware/README", "collector/middleware/python/README",
    "collector/middleware/ruby/README", "collector/middleware/php/README", "collector/middleware/node/README",
    "collector/middleware/go/README", "collector/middleware/java/README", "collector/vector/README",
    "collector/clickhouse/README", "analysis/README", "dashboards/README", "dashboards/prometheus",
    "dashboards/runbook", "lab/README", "lab/scenarios/README", "lab/playbooks/README", "docs/examples/README",
    "tests/README", "CONTRIBUTING", "SECURITY", "CHANGELOG",
)  # fmt: skip


def navigation() -> str:
    """Return hidden tables of contents: the four kinds, in the order of the front page, and the project's parts."""
    parts = []
    for caption, folder in KINDS.items():
        pages = [f"/docs/{folder}/{name}" for name in _ordered(folder)]
        pages += ["/docs/scale"] if folder == "explanation" else []
        parts.append(_toctree(caption, pages))
    releases = [f"/docs/releases/{page.stem}" for page in sorted((DOCS / "releases").glob("*.md"))]
    there = [f"/{part}" for part in PARTS if (ROOT / f"{part}.md").exists()]
    return "\n\n".join([*parts, _toctree("The parts", there + releases)])


def _ordered(folder: str) -> list[str]:
    front = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = re.findall(rf"\({folder}/([a-z0-9-]+)\.md\)", front)
    there = sorted(page.stem for page in (DOCS / folder).glob("*.md"))
    return sorted(there, key=lambda name: linked.index(name) if name in linked else len(linked))


def _toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])


def _complete(_app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == root_doc:
        source[0] += "\n" + navigation() + "\n"
    if docname == "docs/reference/python":
        from sojourn_docs.python_page import directives  # noqa: PLC0415 - it imports all of sojourn

        source[0] += "\n" + directives()


def _reread_all(*_: object) -> list[str]:
    # The content added to these two depends on other files.
    return [root_doc, "docs/reference/python"]


def _front_door(app: Sphinx, error: Exception | None) -> None:
    """Write ``index.html``, which forwards to the front page."""
    if error is None and app.builder.name == "html":
        door = f'<!doctype html><title>Sojourn</title><meta http-equiv="refresh" content="0; url={root_doc}.html">'
        (Path(app.outdir) / "index.html").write_text(f'{door}<a href="{root_doc}.html">Sojourn</a>\n', encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above to Sphinx's events; Sphinx calls this first."""
    app.connect("env-get-outdated", _reread_all)
    app.connect("source-read", _complete)
    app.connect("build-finished", _front_door)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
