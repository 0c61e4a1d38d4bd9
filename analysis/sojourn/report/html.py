"""The page of a split and its analyses."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.split.page import split_part
from sojourn.analyses.split.result import SplitResult
from sojourn.present.page import Page
from sojourn.present.section import Picture, Section
from sojourn.report.short import in_short


def report_page(
    result: SplitResult | None,
    *,
    title: str | None = None,
    sections: Sequence[Section] = (),
    lead: Section | None = None,
    opening: Sequence[Picture] = (),
) -> Page:
    """Return the report of a split.

    Args:
        result: the split to show; None where ``lead`` is all there is.
        title, sections, lead, opening: as of ``sojourn.present.page.Page``.
    """
    return Page(
        split=None if result is None else split_part(result),
        title=title or "",
        sections=sections,
        lead=lead,
        opening=opening,
        short=[] if result is None or lead is not None else in_short(result, sections),
    )
