"""The split as part of an HTML page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sojourn.analyses.split.pictures import split_pictures
from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.table import audit_sentence, clock_sentence, read_sentence
from sojourn.model.formatting import listed, printable
from sojourn.model.redaction import displayed_line
from sojourn.model.verdict import queueing_seconds
from sojourn.present.page import Page, Part, SplitPart
from sojourn.present.section import Section

REJECT_ROWS = 50
MOST_NAMES = 3  # in a title
MOST_SERVICES = 1_000
MOST = 0.5  # of everything else
WORTH = 0.1  # of all seconds: less unknown time is not named


def write_split_page(result: SplitResult, path: str | os.PathLike[str], sections: Sequence[Section] = ()) -> None:
    """Write the HTML page of a split, whole or not at all; ``sections`` follow the split.

    Raises:
        SojournError: the file cannot be written.
    """
    Page(split=split_part(result), sections=sections).write(path)


def split_part(result: SplitResult) -> SplitPart:
    """Return the split as an HTML page shows it."""
    text = audit_sentence(result).removeprefix("Audit: ")
    return SplitPart(
        result=result,
        pictures=split_pictures(result),
        parts=_parts(result),
        read=read_sentence(result),
        audit=text[:1].upper() + text[1:],
        clocks=clock_sentence(result),
        rejects=[{**reject, "raw": displayed_line(reject["raw"])} for reject in result.records.rejects[:REJECT_ROWS]],
        title=_title(result),
    )


def _title(result: SplitResult) -> str:
    """Return the services, most seconds first; without any, the names of the sources without their folders."""
    rows, _ = result.measures.grouped("service", MOST_SERVICES)
    names = [printable(row["service"], 60) for row in rows if row["service"]]
    if not names:
        names = [printable(name if "://" in name else Path(name).name or name, 60) for name in result.names]
    if len(names) > MOST_NAMES:
        names = [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1:,} more"]
    return listed(names)


def _parts(result: SplitResult) -> list[Part]:
    """Return the mean response time in three parts; a negative part (clock error) has no width.

    A part that is negative within the uncertainty of the clocks is left out.
    """
    total = sum(result.means.values())
    if total <= 0:
        return []
    unknown = result.means["unattributed"]
    if result.queueing_share is None:
        shares = {"unknown": unknown, "known": total - unknown}
        return [Part(name, "other", value, value / total) for name, value in shares.items() if value > 0]
    queueing = queueing_seconds(result.means)
    service = result.means["service_time"]
    rest = total - queueing - service
    other = (
        "everything else, most of it unknown"
        if unknown > MOST * rest and unknown > WORTH * total
        else "everything else"
    )
    seconds = {f"queueing delay{result.mark}": queueing, f"service time{result.mark}": service, other: rest}
    drawn_total = sum(max(value, 0.0) for value in seconds.values())
    colours = ("queueing", "service", "other")
    return [
        Part(name, colour, value, max(value, 0.0) / drawn_total)
        for (name, value), colour in zip(seconds.items(), colours, strict=True)
        if not -result.uncertainty <= value < 0
    ]
