"""The generated part of the documents. ``python -m sojourn_docs`` writes it from the code it speaks of."""

from __future__ import annotations

import textwrap

NOTE = "<!-- Written by python -m sojourn_docs: change the code it speaks of, and run that again. -->"


def paragraph(*parts: str) -> str:
    """Text in lines of no more than 120 characters, of which nothing is cut."""
    return textwrap.fill(" ".join(parts), 120, break_long_words=False, break_on_hyphens=False)
