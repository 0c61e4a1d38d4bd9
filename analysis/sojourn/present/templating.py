"""Templates that escape texts, and JSON data for scripts."""

from __future__ import annotations

import json
from typing import Any

import jinja2


def templates_of(package: str) -> jinja2.Environment:
    """Return the templates of a package (folder ``templates``), with escaping and strict names."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def script_json(value: Any, *, allow_nan: bool = True) -> str:
    """Return JSON for a ``<script>`` element, without a ``<`` that could end the element.

    Raises:
        ValueError: a number is not finite and must be.
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=allow_nan).replace("<", "\\u003c")
