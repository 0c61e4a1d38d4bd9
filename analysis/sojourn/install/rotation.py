"""The rule of logrotate for the log: as the distribution rotates nginx's own logs."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch
from pathlib import Path

from sojourn.install.nginx_program import NginxProgram

RULES = Path("/etc/logrotate.d")
NAME = "sojourn"
_OF_NGINX = re.compile(r"^(?P<patterns>[^\n{#]*nginx[^\n{]*)(?P<rule>\{.*?^\})", re.M | re.S)
_PATTERNS = re.compile(r"^[ \t]*((?:[\"']?/[^\s{]+[\"']?\s*)+)\{", re.M)


def rule_path() -> str:
    """Return the path of the rule for the log."""
    return str(RULES / NAME)


def rotation_rule(log: str, conf: Path, program: NginxProgram) -> tuple[str, bytes] | None:
    """Return the path and the content of a rule for the log; None if another rule has it, or none is needed.

    A rule is added for the configuration that nginx reads by default, on a machine whose nginx has one. It has the
    lines of that one.
    """
    if os.path.realpath(conf) != os.path.realpath(program.default_conf) or not RULES.is_dir():
        return None
    rules = {path: _text(path) for path in sorted(RULES.iterdir()) if path.name != NAME}
    patterns = [
        word.strip("\"'") for text in rules.values() for match in _PATTERNS.finditer(text) for word in match[1].split()
    ]
    if any(fnmatch(log, pattern) for pattern in patterns):
        return None
    for text in rules.values():
        match = _OF_NGINX.search(text)
        if match is not None:
            return rule_path(), f"{log} {match['rule']}\n".encode()
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
