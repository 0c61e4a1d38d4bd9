"""The little YAML the provisioning files need: maps, lists, numbers, quoted strings, SQL as literal blocks."""

from __future__ import annotations

import json


def as_yaml(value: object, indent: int = 0) -> str:
    """``value`` as YAML, ending in a newline. Strings of several lines become literal blocks."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "".join(f"{pad}{key}:{_after_key(item, indent)}" for key, item in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{pad}- {as_yaml(item, indent + 1).lstrip()}" for item in value)
    return f"{pad}{json.dumps(value, ensure_ascii=False)}\n"


def _after_key(value: object, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + as_yaml(value, indent + 1)
    if isinstance(value, str) and "\n" in value:
        pad = "  " * (indent + 1)
        return " |-\n" + "".join(f"{pad}{line}\n" for line in value.splitlines())
    return " " + as_yaml(value).lstrip()
