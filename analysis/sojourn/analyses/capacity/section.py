"""Layout of a capacity result."""

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

WINDOW_ROWS = 12  # some of each load, quiet to busy
CONFIDENCE = "95 %"


@lay_out.register(Capacity)
def capacity_section(result: Capacity) -> Section:
    """Lay out the knees, the scalability law and the windows they are estimated from."""
    pictures = [_objective(result, knee, number) for number, knee in enumerate(result.knees)]
    return Section(
        key="capacity",
        title="Capacity under the objective",
        sentence=_sentence(result),
        measures=(
            f"Windows of {duration(result.windows.width)}: arrivals and completions in it, average of requests in the "
            "system, response time of the requests that arrived in it."
        ),
        failures=tuple(result.failures),
        tables=tuple(_tables(result)),
        pictures=(
            *(pictures if not result.loop.closed else ()),
            Picture(
                "capacity-law",
                "Throughput against concurrency",
                "Each point is a window, the line the universal scalability law. Flat: saturated. Falling: more load "
                "gives less throughput.",
                partial(throughput_against_concurrency, result),
                law_reading(result),
            ),
        ),
        notes=tuple(result.notes),
    )


def sizing_section(sizing: Sizing) -> Section:
    """Return the section of a target rate's instances, if the rate of one is known without a log."""
    return Section(key="capacity", title="Capacity under the objective", sentence=_sized(sizing))


def _sentence(result: Capacity) -> str:
    parts = [_broken(knee) for knee in result.knees]
    if not parts and result.usl is not None:
        peak = result.usl.peak
        parts.append(
            f"Throughput peaks at {_rate(peak[1])} with {peak[0]:.3g} requests in the system."
            if peak
            else f"No peak of throughput: it did not fall up to {result.usl.most:.3g} requests in the system."
        )
    if not parts:
        parts.append(f"The capacity is unknown: {result.usl_reason}.")
    if result.sizing is not None:
        parts.append(_sized(result.sizing))
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
        return f"{knee.slo} held at every observed load: capacity is at least {_rate(knee.at_least)}."
    if knee.at_most is not None:
        return f"{knee.slo} was broken at every observed load: capacity is below {_rate(knee.at_most)}."
    return f"{knee.slo}: {knee.reason}."


def _sized(sizing: Sizing) -> str:
    target = f"{_rate(sizing.target_rate)} with {percent(sizing.headroom)} headroom"
    if sizing.instances is None or sizing.per_instance is None:
        return f"Instances for {target}: {sizing.reason}."
    most = "at most " if sizing.bound == "at most" else ""
    ends = ""
    if sizing.low is not None and sizing.high is not None and sizing.low != sizing.high:
        ends = f" ({sizing.low:,} to {sizing.high:,})"
    elif sizing.low is None and sizing.high not in (None, sizing.instances):
        ends = f" (up to {sizing.high:,})"
    plural = "s" if sizing.instances != 1 else ""
    return (
        f"For {target}: {most}{sizing.instances:,} instance{plural}{ends}, of {_rate(sizing.per_instance)} each "
        f"({sizing.source})."
    )


def _tables(result: Capacity) -> list[Table]:
    tables = []
    if result.usl is not None:
        tables.append(_law(result.usl))
    elif result.usl_reason and result.knees:
        tables.append(Table(("universal scalability law", ""), (("not fitted", result.usl_reason),), text_columns=2))
    if result.by_instance:
        tables.append(_by_instance(result))
    tables.append(_windows(result))
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
        remark = "not significant" if name in usl.unidentified else ""
        rows.append((label, remark, f"{getattr(usl, name):.3g}", f"{low:.3g}", f"{high:.3g}"))
    peak = usl.peak
    rows.append(("peak, requests/s", "" if peak else "none observed", f"{peak[1]:,.4g}" if peak else "–", "", ""))
    title = f"Universal scalability law over {usl.windows} windows, R² {usl.r_squared:.3f}"
    return Table(("", "", "value", "low", "high"), tuple(rows), title, text_columns=2)


def _by_instance(result: Capacity) -> Table:
    rows = []
    for row in sorted(result.by_instance, key=lambda r: -r["requests"]):
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
    return Table((*headings, *(f"knee/s {knee.slo.metric}" for knee in result.knees)), tuple(rows))


def _windows(result: Capacity) -> Table:
    ordered = result.windows.table.sort("rate", "window", "instance")
    picked = sorted({round(i * (len(ordered) - 1) / (WINDOW_ROWS - 1)) for i in range(WINDOW_ROWS)})
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
    return Table(headings, tuple(rows), title, text_columns=0, shown=WINDOW_ROWS)


def _objective(result: Capacity, knee: Knee, number: int) -> Picture:
    return Picture(
        f"capacity-objective-{number}",
        f"{knee.slo.metric} against the load",
        "Each point is a window; the line is a monotone fit, and the knee is its crossing with the dashed objective.",
        partial(objective_against_rate, result, knee),
        objective_reading(result, knee),
    )


def objective_reading(result: Capacity, knee: Knee) -> str:
    """Return a sentence on the objective in the quietest and the busiest window, and on its knee."""
    metric = knee.slo.metric
    windows = result.windows.table.drop_nulls(["rate", metric]).sort("rate")
    if windows.is_empty():
        return f"The {metric} is unknown in all of {counted(len(result.windows.table), 'window')}."
    written = percent if metric == "errors" else duration
    first, last = windows.row(0, named=True), windows.row(-1, named=True)
    return (
        f"{written(first[metric])} at {_rate(first['rate'])}, the quietest of {counted(len(windows), 'window')}, and "
        f"{written(last[metric])} at {_rate(last['rate'])}, the busiest; {_broken(knee)}"
    )


def law_reading(result: Capacity) -> str:
    """Return a sentence on the highest throughput, and on the peak of the law."""
    top = result.windows.table.drop_nulls(["throughput", "concurrency"]).sort("throughput").tail(1)
    if top.is_empty():
        return "No windows."
    most = top.row(0, named=True)
    text = (
        f"The highest throughput was {_rate(most['throughput'])}, with {most['concurrency']:.3g} requests in the system"
    )
    if result.usl is None:
        return f"{text}; no law was fitted: {result.usl_reason}."
    peak = result.usl.peak
    if peak is None:
        return f"{text}; the law has no peak in the observed range."
    return f"{text}; the law peaks at {_rate(peak[1])} with {peak[0]:.3g}."


def _rate(value: float) -> str:
    return f"{value:,.0f} requests/s" if value >= 100 or value == round(value) else f"{value:,.3g} requests/s"


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return capacity_section(capacity(context.requests, slo=f"p99={context.slo}"))
