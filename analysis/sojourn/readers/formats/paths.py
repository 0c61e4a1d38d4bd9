"""Paths to values in nested objects: keys joined by ".", with a backslash before a dot that belongs to a key."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DOT = re.compile(r"(?<!\\)\.")


def path_of(keys: Iterable[str]) -> str:
    """Return the path of keys."""
    return ".".join(key.replace(".", "\\.") for key in keys)


def keys_of(path: str) -> tuple[str, ...]:
    """Return the keys of a path."""
    return tuple(part.replace("\\.", ".") for part in _DOT.split(path))
