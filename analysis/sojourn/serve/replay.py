"""The requests of a view replayed under another configuration, with the distributions side by side."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sojourn.analyses.whatif.run import whatif
from sojourn.analyses.whatif.section import sentence
from sojourn.analyses.whatif.variants import change_of
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.serve.session import Session
from sojourn.serve.view import View, command_of

MOST_SETTINGS = 20
LONGEST = 2_000  # characters of a key or a value
SELECTING = ("service", "upstream")
"""Dimensions whose values do not share workers; other filters of a view select no requests for a replay."""
FIGURES = (
    "requests", "measured", "replayed", "error", "grade", "refused", "forced", "workers", "others", "notes", "system",
)  # fmt: skip


def replayed(session: Session, view: View, body: Any) -> dict[str, Any]:
    """Replay the requests of a view: those of its window, at its services and upstreams.

    Args:
        session: the requests.
        view: whose window and filters select them.
        body: ``set``: key -> value of the changes, as of ``sojourn whatif --set``; empty: the usual changes.
            ``force``: predict even if the replay does not match the measurements.

    Returns:
        Values of the result as ``sojourn whatif --json`` has them, its ``sentence``, ``curves`` (name -> seconds and
        share of the requests that took longer, of the measured, the replayed and the best variant), and ``command``.

    Raises:
        ArgumentError: a setting is not valid.
        SojournError: there are too many requests, or they cannot be replayed.
    """
    settings, force = _checked(body)
    try:
        change_of(settings)
    except SojournError as error:
        raise ArgumentError(str(error)) from None
    session.check_size(view, "{} are replayed")
    requests = session.requests_of(view, SELECTING)
    result = whatif(requests, [settings] if settings else [], workers=session.workers, force=force)
    values = result.to_dict()
    curves = {"measured": result.measured_curve, "replayed": result.replayed_curve}
    if result.variants:
        curves["predicted"] = result.variants[0].curve
    where = {name: values for name, values in view.where.items() if name in SELECTING}
    command = command_of("whatif", session.options, View(view.area, where))
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return {
        **{name: values[name] for name in FIGURES},
        "variants": values["variants"],
        "withheld": values["withheld"],
        "sentence": sentence(result),
        "curves": {name: each._asdict() for name, each in curves.items()},
        "command": f"{command} {shlex.join([*words, *(['--force'] if force else [])])}".strip(),
    }


def _checked(body: Any) -> tuple[dict[str, str], bool]:
    """Return the settings and whether a prediction is forced.

    Raises:
        ArgumentError: the body has another form.
    """
    settings = body.get("set", {}) if isinstance(body, Mapping) else None
    if not isinstance(settings, Mapping) or len(settings) > MOST_SETTINGS:
        raise ArgumentError("the body is not an object whose set is an object")
    if not all(isinstance(text, str) and len(text) <= LONGEST for pair in settings.items() for text in pair):
        raise ArgumentError("set: a key or a value is not a text")
    return dict(settings), body.get("force") is True
