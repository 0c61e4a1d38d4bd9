"""What a reader of the figures should know, and the step that mends it."""

from __future__ import annotations

from collections.abc import Mapping

from sojourn.model.formatting import counted, duration, percent


def notes_of(doubts: Mapping[str, float], visits: int, *, logged: bool) -> tuple[str, ...]:
    """Sentences about what was not as it should be."""
    found = []

    def say(name: str, text: str) -> None:
        if doubts.get(name):
            found.append(f"{int(doubts[name]):,} {text}")

    unknown = doubts.get("unknown_queueing", 0)
    if unknown:
        found.append(
            f"{counted(int(unknown), 'visit')} ({percent(unknown / visits)}) without a known queueing delay: what lies "
            "between such a call and its visit is shown as unknown, waiting or network; the middleware records it"
        )
    other = "are not in the log" if logged else "have lost their parent, so whose part they are is not known"
    say("orphans", f"trees of spans {other}: they count for their services, not for the requests")
    say("log_rows_without_spans", "requests of the log have no span here: not sampled, or another window")
    say("broken", "spans lie on a cycle of parents or below one, and are left out")
    if doubts.get("cut"):
        found.append(
            f"{counted(int(doubts['cut']), 'call reaches', 'calls reach')} beyond the visit that made them (not waited "
            f"for, or clocks that differ); {duration(doubts['cut_seconds'])} of them were cut off for its own time"
        )
    say("longer_than_their_call", "visits lasted longer than the call they answered; their network time is negative")
    say("negative_queueing", "queueing delays are below zero, which only clocks that differ can make; kept as they are")
    say("messages", "visits took a message: nobody waited for them, so they are in no response")
    say("not_an_export", "lines are no OTLP export and were passed over")
    say("invalid_span_time", "spans have no sound start and end, and are left out")
    say("no_id", "spans have no trace id or span id, and are left out")
    say("duplicates", "spans were delivered more than once, and count once")
    return tuple(found)
