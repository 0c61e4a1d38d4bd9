"""The base of every result: plain data with a one-sentence form and a notebook form.

A result knows nothing of sections, terminals and pages. The package ``sojourn`` names, once, the module that looks the
section of a result up by its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_display: list[Callable[[], Any]] = []


def display_with(load: Callable[[], Any]) -> None:
    """Set the function that displays results.

    Args:
        load: returns a module with ``section_of``, ``sentence_of`` and ``html_of``, each of a result. Called when a
            result is shown for the first time.
    """
    _display[:] = [load]


class Result:
    """The result of an analysis."""

    @property
    def section(self) -> Any:
        """The finding with its tables, charts and notes: a ``sojourn.present.section.Section``."""
        return _display[0]().section_of(self)

    def __str__(self) -> str:
        return _display[0]().sentence_of(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def _repr_html_(self) -> str:
        return _display[0]().html_of(self)
