"""Files that were read in part only, in this process: a command that read one exits with 1, as ``zcat`` does."""

from __future__ import annotations

_reasons: dict[str, str] = {}


def read_in_part(name: str, reason: str) -> None:
    """Record that the rest of a file cannot be read.

    Args:
        name: of the file.
        reason: where its readable part ends, and why.
    """
    _reasons[name] = reason


def incomplete_files() -> list[str]:
    """Return a sentence per file that was read in part since the last call."""
    sentences = [f"{name}: {reason}; what comes before is in the result" for name, reason in _reasons.items()]
    _reasons.clear()
    return sentences
