"""Every nginx snippet of the documentation that stamps replaces a client's values of the other headers, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from recipe_support import ROOT
from sojourn.doctor.nginx_headers import GUARDED, header_name

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "SECURITY.md", "nginx/README.md", "nginx/sojourn_proxy.conf")),
    *sorted((ROOT / "collector").rglob("README.md")),
]
LINE = re.compile(r"^\s*(?:proxy|grpc)_set_header\s+(\S+)|^\s*(?:uwsgi|fastcgi|scgi)_param\s+(\S+)")
# Sections of the doctor's page about one line of a snippet, whose other lines are those of headers-pass.
ONE_LINE = {"stamp-twice", "stamp-from-client", "stamp-unit", "log-stamp"}


def snippets(page: Path) -> Iterator[tuple[str, set[str]]]:
    """The section and the headers of every block of lines that set a header."""
    section, names = "", set[str]()
    for line in [*page.read_text().splitlines(), "```"]:
        if line.startswith("#"):
            section = line.lstrip("# ")
        if (match := LINE.match(line)) is not None:
            names.add(header_name(match[1] or match[2]))
        elif names and line.strip().startswith("```"):
            yield section, names
            names = set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_snippet_that_stamps_sets_every_header(page: Path) -> None:
    for section, names in snippets(page):
        if "x-request-start" in names and not (page.name == "doctor.md" and section in ONE_LINE):
            # The template of ingress-nginx sets the id itself.
            own = {"x-request-id"} if section == "ingress-nginx" else set()
            assert names | own >= {header.name.lower() for header in GUARDED}, (section, names)
