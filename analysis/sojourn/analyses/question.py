"""Describe a question: the command line, the API, the report and the reference are generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sojourn.present.section import Section
    from sojourn.sources.open_requests import OpenedRequests
    from sojourn.sources.traces import Traces


class Question(NamedTuple):
    """A question Sojourn answers; its folder holds everything about it.

    ``run.py`` has the function of the API, ``command.py`` the command (a function named as the command), ``section.py``
    the layout of the result and, for a question with a ``title``, ``report_section(context)``.

    Attributes:
        package: the folder, as Python names it.
        name: of the section in a report, the command, and the function in ``sojourn``.
        asks: the question in one sentence.
        needs: what the data must hold for an answer.
        example: what the command is given in the reference, on the example data.
        title: heading in the report; empty for a question that a report does not ask.
        columns: read besides what the components need.
        places: whether it places every request in time: of very many, a report answers it of a stretch.
        exports: names in ``sojourn`` -> module in the folder.
    """

    package: str
    name: str
    asks: str
    needs: str
    example: str
    title: str = ""
    columns: tuple[str, ...] = ()
    places: bool = False
    exports: Mapping[str, str] = MappingProxyType({})

    @property
    def public(self) -> Mapping[str, str]:
        """Names in ``sojourn`` -> module in the folder."""
        return self.exports or {self.name: "run"}

    def load(self, module: str, name: str) -> Any:
        """Return what a module of the folder defines; nothing is loaded before."""
        return getattr(import_module(f"{self.package}.{module}"), name)


class ReportContext(NamedTuple):
    """What a report gives every question.

    Attributes:
        requests: the split that the report is about.
        by: column that names victims and culprits, and divides wasted work and changes.
        workers: per backend, or the same for all; None: read off the worker values.
        slo: p99 of the response time that must hold, s.
        before: requests to compare with; None: no comparison.
        traces: spans of several services; None where there are none to follow.
    """

    requests: OpenedRequests
    by: str
    workers: int | Mapping[str, int] | None
    slo: float
    before: OpenedRequests | None = None
    traces: Traces | None = None

    def section(self, question: Question) -> Section | None:
        """Return the section of a question; None where it has nothing to look at.

        Raises:
            SojournError: these requests do not allow the analysis.
        """
        return question.load("section", "report_section")(self)
