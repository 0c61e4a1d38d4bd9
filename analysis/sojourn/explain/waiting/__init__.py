"""Who waited for whom, and how deep the queue was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.explain.waiting.by_minute import blame_by_minute

__all__ = ["blame_by_minute"]


def __getattr__(name: str) -> Any:
    if name == "blame_by_minute":
        # Loaded on first use: it brings numba, which the windows and classes beside it do without.
        from sojourn.explain.waiting.by_minute import blame_by_minute  # noqa: PLC0415

        return blame_by_minute
    raise AttributeError(f"module 'sojourn.explain.waiting' has no attribute {name!r}")
