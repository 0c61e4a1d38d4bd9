"""How the queueing delays of an analysis are known: measured, inferred from the log, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sojourn.components.inferred.backends import BackendInference
from sojourn.components.inferred.rows import inferred_note
from sojourn.estimation.inferred import INFERRED, LOWER_BOUND, REFUSED
from sojourn.model.coverage import APP_LOG
from sojourn.model.errors import SojournError
from sojourn.model.evidence import is_way_possible
from sojourn.model.formatting import counted, printable
from sojourn.model.measures import Measures
from sojourn.sources.open_requests import OpenedRequests
from sojourn.timeline.workers import FROM_INFERENCE

COLUMN = "queue_source"
PARTS = 4  # named in a sentence
ADVICE = (" add ", " give ")  # in a reason that says what helps
REMEDY = "To measure it, let the proxy stamp requests and the app report its times (docs/how-to/your-own-app.md)."


@dataclass(frozen=True)
class QueueSource:
    """How the queueing delays of the requests of an analysis are known.

    Attributes:
        requests: queue_source -> requests with it.
        inferred: the backends whose queue is inferred.
        marks: sentences that mark what is inferred; empty where everything is measured.
        gaps: sentences on the backends whose queue is neither measured nor inferred: the reason, and what to add.
        moved: sentences on the backends whose number of workers changed.
        bounds: names of the backends whose inferred queue is a lower bound.
        filtered: a sentence, if the rows of a frame are only some of the requests of their log; otherwise empty.
        way_in_doubt: how much of the mean wait may be the way to a backend, s (``sojourn.model.evidence``).
    """

    requests: dict[str, int] = field(default_factory=dict)
    inferred: frozenset[str | None] = frozenset()
    marks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    filtered: tuple[str, ...] = ()
    way_in_doubt: float = 0.0

    def word(self, backends: Sequence[str | None]) -> str:
        """Return how the waits at some backends are known, as an adjective."""
        inferred = self.inferred.intersection(backends)
        return "inferred" if inferred and inferred == set(backends) else "estimated" if inferred else "measured"


MEASURED = QueueSource()


def queue_source_of(requests: OpenedRequests, rows: pl.LazyFrame) -> QueueSource:
    """Return how the queueing delays of ``rows``, which are some of the requests, are known."""
    filtered = _filtered(requests)
    if not {COLUMN, "upstream"} <= set(rows.collect_schema().names()):
        return QueueSource(filtered=filtered)
    counts = rows.group_by(COLUMN).len().sort(COLUMN).collect(engine="streaming")
    inferred = rows.filter(pl.col(COLUMN) == INFERRED).select(pl.col("upstream").unique()).collect(engine="streaming")
    return QueueSource(
        requests=dict(counts.iter_rows()),
        inferred=frozenset(inferred["upstream"]),
        marks=_marks(inferred_note(rows), requests.inferred),
        gaps=gaps_of(requests),
        moved=tuple(_moved(each) for each in requests.inferred if each.result.windows and _is_inferred(each)),
        bounds=tuple(each.name for each in requests.inferred if each.result.verdict == LOWER_BOUND),
        filtered=filtered,
        way_in_doubt=requests.once("way in doubt", lambda: _way_in_doubt(requests.measures)),
    )


def _filtered(requests: OpenedRequests) -> tuple[str, ...]:
    if requests.log_requests is None:
        return ()
    size = int(requests.rows.select(pl.len()).collect().item())
    return (
        f"The frame has {size:,} of {counted(requests.log_requests, 'request')} of its log. Workers that the others "
        "held look free here, and waits for them look like waits for nothing. Pass all rows, and select by where=, "
        "since= and until=.",
    )


def _way_in_doubt(measures: Measures) -> float:
    return measures.means().evidence.way_in_doubt if is_way_possible(measures.clock) else 0.0


def _marks(note: str, inferred: tuple[BackendInference, ...]) -> tuple[str, ...]:
    """Return ``inferred_note``, and a sentence on the backends whose delays are at least what was inferred."""
    bounds = [each.name for each in inferred if each.result.verdict == LOWER_BOUND]
    bound = f"Those of {', '.join(bounds[:3])} are a lower bound: requests waited at least that long."
    return (note, *([bound] if bounds else [])) if note else ()


def slots(backends: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on what an inferred number of workers counts; ``backends``: rows of ``workers_table``."""
    inferred = [row for row in backends if row["source"] == FROM_INFERENCE]
    if not inferred:
        return []
    first = inferred[0]
    counts = f"The {counted(first['workers'], 'worker')} of {printable(first['upstream'] or 'the backend', 60)}"
    more = f" (and of {len(inferred) - 1} more)" if len(inferred) > 1 else ""
    return [
        f"{counts}{more} are places in which requests are served, and services contain the way to them. The log does "
        "not say what they are: workers, a limit in front of these (max_conns), or a pool behind the app. More workers "
        "help where the places are workers. Give --workers if you know their number."
    ]


def gaps_of(requests: OpenedRequests) -> tuple[str, ...]:
    """Return the sentences on waits that are unknown: of an app server's log, and where an inference was refused."""
    of_app = (APP_LOG,) if requests.of_app else ()
    return of_app + tuple(
        each.sentence if any(word in each.result.reason for word in ADVICE) else f"{each.sentence} {REMEDY}"
        for each in requests.inferred
        if not _is_inferred(each)
    )


def _moved(backend: BackendInference) -> str:
    """Return why averages over the whole log describe no backend whose number of workers changed."""
    windows = backend.result.windows
    parts = ", ".join(f"{each.workers} from {backend.at(each.begin):%Y-%m-%dT%H:%M:%SZ}" for each in windows[:PARTS])
    parts += f" and {len(windows) - PARTS} parts more" if len(windows) > PARTS else ""
    return (
        f"The number of workers of {backend.name} changed ({parts}), and the largest is used throughout: choose one "
        "part with --since and --until."
    )


def explained(error: SojournError, requests: OpenedRequests) -> SojournError:
    """Return an error about unknown queueing delays with the reasons why they could not be inferred."""
    if requests.of_app:
        return SojournError(f"the queueing delay is unknown. {APP_LOG}")
    reasons = " ".join(printable(sentence, 600) for sentence in gaps_of(requests))
    return SojournError(f"{error}. {reasons}") if reasons else error


def _is_inferred(backend: BackendInference) -> bool:
    return backend.result.verdict != REFUSED
