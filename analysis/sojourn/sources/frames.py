"""Frames of the user's own: Polars, pandas or anything with Arrow's stream; their columns and their instants."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

import polars as pl

from sojourn.components.split import split_rows
from sojourn.model.column_errors import no_columns
from sojourn.model.components import COMPONENTS
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.model.frame import INSTANT, NEEDED, SCHEMA, Records, Requests, checked, is_extra
from sojourn.readers.app_log import read_app_log
from sojourn.readers.inputs import Source
from sojourn.readers.spans import read_spans

OF_ROWS = {"queueing_delay", "queue", "answered"}
"""Columns by which a frame is one of ``rows``, with the components of every request."""
USED = (*NEEDED, "start", "proxied", "answered", "wasted", "queueing_delay", "queue_source", *COMPONENTS)

"""Columns of ``rows`` without which no analysis is possible."""

# An instant's text ends in Z or in an offset.
_ZONED = r"(?:[Zz]|[+-]\d{2}(?::?\d{2})?)\s*$"


@runtime_checkable
class ArrowFrame(Protocol):
    """A frame with Arrow's C stream: of pandas, PyArrow, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream of its rows."""


Frame = pl.LazyFrame | pl.DataFrame | ArrowFrame


def frame_of(value: object) -> pl.LazyFrame | None:
    """Return a frame of Polars, pandas or Arrow as a lazy frame of Polars; None for what is no frame.

    Raises:
        SojournError: a column of a pandas frame has values of several types.
    """
    if isinstance(value, pl.LazyFrame):
        return value
    if isinstance(value, pl.DataFrame):
        return value.lazy()
    # No frame is of pandas before pandas is imported.
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return _of_pandas(value).lazy()
    if isinstance(value, ArrowFrame) and not isinstance(value, pl.Series):
        return pl.DataFrame(value).lazy()
    return None


def _of_pandas(frame: Any) -> pl.DataFrame:
    """Return a pandas frame as one of Polars, with missing values as nulls."""
    if find_spec("pyarrow") is not None:
        with contextlib.suppress(Exception):  # a class of PyArrow's: the column is named below
            return pl.from_pandas(frame, nan_to_null=True)
    return pl.DataFrame([_of_series(name, frame[name]) for name in frame.columns])


def _of_series(name: object, values: Any) -> pl.Series:
    """Return a column of a pandas frame as a series, without PyArrow."""
    try:
        if getattr(values.dtype, "tz", None) is not None:
            # Numpy has no type for instants with a zone.
            naive = values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
            return pl.Series(str(name), naive).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
        if values.dtype.kind in "fiubM" and not hasattr(values.dtype, "na_value"):
            return pl.Series(str(name), values.to_numpy(), nan_to_null=True)
        return pl.Series(str(name), values.astype(object).where(values.notna(), None).tolist())
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise SojournError(
            f"frame: column {printable(repr(name), 100)} has values of several types ({str(error).splitlines()[0]})"
        ) from error


def has_components(rows: pl.LazyFrame) -> bool:
    """Return whether a frame has the components of every request, as the ``rows`` of a split."""
    return set(rows.collect_schema()) >= OF_ROWS


def canonical(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the canonical columns of a user's frame, and text columns of the user's own.

    Instants may be aware datetimes, ISO 8601 texts with a zone, or unix seconds.

    Raises:
        SojournError: the frame is none of requests, or an instant is none or has no zone.
    """
    schema = rows.collect_schema()
    instants = [_instants(rows, name, schema[name]) for name in schema if SCHEMA.get(name) == INSTANT]
    own = [name for name in schema if is_extra(name) and schema[name] == pl.String()]
    return checked(rows.with_columns(instants), "frame", own)


def _instants(rows: pl.LazyFrame, name: str, dtype: pl.DataType) -> pl.Expr:
    """Return the expression of a column's instants in UTC."""
    value = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is None:
            raise SojournError(
                f"frame: column {name!r} has no time zone, so its instants are others in every zone: add the zone, "
                f'in Polars pl.col({name!r}).dt.replace_time_zone("UTC"), in pandas dt.tz_localize("UTC")'
            )
        return value.dt.convert_time_zone("UTC").cast(INSTANT)
    if dtype.is_numeric():
        return (value.cast(pl.Float64) * 1e6).round().cast(pl.Int64).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    if dtype != pl.String():
        return value  # refused with the other types
    parsed = value.str.strip_chars().str.replace(" ", "T", literal=True).str.to_datetime(
        "%+", time_unit="us", time_zone="UTC", strict=False
    )  # fmt: skip
    failed = value.is_not_null() & (parsed.is_null() | ~value.str.contains(_ZONED))
    first = rows.select(value.filter(failed).first()).collect(engine="streaming").item()
    if first is not None:
        raise SojournError(
            f"frame: column {name!r}: {printable(repr(first), 100)} is not an instant with a time zone: write "
            "2026-01-31T12:00:00Z"
        )
    return parsed


def requests_of_frame(rows: pl.LazyFrame, spans: Sequence[Source] = (), app_log: Sequence[Source] = ()) -> Requests:
    """Return the requests of a canonical frame, with the app's spans and log to join.

    Raises:
        SojournError: as ``canonical``; or the spans or the log cannot be read.
    """
    requests = canonical(rows)
    return Requests(
        requests,
        Records(read=int(requests.select(pl.len()).collect(engine="streaming").item())),
        spans=read_spans(spans) if spans else None,
        app_log=read_app_log(app_log) if app_log else None,
        names=("frame",),
    )


def with_components(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return a frame with the components, in their types, and with the columns that it may lack.

    Other libraries have other types: a column of pandas without a value has no type, and whole numbers with a missing
    one are fractions.

    Raises:
        SojournError: a column that every analysis uses is missing, or an instant is none or has no zone.
    """
    schema = rows.collect_schema()
    # Columns that the user's frame may have left out: not every analysis needs them.
    added = {
        "half_tick": pl.lit(0.0), "clock_tolerance": pl.lit(0.0), "proxy_queue": pl.lit(0.0),
        "vantage": pl.lit(None, pl.String), "time_step": pl.lit(None, pl.Float64),
        "inferred_workers": pl.lit(None, pl.Int64),
    }  # fmt: skip
    used = [name for name in USED if name not in added]
    if not set(schema) >= set(used):
        raise SojournError(f"frame: {no_columns(used, schema)}")
    own = _component_types()
    instants = [_instants(rows, name, schema[name]) for name in schema if own.get(name) == INSTANT]
    casts = [
        pl.col(name).cast(own[name]) for name in schema
        if name in own and own[name] != INSTANT and schema[name] != own[name]
    ]  # fmt: skip
    return rows.with_columns(*instants, *casts, **{name: value for name, value in added.items() if name not in schema})


@functools.cache
def _component_types() -> dict[str, pl.DataType]:
    """Return the columns of ``rows`` and their types."""
    return dict(split_rows(pl.LazyFrame(schema=SCHEMA), infer=False).rows.collect_schema())
