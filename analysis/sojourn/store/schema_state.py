"""The files of the schema that a store has, compared with those of this version."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.store.client import Store, plainly, rows
from sojourn.store.schema import checksums

STATE = "tables/schema_state"
MOST_NAMES = 3  # in a sentence; others are counted


def applied(store: Store) -> dict[str, str]:
    """Return the files that a store has, and their checksums; none for a store without a schema."""
    with plainly(store, "reading which files it has"):
        if not rows(store, "EXISTS TABLE schema_state")[0][0]:
            return {}
        return dict(rows(store, "SELECT name, toString(checksum) FROM schema_state FINAL"))


@dataclass(frozen=True)
class Comparison:
    """Files of the schema by what a store has of them.

    Attributes:
        missing: not applied.
        changed: applied with another text, or with another text of what they read.
        later: only a later version has them.
    """

    missing: list[str]
    changed: list[str]
    later: list[str]

    @property
    def older(self) -> str:
        """What an earlier version left otherwise, as a clause; empty if nothing."""
        clauses = ((self.missing, "missing"), (self.changed, "another text"))
        return "; ".join(f"{what}: {_names(files)}" for files, what in clauses if files)


def _names(files: list[str]) -> str:
    names = ", ".join(files[:MOST_NAMES])
    return names if len(files) <= MOST_NAMES else f"{names} and {len(files) - MOST_NAMES:,} more"


def compared(store: Store) -> Comparison:
    """Compare the schema of a store with that of this version."""
    sums, present = checksums(), applied(store)
    return Comparison(
        missing=[name for name in sums if name not in present],
        changed=[name for name, checksum in sums.items() if present.get(name, checksum) != checksum],
        later=sorted(present.keys() - sums.keys()),
    )
