"""The section of ``compare``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sojourn.analyses.compare.analysis import FIGURES, Comparison
from sojourn.analyses.compare.change import Change, signed
from sojourn.analyses.compare.charts import changes, composition
from sojourn.analyses.compare.run import compare
from sojourn.analyses.question import ReportContext
from sojourn.model.formatting import counted, duration, milliseconds, percent
from sojourn.model.verdict import CAUSES
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

LABELS = {"p999": "p99.9"}
WORTH = 0.0005  # s: components with smaller figures are left out


@lay_out.register(Comparison)
def compare_section(comparison: Comparison) -> Section:
    """Return the section of ``compare``: the changes with their intervals, by component and by group."""
    return Section(
        key="compare",
        title="Change of the response time",
        sentence=comparison.sentence,
        measures=(
            f"A: {_described(comparison, 0)}. B: {_described(comparison, 1)}. Change: B minus A, with its 95 % "
            "interval by a bootstrap over periods of time."
        ),
        failures=tuple(comparison.failures),
        tables=(
            Table(
                ("response time, ms", "A", "B", "change", "95 %"),
                tuple((LABELS.get(name, name), *_cells(comparison.figures[name])) for name in FIGURES),
            ),
            _parts("mean of all requests", comparison, comparison.components, comparison.figures["mean"]),
            _parts("mean of the slowest 1 %", comparison, comparison.tail, comparison.tail_mean),
            *([_groups(comparison)] if comparison.groups_total > 1 else []),
        ),
        pictures=(
            Picture(
                "compare-composition",
                "Components of the response time",
                "Mean of all requests and of the slowest 1 %, on either side.",
                partial(composition, comparison),
                composition_reading(comparison),
            ),
            Picture(
                "compare-changes",
                "Change of the slowest 1 %, by component",
                "The bars sum to the change. If the line (95 % interval) crosses zero, the change is not significant.",
                partial(changes, comparison),
                changes_reading(comparison),
            ),
        ),
        notes=tuple(comparison.notes),
        short=short_of(comparison),
    )


def short_of(comparison: Comparison) -> str:
    """Return the significant changes of the mean and of p99, without their intervals."""
    parts = []
    for name, label in (("mean", "the mean"), ("p99", "p99")):
        change = comparison.figures[name]
        if change.certain:
            way = "rose" if change.change > 0 else "fell"
            parts.append(f"{label} {way} from {duration(change.a)} to {duration(change.b)}")
    if not parts:
        return "No significant change of the mean or of p99."
    text = " and ".join(parts)
    return f"{text[0].upper()}{text[1:]}, from {comparison.names[0]} to {comparison.names[1]}."


def composition_reading(comparison: Comparison) -> str:
    """Describe the means of both sides, and how much of each was queueing."""

    def side(name: str) -> str:
        queueing = sum(getattr(comparison.components[part], name) for part in CAUSES["queueing"])
        return f"{duration(getattr(comparison.figures['mean'], name))}, {duration(queueing)} of it queueing"

    if comparison.incomparable:
        return comparison.incomparable
    return f"The mean response time is {side('a')}, in A, and {side('b')}, in B."


def changes_reading(comparison: Comparison) -> str:
    """Describe the component that changed most in the slowest 1 %."""
    if comparison.incomparable:
        return comparison.incomparable
    name, change = max(comparison.tail.items(), key=lambda item: abs(item[1].change))
    chance = "" if change.certain else ", which is not significant"
    return (
        f"The slowest 1 % changed by {signed(comparison.tail_mean.change)} ms on average; {name.replace('_', ' ')} "
        f"changed most, by {signed(change.change)} ms (95 %: {signed(change.low)} to {signed(change.high)}){chance}."
    )


def _described(comparison: Comparison, side: int) -> str:
    split, rate = (comparison.a, comparison.b)[side], comparison.rates[side]
    return f"{comparison.names[side]}, {counted(split.requests, 'request')}" + (f", {rate:.3g}/s" if rate else "")


def _cells(change: Change) -> tuple[str, ...]:
    low, high = milliseconds(change.low), milliseconds(change.high)
    return (milliseconds(change.a), milliseconds(change.b), signed(change.change), f"{low} … {high}")


def _parts(title: str, comparison: Comparison, parts: Mapping[str, Change], whole: Change) -> Table:
    rows = []
    for name, change in parts.items():
        if max(abs(change.a), abs(change.b), abs(change.change)) > WORTH:
            sides = ((comparison.a, change.a), (comparison.b, change.b))
            figures = [None if split.components[name]["mean"] is None else figure for split, figure in sides]
            if comparison.incomparable and None in figures:
                rows.append((name.replace("_", " "), *map(milliseconds, figures), "–", "–", "–"))
                continue
            share = change.change / whole.change if whole.certain else None
            percentage = percent(0.0 if share is not None and abs(share) < 0.0005 else share)
            rows.append((name.replace("_", " "), *_cells(change), percentage))
    rows.append(("sum", *_cells(whole), ""))
    return Table((f"{title}, ms", "A", "B", "change", "95 %", "of it"), tuple(rows))


def _groups(comparison: Comparison) -> Table:
    rows = []
    for group in comparison.groups:
        a, b = group.share
        low, high = milliseconds(group.low), milliseconds(group.high)
        rows.append(
            (group.name or "–", percent(a), percent(b), milliseconds(group.mean[0]), milliseconds(group.mean[1]),
             signed(group.contribution), signed(group.mix), f"{low} … {high}")
        )  # fmt: skip
    headings = (f"by {comparison.by}", "of A", "of B", "mean A", "mean B", "adds", "by mix", "95 %")
    title = "What each adds to the change of the mean, ms; by mix: its share of the requests changed"
    return Table(headings, tuple(rows), title)


def report_section(context: ReportContext) -> Section | None:
    """Return the section of a report."""
    if context.before is None:
        return None
    return compare_section(compare(context.before, context.requests, by=context.by, names=("before", "now")))
