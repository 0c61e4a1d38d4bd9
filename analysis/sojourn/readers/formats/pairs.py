"""Lines of keys and values that are not JSON: LTSV (``key:value``, tabs between) and logfmt (``key=value``, blanks)."""

from __future__ import annotations

import re

LTSV, LOGFMT = ":", "="
_LTSV = re.compile(r"(?:^|\t)([\w.@-]+):([^\t]*)")
_LOGFMT = re.compile(r'(?:^|[ \t])([\w.@/-]+)=(?:"((?:[^"\\]|\\.)*)"|([^ \t"]*)(?=[ \t]|$))')
FEWEST = 4  # pairs of a line of this kind


def pairs_of(line: str, sign: str) -> dict[str, str]:
    """Return the keys and values of a line."""
    if sign == LTSV:
        return dict(match.groups() for match in _LTSV.finditer(line))  # type: ignore[misc]
    return {match[1]: match[2] if match[2] is not None else match[3] for match in _LOGFMT.finditer(line)}


def is_pairs(line: str, sign: str) -> bool:
    """Return whether a line is made of keys and values, with nothing between them."""
    line = line.strip()
    if sign == LTSV:
        parts = line.split("\t")
        return len(parts) >= FEWEST and all(re.match(r"[\w.@-]+:", part) for part in parts)
    matches = list(_LOGFMT.finditer(line))
    return len(matches) >= FEWEST and sum(len(match[0].strip()) for match in matches) + len(matches) - 1 >= len(line)


def value_sql(key: str, sign: str) -> str:
    """Return SQL for the value of a key of ``line``; NULL where the line does not have it."""
    name = re.escape(key).replace("'", "''")
    if sign == LTSV:
        return f"nullif(regexp_extract(line, '(?:^|\\t){name}:([^\\t\\r\\n]*)', 1), '')"
    text = rf"""(?:^|[ \t]){name}=(?:"((?:[^"\\]|\\.)*)"|([^ \t"\r\n]*))"""
    return f"nullif(regexp_extract(line, '{text}', 1) || regexp_extract(line, '{text}', 2), '')"
