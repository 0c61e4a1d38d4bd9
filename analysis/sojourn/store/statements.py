"""Statements for a store, assembled from ``sql/``: one idea per file, each a SELECT over earlier ones.

Values never become part of a statement's text: they are bound by the server, each by name and type.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import resources
from string import Template

import polars as pl

from sojourn.model.components import COMPONENTS, QUEUE_SOURCES
from sojourn.model.errors import SojournError
from sojourn.model.evidence import (
    BYPASSED,
    DELAYED,
    LARGE_OF,
    LATE,
    LOCK_STEP,
    NO_WAYS,
    ON_TIME,
    PHASES,
    Ways,
)
from sojourn.model.evidence import LOOKED_AT as EVIDENCE_LOOKED_AT
from sojourn.model.figures import QUANTILES
from sojourn.model.frame import HALF_MICROSECOND, INSTANT, SCHEMA, Selection
from sojourn.model.instants import epoch_us
from sojourn.model.measures import GROUP_COLUMNS, ROUNDING, STATUS_CLASSES, SUMMARY_COLUMNS
from sojourn.model.one_worker import LOOKED_AT, SLACK, TICKS
from sojourn.model.verdict import LARGE
from sojourn.store.schema import NULL_TEXT, STEPS, common_tables, constants, narrowed, text_of
from sojourn.store.waits import WAITS

# Columns whose values a store finds by an index: the condition is repeated in a form that uses the index.
INDEXED = ("service", "route", "request_id")
# For the steps of the split: to select the rows of each branch costs more than to compute all branches. None fails.
EVERY_BRANCH = {"short_circuit_function_evaluation": "disable"}
# Spans of requests that arrived in a window: their instants are on another clock, and late where a queue was long.
SPAN_MARGIN = timedelta(days=1)

# The instants of sojourn.model.measures.INSTANTS, in us; NULL where there is none.
_STAMP_US = "toUnixTimestamp64Micro(request_start)"
INSTANT_US = {
    "time": "toNullable(toUnixTimestamp64Micro(time))",
    "request_start": _STAMP_US,
    "app_start": f"({_STAMP_US} + toInt64(round(app_queueing_delay * 1e6)))",
}

Parameters = dict[str, object]


@functools.cache
def sql(name: str) -> str:
    """Return the text of ``sql/<name>.sql``, with the constants of the model."""
    text = resources.files("sojourn.store").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8").strip()
    return Template(text).safe_substitute(constants())


@dataclass(frozen=True)
class Chosen:
    """The rows of a statement, as conditions with bound values."""

    conditions: str
    window: str
    parameters: Parameters = field(default_factory=dict)

    def bound(self, statement: str, **more: object) -> Parameters | None:
        """Return the parameters a statement names.

        Any other, in a text that names none, would make the driver paste values instead of having them bound.
        """
        values = {**self.parameters, **more}
        return {name: value for name, value in values.items() if f"{{{name}:" in statement} or None


def chosen(selection: Selection) -> Chosen:
    """Return the conditions of a selection.

    Raises:
        SojournError: a value cannot be sent as text, or a column cannot be compared with it.
    """
    conditions, window = ["1"], ["1"]
    parameters: Parameters = {}
    if selection.since is not None:
        # A request ends after it began: the partition excludes requests that ended before.
        conditions.append("start >= {since} AND r.time >= {since}".replace("{since}", _instant("since")))
        window.append(f"start >= {_instant('span_since')}")
        parameters |= {"since": epoch_us(selection.since), "span_since": epoch_us(selection.since - SPAN_MARGIN)}
    if selection.until is not None:
        conditions.append(f"start < {_instant('until')}")
        window.append(f"start < {_instant('span_until')}")
        parameters |= {"until": epoch_us(selection.until), "span_until": epoch_us(selection.until + SPAN_MARGIN)}
    for number, (column, value) in enumerate(selection.where.items()):
        name = f"where_{number}"
        conditions.append(_equals(column, name))
        parameters[name] = _bound(column, value)
    return Chosen(" AND ".join(conditions), " AND ".join(window), parameters)


def _instant(name: str) -> str:
    return f"fromUnixTimestamp64Micro({{{name}:Int64}}, 'UTC')"


BETWEEN = f"r.time >= {_instant('slice_begin')} AND r.time < {_instant('slice_end')}"


def _equals(column: str, name: str) -> str:
    kind = SCHEMA[column]
    if kind == INSTANT:
        return f"{column} = {_instant(name)}"
    if kind == pl.Boolean():
        return f"{column} = {{{name}:Bool}}"
    if kind == pl.Float64():
        return f"abs({column} - {{{name}:Float64}}) < {HALF_MICROSECOND}"
    if kind.is_numeric():
        return f"toFloat64({column}) = {{{name}:Float64}}"
    condition = f"{column} = {{{name}:String}}"
    if column == "trace_id":  # stored where it is not the request id
        return f"{condition} AND (r.trace_id = {{{name}:String}} OR r.request_id = {{{name}:String}})"
    return f"{condition} AND r.{column} = {{{name}:String}}" if column in INDEXED else condition


def _bound(column: str, value: object) -> object:
    kind = SCHEMA[column]
    if kind == INSTANT and isinstance(value, datetime):
        return epoch_us(value)
    if kind == pl.Boolean() and isinstance(value, bool):
        return value
    if kind.is_numeric() and isinstance(value, int | float):
        return float(value)
    if kind == pl.String() and isinstance(value, str):
        if not value.isascii() and value.encode("utf-8", "replace").decode() != value:
            raise SojournError(f"--where {column}: the value is not valid UTF-8")
        return value
    raise SojournError(f"--where {column}: {value!r} is not a value of this column ({kind})")


# Bounds are queried for some pairs and times only.
WITHIN = """arrayExists(
    (p, begin, end) -> p = number AND read >= begin AND read < end,
    {within:Array(UInt64)}, {within_begin:Array(Int64)}, {within_end:Array(Int64)})"""


def of_requests(name: str, which: Chosen, *, once: bool = True) -> str:
    """Return ``sql/<name>.sql`` over the selected requests; without ``once``, with those delivered twice: cheaper."""
    return narrowed(Template(sql(name)).substitute(chosen=_chosen(which.conditions, once=once)))


def of_window(name: str, which: Chosen) -> str:
    """Return ``sql/<name>.sql`` over the spans or dead letters of a window."""
    return Template(sql(name)).substitute(window=which.window)


def refused(selection: Selection) -> Chosen:
    """Return SQL: dead letters that were refused in a window."""
    window = ["1"]
    parameters: Parameters = {}
    for name, sign, bound in (("since", ">=", selection.since), ("until", "<", selection.until)):
        if bound is not None:
            window.append(f"time {sign} {_instant(name)}")
            parameters[name] = epoch_us(bound)
    return Chosen("1", " AND ".join(window), parameters)


def refusals(which: Chosen, limit: int | None) -> str:
    """Return a statement for source, position, reason, raw of dead letters."""
    return Template(sql("refusals")).substitute(window=which.window, limit="" if limit is None else f"LIMIT {limit}")


def rows(columns: tuple[str, ...], conditions: str) -> str:
    """Return a statement for canonical columns of the selected rows, unordered: the engine sorts slowly."""
    return narrowed(f"SELECT {', '.join(columns)} FROM ({_chosen(conditions)})")  # noqa: S608 - names of ours


def _chosen(conditions: str, *, once: bool = True) -> str:
    return Template(text_of("split/chosen")).substitute(_of_rows(conditions, once=once))


def _of_rows(conditions: str, *, once: bool = True) -> dict[str, str]:
    """Return the placeholders of the canonical rows; ``once``: without duplicates."""
    return {
        "text_of": NULL_TEXT, "requests": "requests", "final": "FINAL" if once else "", "conditions": conditions,
    }  # fmt: skip


def statement(name: str, which: Chosen, with_spans: bool, *, changing: bool = False, **parts: str) -> str:
    """Return ``sql/<name>.sql`` with the steps it uses.

    Args:
        name: the file.
        which: the rows.
        with_spans: the store holds spans to be joined.
        changing: a clock drifted or was set.
        parts: text for the file's ``$names``, made here and never from a value.
    """
    return over_steps(Template(sql(name)).substitute(parts), which, with_spans, changing=changing)


def over_steps(ending: str, which: Chosen, with_spans: bool, *, changing: bool = False) -> str:
    """Return ``ending``, a SELECT over the steps from rows to their components (``sojourn.store.schema.STEPS``)."""
    files = {
        **(dict.fromkeys(("spans_by_id", "spans_by_parent")) if with_spans else {}),
        **dict.fromkeys(STEPS),
        "reported": "reported_with_spans" if with_spans else "reported_without_spans",
        "clocked": "clocked_by_time" if changing else "clocked_by_pair",
    }
    return narrowed(f"WITH {common_tables(files, **_of_rows(which.conditions), window=which.window)}\n{ending}")


def over_chosen(name: str, which: Chosen, **parts: str) -> str:
    """Return ``sql/<name>.sql``, a SELECT over the canonical rows alone."""
    steps = common_tables({"chosen": None}, **_of_rows(which.conditions))
    return narrowed(f"WITH {steps}\n{Template(sql(name)).substitute(parts)}")


def figures(columns: tuple[str, ...], *, exact: bool, only: str | None = None) -> str:
    """Return expressions ``column/mean``, ``column/quantiles`` and ``column/max``, of rows for which ``only`` holds."""
    return ",\n    ".join(
        f'{_call("avg", column, only)} AS "{column}/mean", '
        f'{quantiles(column, tuple(QUANTILES.values()), exact=exact, only=only)} AS "{column}/quantiles", '
        f'{_call("max", column, only)} AS "{column}/max", {_call("count", column, only)} AS "{column}/count"'
        for column in columns
    )


def quantiles(expression: str, levels: tuple[float, ...], *, exact: bool, only: str | None = None) -> str:
    """Return an expression for an array of quantiles: exact with linear interpolation, or of rounded values.

    Exact ones hold every value in the store's memory, and while it grows three times. Cut ones hold every distinct
    value of four digits: some ten thousand, however many requests there are. They are cut off, not rounded, so that
    requests at and above a quantile are at and above its figure.
    """
    literals = ", ".join(map(repr, levels))
    condition = "If" if only else ""
    extra = f", {only}" if only else ""
    if exact:
        return f"quantilesExactInclusive{condition}({literals})({expression}{extra})"
    power = f"intExp10(toUInt8(least(greatest(3 - floor(log10(greatest(abs({expression}), 1e-6))), 0), 9)))"
    # A float may lie a hair below the number it stands for.
    cut = f"floor({expression} * {power} + 1e-6) / {power}"
    return f"quantilesExactWeighted{condition}({literals})({cut}, 1{extra})"


def means(only: str | None = None, *, ways: Ways = NO_WAYS) -> str:
    """Return expressions ``mean/component`` and those of ``sojourn.model.evidence``; unknown counts as 0.

    ``ways``: with the parameters of ``ways_parameters``.
    """
    components = {f"mean/{name}": f"ifNull({name}, 0)" for name in COMPONENTS}
    delayed = f"ifNull(limit_req_status = '{DELAYED}', false)"
    locked = f"if({delayed}, 0, {_lock_wait()})"
    of_client = f" AND NOT {delayed} AND {locked} = 0"
    evidence = {"redirects": "if(proxied, ifNull(redirects, 0), 0)"}
    for cause, (component, size) in LARGE_OF.items():
        large = f"ifNull({size}, 0) >= {LARGE}" + (of_client if cause in PHASES else "")
        evidence[f"large/{cause}"] = f"if({large}, ifNull({component}, 0), 0)"
    for cause, component, within in zip(PHASES, ("upload", "send"), ("proxied", "NOT proxied"), strict=True):
        evidence[f"locked/{cause}"] = f"if({within}, {locked}, 0)"
        evidence[f"limited/{cause}"] = f"if({within} AND {delayed}, ifNull({component}, 0), 0)"
    for name in ways.by_name():
        lists = f"{{{name}_names:Array(String)}}, {{{name}_seconds:Array(Float64)}}"
        evidence[name] = f"least(greatest(ifNull(queueing_delay, 0), 0), transform(ifNull(upstream, ''), {lists}, 0.))"
    every = components | evidence | {f"waits/{name}": value for name, value in WAITS.items()}
    return ",\n    ".join(f'{_call("avg", expression, only)} AS "{name}"' for name, expression in every.items())


def _lock_wait() -> str:
    """Return SQL for the time in a cache lock, s, as ``sojourn.model.evidence.lock_wait``; 0 where none shows."""
    milliseconds = "toInt64(round(if(proxied, upload, request_time) * 1000))"
    steps = f"intDiv({milliseconds} + 1, {LOCK_STEP})"
    late = f"{milliseconds} - {steps} * {LOCK_STEP}"
    consulted = f"ifNull(upstream_cache_status != '{BYPASSED}', false)"
    on_time = f"{steps} >= 1 AND {late} <= {ON_TIME} + {LATE} * {steps}"
    return f"if({consulted} AND {on_time}, {steps} * {LOCK_STEP / 1000}, 0)"


def ways_parameters(ways: Ways) -> dict[str, object]:
    """Return the parameters of ``means`` for ways."""
    parameters: dict[str, object] = {}
    for name, of_upstream in ways.by_name().items():
        parameters |= {f"{name}_names": list(of_upstream), f"{name}_seconds": list(of_upstream.values())}
    return parameters


def idle_ways_parts() -> dict[str, str]:
    """Return the ``$names`` of ``idle_ways.sql``."""
    return {"looked_at": str(EVIDENCE_LOOKED_AT)}


def summary_parts(*, exact: bool, ways: Ways) -> dict[str, str]:
    """Return the ``$names`` of ``summary.sql``; ``ways`` as for ``means``."""
    differ = "queue - queue_by_duration"
    return {
        "sources": ",\n    ".join(f"countIf(queue_source = '{s}') AS \"source/{s}\"" for s in QUEUE_SOURCES),
        "classes": ",\n    ".join(f'countIf(intDiv(status, 100) = {n}) AS "class/{n}"' for n in STATUS_CLASSES),
        "figures": figures(("request_time", *SUMMARY_COLUMNS), exact=exact, only="served"),
        "means": means("served", ways=ways),
        "component_sum": "(" + " + ".join(f"ifNull({name}, 0)" for name in COMPONENTS) + ")",
        "negative": ",\n    ".join(
            f"countIf(served AND {name} < -{ROUNDING}{' - half_tick - clock_tolerance' * (name == 'queue')}) "
            f'AS "negative/{name}"'
            for name in COMPONENTS
        ),
        "ticks": _ticks(),
        "differ": quantiles(f"({differ})", (0.5,), exact=exact, only="served AND queue_source = 'stamp'"),
    }


def _ticks() -> str:
    """Return expressions ``instant/count`` and ``instant/tick`` (all are multiples of that many us), of the served."""
    return ",\n    ".join(
        f'countIf({instant}, served) AS "{name}/count", '
        + ", ".join(f'minIf(ifNull({instant} % {tick} = 0, 1), served) AS "{name}/{tick}"' for tick in TICKS)
        for name, instant in INSTANT_US.items()
    )


def overlap_parts() -> dict[str, str]:
    """Return the ``$names`` of ``overlaps.sql``, in us."""
    cases = ", ".join(f"min(begun % {tick} = 0) OVER (PARTITION BY upstream), {tick}" for tick in TICKS)
    return {"tick": f"multiIf({cases}, 1)", "slack": str(round(SLACK * 1e6)), "looked_at": str(LOOKED_AT)}


def route_in_store(table: str, *, several: bool) -> str:
    """Return the expression for the name of a route of a table: with its service, if there are several services."""
    service, route = f"{table}.service", f"{table}.route"
    return f"if({service} IS NULL OR {route} IS NULL, {route}, concat({service}, ' ', {route}))" if several else "route"


def group_parts(group: str, *, exact: bool) -> dict[str, str]:
    """Return the ``$names`` of ``grouped.sql``."""
    return {"group": group, "figures": figures(GROUP_COLUMNS, exact=exact)}


def _call(function: str, expression: str, only: str | None) -> str:
    return f"{function}If({expression}, {only})" if only else f"{function}({expression})"
