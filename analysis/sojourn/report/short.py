"""The summary of a report in three lines: cause, cost, remedy.

The lines repeat findings of the split and the sections: a section without a certain finding has no ``short``, and a
line from a section with a failed audit is marked as in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.split.page import MOST, WORTH
from sojourn.analyses.split.pictures import any_served
from sojourn.analyses.split.result import SplitResult
from sojourn.model.coverage import APP_LOG
from sojourn.model.formatting import counted, duration, formatted, listed
from sojourn.model.verdict import queueing_seconds
from sojourn.present.page import Line
from sojourn.present.section import Section

UNPREDICTED = ("No prediction", "Not available")  # begins of the sentence of a what-if without variants


def in_short(result: SplitResult, sections: Sequence[Section]) -> list[Line]:
    """Return the lines.

    They are empty without served requests, without the times of a queue, and without sections that add to the verdict.
    """
    by_key = {section.key: section for section in sections}
    if result.lacks_times or not any_served(result) or not by_key.keys() & {"blame", "whatif", "goodput"}:
        return []
    lines = [
        _line("Cause", _happened(result), by_key, "blame"),
        _line("Cost", _cost(result), by_key, "goodput"),
    ]
    if by_key.get("compare") and by_key["compare"].short:
        lines.insert(1, _line("Change", "", by_key, "compare"))
    whatif = by_key.get("whatif")
    if whatif is not None and whatif.short:
        lines.append(_line("Remedy", "", by_key, "whatif"))
    elif whatif is not None:
        unknown = whatif.sentence.startswith(UNPREDICTED)
        effect = "Unknown: no change could be replayed." if unknown else "No change has a certain effect."
        lines.append(Line("Remedy", effect, (_link(whatif),)))
    return lines


def _line(label: str, text: str, by_key: dict[str, Section], key: str) -> Line:
    section = by_key.get(key)
    if section is None or not section.short:
        return Line(label, text)
    return Line(label, f"{text} {section.short}".strip(), (_link(section),), bool(section.failures))


def _link(section: Section) -> tuple[str, str]:
    return section.key, section.title


def _happened(result: SplitResult) -> str:
    """Return where ten seconds of response time went, without technical terms."""
    means, total = result.means, sum(result.means.values())
    if total <= 0:
        return (
            f"{counted(result.requests, 'request was', 'requests were')} answered in less time than nginx can measure."
        )
    if result.queueing_share is None:
        if result.audit.known.of_app:
            return f"Unknown. {APP_LOG}"
        return "Unknown: the app reported no times, and the queue in front of it is not inferred."
    queueing = queueing_seconds(means)
    service, unknown = means["service_time"], means["unattributed"]
    rest = total - queueing - service
    where = "are unknown" if unknown > MOST * rest and unknown > WORTH * total else "elsewhere"
    parts = [
        f"{_tenths(queueing / total)} were spent in a queue in front of the app{result.mark}",
        f"{_tenths(service / total)} in the app's own work{result.mark}",
        f"{_tenths(rest / total)} {where}",
    ]
    if _tenths(rest / total) == "0.0" or -result.uncertainty <= rest < 0:
        del parts[-1]
    return f"Of every 10 seconds of response time, {listed(parts)}."


def _tenths(share: float) -> str:
    return formatted(share * 10, ".1f")


def _cost(result: SplitResult) -> str:
    slow = f"one in a hundred took {duration(result.response_time['p99'])} or longer"
    if result.queueing_share is None:
        return f"How long {counted(result.requests, 'request')} waited in a queue is unknown; {slow}."
    queued = queueing_seconds(result.means) * result.requests
    # Unknown waits count as 0.
    least = "at least " if result.sources.get("none") else ""
    return (
        f"{counted(result.requests, 'request')} spent {least}{duration(max(queued, 0.0))} in all waiting in a queue; "
        f"{slow}."
    )
