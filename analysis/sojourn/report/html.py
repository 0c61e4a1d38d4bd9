"""The page of a split and what else was found."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sojourn.analyses.split.page import split_part
from sojourn.analyses.split.result import SplitResult
from sojourn.present.files import written_whole
from sojourn.present.page import page
from sojourn.present.section import Picture, Section
from sojourn.report.short import in_short


def write_html(
    result: SplitResult | None,
    path: str | os.PathLike[str],
    title: str | None = None,
    sections: Sequence[Section] = (),
    lead: Section | None = None,
    opening: Sequence[Picture] = (),
) -> None:
    """Write the report of a split, whole or not at all.

    Args:
        result: what to show; None where ``lead`` is all there is.
        path, title, sections, lead, opening: as of ``sojourn.present.page.write_page``.

    Raises:
        SojournError: the file cannot be written.
    """
    text = html(result, title, sections, lead, opening)
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


def html(
    result: SplitResult | None,
    title: str | None = None,
    sections: Sequence[Section] = (),
    lead: Section | None = None,
    opening: Sequence[Picture] = (),
) -> str:
    """Return the report as text; arguments as of ``write_html``."""
    return page(
        split=None if result is None else split_part(result),
        title=title,
        sections=sections,
        lead=lead,
        opening=opening,
        short=[] if result is None or lead is not None else in_short(result, sections),
    )
