"""The first picture of a report: the mean response time of each case by component, with the law's prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

import polars as pl
from sojourn.analyses.split.result import SplitResult
from sojourn.model.formatting import duration, percent, printable
from sojourn.model.verdict import queueing_seconds
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import HALO, INK, inline, part_colour
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.section import Picture

from sojourn_lab.results.run_schema import Run

KEY = "cases"
STEP = 34  # px of one case
IN_SECONDS = 10.0  # s: the axis is in seconds where a mean is as long as this


def case_picture(run: Run, splits: Mapping[str, Sequence[SplitResult]]) -> Picture | None:
    """Return the picture of a run's cases from the splits of their windows, one per round; None for fewer than two."""
    table = case_table(run, splits)
    if len(table) < 2:
        return None
    of_law = " The black line is the mean response time by the law." if table["law"].count() else ""
    return Picture(
        KEY,
        run.scenario.question,
        f"Each bar is the mean response time of a case, divided into service time, queueing delay and everything else."
        f"{of_law}",
        partial(case_chart, table),
        _reading(table),
    )


def case_table(run: Run, splits: Mapping[str, Sequence[SplitResult]]) -> pl.DataFrame:
    """Return columns case, service, queueing, other, response, law (s; null: no law): medians over the rounds."""
    laws = {case.base or case.name: case.law for case in run.cases}
    rows = []
    for name, rounds in splits.items():
        service = median(each.means["service_time"] for each in rounds)
        queueing = max(median(queueing_seconds(each.means) for each in rounds), 0.0)
        response = median(sum(each.means.values()) for each in rounds)
        law = laws[name]
        other = max(response - service - queueing, 0.0)
        rows.append((printable(name, 40), service, queueing, other, response, law.response_time if law else None))
    columns = dict.fromkeys(("service", "queueing", "other", "response", "law"), pl.Float64)
    return pl.DataFrame(rows, schema={"case": pl.String, **columns}, orient="row")


def case_chart(table: pl.DataFrame) -> alt.LayerChart | alt.FacetChart:
    """Draw the columns of ``case_table``: a bar per case in the order of the scenario, the law as a line across it."""
    names = {"service": "service time", "queueing": "queueing delay", "other": "everything else"}
    unit, times = ("s", 1.0) if float(table["response"].max()) >= IN_SECONDS else ("ms", 1000.0)  # type: ignore[arg-type]
    scaled = table.with_columns(pl.col(pl.Float64) * times)
    parts = scaled.unpivot(list(names), index="case", variable_name="key", value_name="time").with_columns(
        part=pl.col("key").replace_strict(names),
        rank=pl.col("key").replace_strict({key: rank for rank, key in enumerate(names)}, return_dtype=pl.Int8),
    )
    y = alt.Y("case:N", title=None, sort=table["case"].to_list())
    title = f"mean response time ({unit})"
    bars = (
        alt.Chart(inline(parts.drop("key")))
        .mark_bar()
        .encode(
            x=alt.X("time:Q", title=title, stack="zero"),
            y=y,
            color=part_colour(),
            order=alt.Order("rank:Q"),
            tooltip=["case:N", "part:N", alt.Tooltip("time:Q", title=unit, format=",.3~f")],
        )
    )
    layers: list[alt.Chart] = [bars]
    law = scaled.filter(pl.col("law").is_not_null()).select("case", "law")
    if len(law):
        line = alt.Chart(inline(law)).encode(
            x=alt.X("law:Q", title=title),
            y=y,
            tooltip=["case:N", alt.Tooltip("law:Q", title=f"by the law ({unit})", format=",.3~f")],
        )
        layers += [
            line.mark_tick(color=colour, thickness=width, size=STEP - 4) for colour, width in ((HALO, 6), (INK, 3))
        ]
    return alt.layer(*layers).properties(width=WIDTH, height=alt.Step(STEP))


def _reading(table: pl.DataFrame) -> str:
    slowest, *_, fastest = table.sort("response", descending=True).rows(named=True)
    queued = percent(slowest["queueing"] / slowest["response"]) if slowest["response"] > 0 else percent(0.0)
    return (
        f"The slowest case, {slowest['case']}, took {duration(slowest['response'])} on average, {queued} of it"
        f" queueing; the fastest, {fastest['case']}, {duration(fastest['response'])}."
    )
