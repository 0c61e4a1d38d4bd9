"""Whether the user's own app reports its times, so that its queueing delay and service time are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from sojourn.model.formatting import counted, percent

TimesKnown = Literal["measured", "partly", "inferred", "unknown"]


class AppTimes(msgspec.Struct):
    """Where queueing delay and service time of a case come from.

    Attributes:
        source: `measured`: the app reported both for every answer, `partly`: for some. `inferred`: for none, and the
            split infers its queue from nginx's log; `unknown`: nor that.
        answers: of the app, in the window.
        reported: of these, the answers with the app's times.
    """

    source: TimesKnown
    answers: int
    reported: int


def app_times_of(split: Mapping[str, Any] | None) -> AppTimes | None:
    """Return the source of a case's times by its split; None without answers of the app."""
    answers = {} if split is None else split["audit"]["known"]
    count = answers.get("answered", 0)
    if not count:
        return None
    reported = answers["by_stamp"] + answers["by_duration"]
    if reported:
        return AppTimes("measured" if reported >= count else "partly", count, reported)
    return AppTimes("inferred" if answers["inferred"] else "unknown", count, 0)


def app_times_sentence(several: Sequence[AppTimes]) -> str:
    """Return a sentence on the times of all cases; empty without any."""
    count, reported = sum(each.answers for each in several), sum(each.reported for each in several)
    if not count:
        return ""
    if reported >= count:
        return "The app reports its times: queueing delay and service time are measured."
    if reported:
        return (
            f"The app reports its times in {percent(reported / count)} of {counted(count, 'answer')}: of the others,"
            " queueing delay and service time are unknown."
        )
    where = "docs/how-to/your-own-app.md has the middleware that reports them"
    if any(each.source == "inferred" for each in several):
        return f"The app reports no times: its queueing delay and service time are inferred from nginx's log; {where}."
    return f"The app reports no times: its queueing delay and service time are unknown; {where}."


def note_on(metric: str, value: float | None, source: TimesKnown) -> str:
    """Return what a criterion's figure is without the app's times; empty where it needs none.

    `value`: of the figure; None: the split has none.
    """
    path = metric.rpartition(":")[2]
    if source == "measured" or not path.startswith("split."):
        return ""
    if value is None:
        return "not measured: the app reports no times"
    of_app = any(name in path for name in ("queueing", "service_time", "components.queue."))
    if source == "inferred" and of_app:
        return "inferred: the app reports no times"
    return "of the answers that have the app's times" if source == "partly" and of_app else ""
