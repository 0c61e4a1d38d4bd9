"""What distinguishes the selected requests of a view, and which requests held the workers meanwhile."""

from __future__ import annotations

import math
import shlex
from typing import Any

from sojourn.analyses.contrast.run import contrast
from sojourn.analyses.contrast.section import contrast_section
from sojourn.model.instants import of_epoch_us
from sojourn.serve.session import Session
from sojourn.serve.view import View, command_of, iso

MOST_ROWS = 15  # of each list


def compared(session: Session, view: View, selection: View) -> dict[str, Any]:
    """Compare the selected requests of a view with the others.

    Args:
        session: the requests.
        view: whose requests are compared; all requests hold workers.
        selection: whose area selects them.

    Returns:
        Values of the result as ``sojourn contrast --json`` has them, with at most ``MOST_ROWS`` rows in each list,
        ``sentence``, ``failures`` and ``command``.

    Raises:
        SojournError: no request is selected, or all are, or the view has several values of a column.
    """
    session.check_size(view, "{} are compared")
    area, columns = selection.area, session.options.columns
    result = contrast(
        session.requests_of(view),
        begin=of_epoch_us(area.begin),
        end=of_epoch_us(area.end),
        above=area.low or None,
        below=None if math.isinf(area.high) else area.high,
        column=columns,
        workers=session.workers,
    )
    values, section = result.to_dict(), contrast_section(result)
    words = ["--begin", iso(area.begin), "--end", iso(area.end)]
    words += [] if not area.low else ["--above", f"{area.low:g}"]
    words += [] if math.isinf(area.high) else ["--below", f"{area.high:g}"]
    words += [word for name in columns for word in ("--column", name)]
    command = command_of("contrast", session.options, view)
    return {
        **values,
        **{name: values[name][:MOST_ROWS] for name in ("differences", "culprits")},
        "more": {name: max(len(values[name]) - MOST_ROWS, 0) for name in ("differences", "culprits")},
        "sentence": section.sentence,
        "failures": list(section.failures),
        "command": f"{command} {shlex.join(words)}",
    }
