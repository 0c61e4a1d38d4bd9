"""The generated pages of the documentation. ``python -m sojourn_docs`` writes them from the code they describe."""

from __future__ import annotations

import textwrap

NOTE = "<!-- Written by python -m sojourn_docs: change the code it documents, and run that again. -->"


def paragraph(*parts: str) -> str:
    """Return the parts joined and wrapped at 120 characters; words are not broken."""
    return textwrap.fill(" ".join(parts), 120, break_long_words=False, break_on_hyphens=False)
