"""What changed between two splits, for certain or by chance, and which component and group did it."""

from sojourn.explain.compare.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
