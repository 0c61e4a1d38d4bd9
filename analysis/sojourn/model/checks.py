"""One check of an audit, and its verdicts."""

from __future__ import annotations

from dataclasses import asdict, dataclass

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"


@dataclass(frozen=True)
class Check:
    """One check; ``value`` and ``threshold`` in the unit its name implies: s, a share, a ratio, a number."""

    name: str
    value: float | int | None
    threshold: float | int | None
    verdict: str
    sentence: str

    def to_dict(self) -> dict[str, object]:
        """Return an entry of ``audit.checks`` in the JSON output."""
        return asdict(self)
