"""Print the result of an analysis."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sojourn.invocation.progress import pipe_closed_early_is_fine
from sojourn.model.formatting import rounded


def answer(result: Any, *, as_json: bool, doubts: Sequence[str] = ()) -> None:
    """Print a result, as JSON or as text; ``doubts``: about what it was computed from, in sentences."""
    if as_json:
        values = result.to_dict()
        print_json({**values, "doubts": list(doubts)} if doubts else values)
        return
    from sojourn.present.display import section_of  # noqa: PLC0415 - with pages and drawings
    from sojourn.present.terminal import show  # noqa: PLC0415 - rich takes its time to load

    section = section_of(result)
    show(replace(section, failures=(*doubts, *section.failures)))


def print_json(values: dict[str, Any]) -> None:
    """Print plain values as one JSON object; floats are rounded to a nanosecond's digits."""
    with pipe_closed_early_is_fine():
        json.dump(rounded(values), sys.stdout, indent=2)
        sys.stdout.write("\n")
