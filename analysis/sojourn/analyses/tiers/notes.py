"""Notes on incomplete or inconsistent spans, and how to correct them."""

from __future__ import annotations

from collections.abc import Mapping

from sojourn.model.formatting import counted, duration, percent


def notes_of(doubts: Mapping[str, float], visits: int, *, logged: bool) -> tuple[str, ...]:
    """Return a sentence for each kind of defect.

    Args:
        doubts: kind -> number of spans, visits, calls or lines.
        visits: number of visits.
        logged: whether the requests are those of a log.
    """
    notes = []

    def note(name: str, text: str) -> None:
        if doubts.get(name):
            notes.append(f"{int(doubts[name]):,} {text}")

    unknown = doubts.get("unknown_queueing", 0)
    if unknown:
        notes.append(
            f"{counted(int(unknown), 'visit')} ({percent(unknown / visits)}) without a queueing delay: the time "
            "between the start of the call and the visit is shown as waiting or network; the middleware records it"
        )
    other = "are not in the log" if logged else "have lost their parent, so their request is unknown"
    note("orphans", f"trees of spans {other}: they count for their services, not for the requests")
    note("log_rows_without_spans", "requests of the log have no span: not sampled, or outside the window")
    note("broken", "spans are on a cycle of parents or below one, and are left out")
    if doubts.get("cut"):
        notes.append(
            f"{counted(int(doubts['cut']), 'call ends', 'calls end')} after the calling visit (asynchronous calls, or "
            f"clocks that differ); {duration(doubts['cut_seconds'])} of them were cut off"
        )
    note("longer_than_their_call", "visits lasted longer than the call they answered; their network time is negative")
    note("negative_queueing", "queueing delays are below zero because clocks differ; they are not corrected")
    note("messages", "visits received a message: no request waits for them, so they are in no response")
    note("not_an_export", "lines are not OTLP exports and were skipped")
    note("invalid_span_time", "spans have no valid start and end, and are left out")
    note("no_id", "spans have no trace id or span id, and are left out")
    note("duplicates", "spans were delivered more than once, and count once")
    return tuple(notes)
