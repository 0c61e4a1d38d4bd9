"""Print the result of an analysis."""

from __future__ import annotations

import json
import sys
from typing import Any

from sojourn.invocation.progress import pipe_closed_early_is_fine
from sojourn.model.formatting import rounded


def answer(result: Any, *, as_json: bool) -> None:
    """Print a result, as JSON or as text."""
    if as_json:
        print_json(result.to_dict())
        return
    from sojourn.present.display import section_of  # noqa: PLC0415 - with pages and drawings
    from sojourn.present.terminal import show  # noqa: PLC0415 - rich takes its time to load

    show(section_of(result))


def print_json(values: dict[str, Any]) -> None:
    """Print plain values as one JSON object; floats are rounded to a nanosecond's digits."""
    with pipe_closed_early_is_fine():
        json.dump(rounded(values), sys.stdout, indent=2)
        sys.stdout.write("\n")
