"""What pages are made with: templates that escape whatever a log said, and data for a script to read."""

from __future__ import annotations

import json
from typing import Any

import jinja2


def templates_of(package: str) -> jinja2.Environment:
    """The templates of a package, in its folder ``templates``: escaping, and strict about names."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def script_json(value: Any, *, allow_nan: bool = True) -> str:
    """JSON for inside of a ``<script>``: no ``<`` in it that could end the element, whatever text the data hold.

    Raises:
        ValueError: a number is not finite, and that is not allowed.
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=allow_nan).replace("<", "\\u003c")
