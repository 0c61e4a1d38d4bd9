"""The lines that make nginx log the times without which no queue can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from sojourn.model.formatting import counted, duration, printable, tally
from sojourn.model.frame import APP, TABLE, WHOLE, LogFacts, Records
from sojourn.readers.foreign_logs import IN_NGINX, TIMED, format_of_rejects, refused_as

OPENING = "This log cannot show queueing yet."
WHOLE_SECONDS = 1.0
_LINES = f"\n\n{indent(TIMED, '    ')}\n"


def lacks_times(formats: Sequence[LogFacts]) -> bool:
    """Return whether nginx wrote all these logs, each without the time of the upstream or with whole seconds only."""
    return bool(formats) and all(
        "nginx" in each.title
        and each.format != TABLE
        and each.vantage != APP
        and (each.vantage == WHOLE or each.step >= WHOLE_SECONDS)
        for each in formats
    )


def lines_to_add(mean: float, alternative: str) -> str:
    """Return the verdict on a log that ``lacks_times``: where to add lines, and behind an empty line the lines.

    Args:
        mean: mean response time, s.
        alternative: what else the times may be, as in ``sojourn.model.frame.LogFacts``; empty without a doubt.
    """
    doubt = f" The response times are {duration(mean)} on average ({alternative})." if alternative else ""
    return (
        f"{OPENING}{doubt} Add these lines to {IN_NGINX}; the queue is then inferred. Or run `sojourn install nginx`, "
        f"which also adds the stamp; it is then measured.{_LINES}"
    )


def refused_lines(records: Records) -> str:
    """Return why no line could be used, with the format of the refused lines, and for nginx the lines to add."""
    counts = f"{counted(records.read, 'line')} read, {records.rejected:,} refused ({tally(records.reasons)})"
    warnings = [text for facts in records.formats for text in facts.warnings]
    if warnings:
        return f"no request could be used: {counts}. {' '.join(warnings)}"
    hint = refused_as(records)
    form = format_of_rejects(records)
    if form is not None and form.fix == TIMED:
        return f"{OPENING} {printable(hint, 900)} {counts[0].upper()}{counts[1:]}. The lines for {IN_NGINX}:{_LINES}"
    if hint:
        return f"no request could be used: {counts}. {hint}"
    return (
        f"no request could be used: {counts}; sojourn doctor says what the log lacks, and --log-format names a format "
        "that is not recognised"
    )
