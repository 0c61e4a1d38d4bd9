"""Texts of a trace and their numbers: names of slices by route, categories, outcomes, services."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sojourn.model.arrays import Ints
from sojourn.model.components import SERVER_ERROR
from sojourn.model.formatting import printable
from sojourn.perfetto.encoding import message, number, text
from sojourn.perfetto.packets import ANNOTATIONS
from sojourn.perfetto.schema import InternedData
from sojourn.timeline.classes import classes_of, named_column
from sojourn.timeline.phases import AFTER, BODY, READ
from sojourn.timeline.request_timelines import OUTCOME, OUTCOMES
from sojourn.timeline.services import Services
from sojourn.timeline.slices import CATEGORIES, TURNAROUND, Slices
from sojourn.timeline.visits import Visits

FAILED = "failed"  # answered with a status of 500 or above
OUTCOMES_AND_FAILED = (*OUTCOMES, FAILED)
RELEASED = "released"  # the category of instants at which arrows end
FORMS = ("{}", f"{{}} ({READ})", f"{{}} ({BODY})", f"{{}} ({AFTER})", "released by {}")
LONGEST = 200  # characters of a name
AT_ONCE = 1_000  # texts of a packet


@dataclass(frozen=True)
class Texts:
    """Numbers of texts.

    Attributes:
        names: of each slice.
        releases: of the instant at which the arrow from each request ends, n.
        categories: of each slice.
        outcome: of each request, index into ``OUTCOMES_AND_FAILED``, n.
        service: of each request, n; 0: the log has none.
        routes: by their codes.
        services: by their codes.
    """

    names: Ints
    releases: Ints
    categories: Ints
    outcome: Ints
    service: Ints
    routes: Sequence[str]
    services: Sequence[str]

    @classmethod
    def of(cls, visits: Visits, services: Services, slices: Slices) -> Texts:
        """Return the numbers of the texts of slices."""
        route, routes = classes_of(named_column(visits.rows, "route"))
        service, names = classes_of(visits.rows["service"])
        outcome = outcomes_of(visits, services)
        form = np.array([FORMS.index(f"{{}} ({each})") if each in (READ, BODY, AFTER) else 0 for each in CATEGORIES])
        numbers = 2 + form[slices.category] * len(routes) + route[slices.request]
        return cls(
            np.where(slices.category == CATEGORIES.index(TURNAROUND), 1, numbers),
            2 + (len(FORMS) - 1) * len(routes) + route,
            category_number(slices.category, outcome[slices.request]),
            outcome,
            np.where(visits.rows["service"].is_null().to_numpy(), 0, 1 + len(OUTCOMES_AND_FAILED) + service),
            routes,
            names,
        )

    @property
    def largest_name(self) -> int:
        """The largest number of a name."""
        return 1 + len(FORMS) * len(self.routes)

    @property
    def largest_text(self) -> int:
        """The largest number of an outcome or a service."""
        return len(OUTCOMES_AND_FAILED) + len(self.services)

    def name(self, iid: int) -> str:
        """Return the name with a number."""
        if iid == 1:
            return TURNAROUND
        form, route = divmod(iid - 2, len(self.routes))
        return FORMS[form].format(printable(self.routes[route], LONGEST))

    def interned(self, iids: Ints) -> Iterator[bytes]:
        """Yield the fields of ``InternedData`` of all texts, ``AT_ONCE`` in each; ``iids``: of the names that occur."""
        categories = [(1 + k, text) for k, text in enumerate(_categories())]
        values = [*OUTCOMES_AND_FAILED, *(printable(each, LONGEST) for each in self.services)]
        lists: list[tuple[int, list[tuple[int, str]]]] = [
            (InternedData.EVENT_CATEGORIES, categories),
            (InternedData.DEBUG_ANNOTATION_NAMES, list(enumerate(ANNOTATIONS, 1))),
            (InternedData.DEBUG_ANNOTATION_STRING_VALUES, list(enumerate(values, 1))),
            (InternedData.EVENT_NAMES, [(iid, self.name(iid)) for iid in iids.tolist()]),
        ]
        for field, entries in lists:
            for first in range(0, len(entries), AT_ONCE):
                yield b"".join(
                    message(field, number(InternedData.IID, iid), text(InternedData.TEXT, value))
                    for iid, value in entries[first : first + AT_ONCE]
                )


def outcomes_of(visits: Visits, services: Services) -> Ints:
    """Return the outcome of each request, an index into ``OUTCOMES_AND_FAILED``."""
    table = pl.DataFrame({"status": visits.rows["status"], "began": ~np.isnan(services.end)})
    coded = table.select(outcome=OUTCOME.cast(pl.Enum(OUTCOMES)).to_physical(), error=pl.col("status") >= SERVER_ERROR)
    outcome = coded["outcome"].to_numpy().astype(np.int64)
    return np.where((outcome == 0) & coded["error"].fill_null(False).to_numpy(), len(OUTCOMES), outcome)


def category_number(category: Ints, outcome: Ints) -> Ints:
    """Return the numbers of categories, of indices into ``CATEGORIES`` and ``OUTCOMES_AND_FAILED``."""
    return 2 + category + outcome * len(CATEGORIES)


def _categories() -> list[str]:
    """Return all categories, by their numbers from 1: the phase, and the outcome where a request was not served."""
    ends = ["", *(f",{outcome}" for outcome in OUTCOMES_AND_FAILED[1:])]
    return [RELEASED, *(f"{category}{end}" for end in ends for category in CATEGORIES)]
