"""Capacity for people."""

from __future__ import annotations

from functools import partial

from sojourn.analyses.capacity.analysis import Capacity
from sojourn.analyses.capacity.charts import objective_against_rate, throughput_against_concurrency
from sojourn.analyses.capacity.knee import Knee
from sojourn.analyses.capacity.run import capacity
from sojourn.analyses.capacity.sizing import Sizing
from sojourn.analyses.capacity.usl import Usl
from sojourn.analyses.question import ReportContext
from sojourn.model.formatting import counted, duration, milliseconds, percent
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

SHOWN = 12  # windows: some of each load, quiet to busy
CONFIDENCE = "95 %"


@lay_out.register(Capacity)
def capacity_section(found: Capacity) -> Section:
    """How far from the cliff: the knee, the law and the windows they were told from."""
    pictures = [_objective(found, knee, number) for number, knee in enumerate(found.knees)]
    return Section(
        key="capacity",
        title="How far from the cliff",
        sentence=_sentence(found),
        measures=(
            f"Windows of {duration(found.windows.width)}: arrivals in it, completions in it, requests in the system "
            "averaged over it, response time of those that arrived in it."
        ),
        failures=tuple(found.failures),
        tables=tuple(_tables(found)),
        pictures=(
            *(pictures if not found.loop.closed else ()),
            Picture(
                "capacity-law",
                "Throughput against concurrency",
                "Each point is a window, the line the universal scalability law: flat means saturated, falling means "
                "that more load gives less.",
                partial(throughput_against_concurrency, found),
                law_reading(found),
            ),
        ),
        notes=tuple(found.notes),
    )


def sizing_section(sizing: Sizing) -> Section:
    """Instances for a target rate, where the rate of one is known without any log."""
    return Section(key="capacity", title="How far from the cliff", sentence=_sized(sizing))


def _sentence(found: Capacity) -> str:
    parts = [_broken(knee) for knee in found.knees]
    if not parts and found.usl is not None:
        peak = found.usl.peak
        parts.append(
            f"Throughput peaks at {_rate(peak[1])} with {peak[0]:.3g} requests in the system."
            if peak
            else f"No peak of throughput was seen: up to {found.usl.most:.3g} requests in the system it did not fall."
        )
    if not parts:
        parts.append(f"Nothing can be told of the capacity: {found.usl_reason}.")
    if found.sizing is not None:
        parts.append(_sized(found.sizing))
    return " ".join(parts)


def _broken(knee: Knee) -> str:
    if knee.rate is not None:
        if knee.high is None:
            between = f"{CONFIDENCE}: at least {knee.low:,.4g}" if knee.low is not None else f"{CONFIDENCE}: open"
        elif knee.low is None:
            between = f"{CONFIDENCE}: at most {knee.high:,.4g}"
        else:
            between = f"{CONFIDENCE}: {knee.low:,.4g} to {knee.high:,.4g}"
        return f"{knee.slo} breaks at {_rate(knee.rate)} ({between})."
    if knee.at_least is not None:
        return f"{knee.slo} held at every load seen: capacity is at least {_rate(knee.at_least)}."
    if knee.at_most is not None:
        return f"{knee.slo} was broken at every load seen: capacity is below {_rate(knee.at_most)}."
    return f"{knee.slo}: {knee.reason}."


def _sized(sizing: Sizing) -> str:
    asked = f"{_rate(sizing.target_rate)} with {percent(sizing.headroom)} headroom"
    if sizing.instances is None or sizing.per_instance is None:
        return f"Instances for {asked}: {sizing.reason}."
    most = "at most " if sizing.bound == "at most" else ""
    ends = ""
    if sizing.low is not None and sizing.high is not None and sizing.low != sizing.high:
        ends = f" ({sizing.low:,} to {sizing.high:,})"
    elif (
        sizing.bound == "exactly"
        and sizing.source != "as told"
        and sizing.low is None
        and sizing.high != sizing.instances
    ):
        ends = f" (up to {sizing.high:,})"
    plural = "s" if sizing.instances != 1 else ""
    return (
        f"For {asked}: {most}{sizing.instances:,} instance{plural}{ends}, of {_rate(sizing.per_instance)} each "
        f"({sizing.source})."
    )


def _tables(found: Capacity) -> list[Table]:
    tables = []
    if found.usl is not None:
        tables.append(_law(found.usl))
    elif found.usl_reason and found.knees:
        tables.append(Table(("universal scalability law", ""), (("not fitted", found.usl_reason),), text_columns=2))
    if found.by_instance:
        tables.append(_by_instance(found))
    tables.append(_windows(found))
    return tables


def _law(usl: Usl) -> Table:
    names = {
        "throughput_of_one": "lambda, requests/s of one",
        "sigma": "sigma, contention",
        "kappa": "kappa, coherency",
    }
    rows = []
    for name, label in names.items():
        low, high = usl.intervals[name]
        told = "not told from 0" if name in usl.unidentified else ""
        rows.append((label, told, f"{getattr(usl, name):.3g}", f"{low:.3g}", f"{high:.3g}"))
    peak = usl.peak
    rows.append(("peak, requests/s", "" if peak else "not seen", f"{peak[1]:,.4g}" if peak else "–", "", ""))
    title = f"Universal scalability law over {usl.windows} windows, R² {usl.r_squared:.3f}"
    return Table(("", "", "value", "low", "high"), tuple(rows), title, text_columns=2)


def _by_instance(found: Capacity) -> Table:
    rows = []
    for row in sorted(found.by_instance, key=lambda r: -r["requests"]):
        knees = []
        for knee in row["knees"]:
            if knee["rate"] is not None:
                knees.append(f"{knee['rate']:,.4g}")
            elif knee["at_least"] is not None:
                knees.append(f"≥ {knee['at_least']:,.4g}")
            elif knee["at_most"] is not None:
                knees.append(f"< {knee['at_most']:,.4g}")
            else:
                knees.append("–")
        numbers = (f"{row['busy']:,.4g}", f"{row['throughput']:,.4g}", f"{row['concurrency']:,.3g}")
        rows.append((row["instance"], f"{row['requests']:,}", *numbers, *knees))
    headings = ("instance", "requests", "busy/s", "most done/s", "most in system")
    return Table((*headings, *(f"knee/s {knee.slo.metric}" for knee in found.knees)), tuple(rows))


def _windows(found: Capacity) -> Table:
    ordered = found.windows.table.sort("rate", "window", "instance")
    picked = sorted({round(i * (len(ordered) - 1) / max(SHOWN - 1, 1)) for i in range(SHOWN)})
    rows = []
    for row in ordered[picked].iter_rows(named=True):
        times = (milliseconds(row[name]) for name in ("mean", "p50", "p90", "p99"))
        rows.append(
            (f"{row['rate']:,.4g}", f"{row['throughput']:,.4g}", f"{row['concurrency']:.3g}", *times,
             percent(row["errors"]))
        )  # fmt: skip
    headings = ("arrivals/s", "done/s", "in system", "mean ms", "p50", "p90", "p99", "errors")
    more = len(ordered) - len(rows)
    title = f"Some of {counted(len(ordered), 'window')}, quiet to busy" if more else "Windows, quiet to busy"
    return Table(headings, tuple(rows), title, text_columns=0, shown=SHOWN)


def _objective(found: Capacity, knee: Knee, number: int) -> Picture:
    return Picture(
        f"capacity-objective-{number}",
        f"{knee.slo.metric} against the load",
        "Each point is a window; the line never falls, and where it crosses the dashed objective is the knee.",
        partial(objective_against_rate, found, knee),
        objective_reading(found, knee),
    )


def objective_reading(found: Capacity, knee: Knee) -> str:
    """The objective's figure in the quietest and in the busiest window, and where it breaks."""
    metric = knee.slo.metric
    told = found.windows.table.drop_nulls(["rate", metric]).sort("rate")
    if told.is_empty():
        return f"No window of the {len(found.windows.table):,} tells of {metric}."
    said = percent if metric == "errors" else duration
    first, last = told.row(0, named=True), told.row(-1, named=True)
    return (
        f"{said(first[metric])} at {_rate(first['rate'])}, the quietest of {counted(len(told), 'window')}, and "
        f"{said(last[metric])} at {_rate(last['rate'])}, the busiest; {_broken(knee)}"
    )


def law_reading(found: Capacity) -> str:
    """The most that was done, and what the law makes of it."""
    top = found.windows.table.drop_nulls(["throughput", "concurrency"]).sort("throughput").tail(1)
    if top.is_empty():
        return "There are 0 windows to be seen."
    most = top.row(0, named=True)
    text = f"The most was {_rate(most['throughput'])}, with {most['concurrency']:.3g} requests in the system"
    if found.usl is None:
        return f"{text}; no law was fitted: {found.usl_reason}."
    peak = found.usl.peak
    if peak is None:
        return f"{text}; the law has no peak in what was seen."
    return f"{text}; the law peaks at {_rate(peak[1])} with {peak[0]:.3g}."


def _rate(value: float) -> str:
    return f"{value:,.0f} requests/s" if value >= 100 or value == round(value) else f"{value:,.3g} requests/s"


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return capacity_section(capacity(context.requests, slo=f"p99={context.slo}"))
