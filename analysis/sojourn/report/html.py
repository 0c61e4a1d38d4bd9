"""The page of a split and its analyses."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.split.page import split_part
from sojourn.analyses.split.result import SplitResult
from sojourn.present.page import Page, SplitPart
from sojourn.present.section import Picture, Section
from sojourn.report.short import in_short


def report_page(
    result: SplitResult | None,
    *,
    title: str | None = None,
    split: SplitPart | None = None,
    sections: Sequence[Section] = (),
    lead: Section | None = None,
    opening: Sequence[Picture] = (),
) -> Page:
    """Return the report of a split.

    Args:
        result: the split; None: the page has only ``lead``.
        title: heading, as in ``sojourn.present.page.Page``.
        split: the part of the split; None: it is computed.
        sections: sections after the split.
        lead: first section.
        opening: pictures before the sentence of ``lead``.
    """
    return Page(
        split=split if split is not None or result is None else split_part(result),
        title=title or "",
        sections=sections,
        lead=lead,
        opening=opening,
        short=[] if result is None or lead is not None else in_short(result, sections),
    )
