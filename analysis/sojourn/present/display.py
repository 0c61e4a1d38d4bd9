"""Show the result of any analysis: find the section for its type, and lay it out."""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec

from sojourn.model.formatting import printable
from sojourn.present import notebook
from sojourn.present.section import Section

SENTENCE = 600  # characters of a finding, at most


@functools.singledispatch
def lay_out(result: object) -> Section:
    """Return the section of a result; each type registers its own with ``@lay_out.register`` in its ``section.py``.

    Raises:
        TypeError: no section is registered for this type.
    """
    raise TypeError(f"{type(result).__name__} is not the result of an analysis")


def section_of(result: object) -> Section:
    """Return the section of a result; ``section.py`` of the folder that defines its type is loaded on demand.

    Raises:
        TypeError: it is not the result of an analysis.
    """
    folder = type(result).__module__.rpartition(".")[0]
    if folder and find_spec(f"{folder}.section") is not None:
        import_module(f"{folder}.section")
    return lay_out(result)


def sentence_of(result: object) -> str:
    """Return the finding in one sentence, safe for a terminal."""
    return printable(section_of(result).sentence, SENTENCE)


def html_of(result: object) -> str:
    """Return the section as HTML for a notebook."""
    return notebook.html_of(section_of(result))
