"""How a result shows itself: one sentence where it is printed, a small table where a notebook shows it.

Every result has a section, which a terminal and the report lay out; this is the same section, laid out once more. The
sections are loaded only when a result is shown: an analysis itself knows nothing of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.words import printable

if TYPE_CHECKING:
    from sojourn.sections.section import Section

SENTENCE = 600  # characters of a finding, at most


class Shown:
    """A result that says in a sentence what was found."""

    @property
    def section(self) -> Section:
        """The finding, its tables, its charts and what to know of it, as the report has them."""
        from sojourn.sections.of import section_of  # noqa: PLC0415 - see above

        return section_of(self)

    def __str__(self) -> str:
        return printable(self.section.sentence, SENTENCE)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def _repr_html_(self) -> str:
        from sojourn.sections.notebook import html_of  # noqa: PLC0415 - see above

        return html_of(self.section)
