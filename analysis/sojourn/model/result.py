"""The base of every result: plain data with a one-sentence form and a notebook form.

A result knows nothing of sections, terminals and pages. The package ``sojourn`` names, once, the module that looks the
section of a result up by its type.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sojourn.model.column_errors import near_names
from sojourn.model.errors import SojournError

if TYPE_CHECKING:
    import polars as pl

_display: list[Callable[[], Any]] = []


def display_with(load: Callable[[], Any]) -> None:
    """Set the function that displays results.

    Args:
        load: returns a module with ``section_of``, ``sentence_of`` and ``html_of``, each of a result. Called when a
            result is shown for the first time.
    """
    _display[:] = [load]


class Result:
    """The result of an analysis.

    Attributes:
        TABLES: names of its tables, each an attribute or a key of ``to_dict()``; ``to_polars`` returns the first one
            unless another is named.
    """

    TABLES: ClassVar[tuple[str, ...]] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that ``to_polars`` returns."""
        return self.TABLES

    def to_polars(self, table: str | None = None) -> pl.DataFrame:
        """Return a table of the result as a Polars frame, times in seconds; ``.to_pandas()`` makes one of pandas of it.

        Args:
            table: one of ``tables``; None: the first of them.

        Returns:
            One row per entry. A figure inside another has a name of both: ``response_time_p99``.

        Raises:
            SojournError: there is no such table.
        """
        if table is not None and table not in self.tables:
            near = near_names(table, self.tables)
            hint = f"did you mean {near[0]!r}? The tables are" if near else "the tables are"
            raise SojournError(f"{type(self).__name__} has no table {table!r}; {hint} {', '.join(self.tables)}")
        return _frame(self._table(self.tables[0] if table is None else table))

    def _table(self, name: str) -> Any:
        return getattr(self, name) if hasattr(self, name) else self.to_dict()[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the object of the JSON output."""
        raise NotImplementedError

    @property
    def section(self) -> Any:
        """The finding with its tables, charts and notes: a ``sojourn.present.section.Section``."""
        return _display[0]().section_of(self)

    def __str__(self) -> str:
        return _display[0]().sentence_of(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def _repr_html_(self) -> str:
        return _display[0]().html_of(self)


def _frame(value: Any) -> pl.DataFrame:
    """Return a table in any form as a frame."""
    import polars as pl  # noqa: PLC0415 - a result is defined without it

    if isinstance(value, pl.LazyFrame):
        return value.collect(engine="streaming")
    if isinstance(value, pl.DataFrame):
        return value
    if isinstance(value, Mapping):
        value = [{"figure": name, **_plain(each)} for name, each in value.items()]
    elif dataclasses.is_dataclass(value):
        # Arrays of one length, a row per request.
        fields = [each.name for each in dataclasses.fields(value)]
        return pl.DataFrame({name: array for name in fields if hasattr(array := getattr(value, name), "shape")})
    return pl.DataFrame([_flat(_plain(each)) for each in value], infer_schema_length=None)


def _plain(entry: Any) -> dict[str, Any]:
    if hasattr(entry, "to_dict"):
        return dict(entry.to_dict())
    return dataclasses.asdict(entry) if dataclasses.is_dataclass(entry) else dict(entry)  # type: ignore[arg-type]


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with the values of inner mappings under names of both."""
    flat: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}_{inner}": each for inner, each in _flat(value).items()})
        else:
            flat[name] = value
    return flat
