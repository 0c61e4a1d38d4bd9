"""A run as rows of text, for a terminal and for its report: every function returns (headings, rows)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from sojourn.model.formatting import formatted, milliseconds

from sojourn_lab.results.criteria import by_base, median_at, number_at, value_at
from sojourn_lab.results.findings import FAILED, PASSED, formed
from sojourn_lab.results.metric_units import ABSENT, metric_text
from sojourn_lab.results.run_schema import CriterionResult, Run
from sojourn_lab.scenario.schema import Column, Reference

CRITERIA = "Criteria, stated before the run"
TARGETS = "By target, at the clients"
CONTRASTS = "Cases compared over the rounds"
PREDICTIONS = "Predictions and measurements: response time"
LAW = "queueing by the law"
UNITS = {"ms": ", ms", "s": ", s"}

Rows = tuple[list[str], list[list[str]]]


def result_rows(run: Run) -> Rows:
    """Return the scenario's columns for every case; without columns, the means with the law's queueing delay."""
    return figure_rows(run) if run.scenario.columns else mean_rows(run)


def result_caption(run: Run) -> str:
    """Return the caption of `result_rows`: unit, rounds, scale, and the meaning of figures in brackets."""
    rounds = sorted({len(each) for each in by_base(run.cases).values()})
    several = [f"medians of {' or '.join(map(str, rounds))} rounds"] if rounds and rounds[-1] > 1 else []
    scaled = [f"every duration times {run.scale:g}"] if run.scale != 1.0 else []
    if not run.scenario.columns:
        return ", ".join(["means in ms", *several, *scaled])
    compares = any(column.reference for column in run.scenario.columns) and any(case.reference for case in run.cases)
    beside = [f"in ( ) the {run.scenario.reference_name}'s"] if compares else []
    return ", ".join([*several, *scaled, *beside])


def figure_rows(run: Run) -> Rows:
    """Return the scenario's columns: medians over the rounds, and the reference's figures in brackets."""
    columns = run.scenario.columns
    headings = ["case", *(f"{each.title}{UNITS.get(each.shown, '')}" for each in columns)]
    references = {case.base or case.name: case.reference for case in run.cases}
    void = void_cases(run)
    rows = []
    for name, rounds in by_base(run.cases).items():
        cells = [name + (" (void)" if name in void else "")]
        for column in columns:
            cell, beside = _measured_text(column, rounds), _reference_text(column, references[name])
            cells.append(f"{cell} ({beside})" if beside else cell)
        rows.append(cells)
    return headings, rows


def void_cases(run: Run) -> set[str]:
    """Return the scenario's names of the cases that are void in any round, as the scenario expects.

    Empty for a void run, whose reasons name the cases.
    """
    return set() if run.void else {case.base or case.name for case in run.cases if case.void}


def _measured_text(column: Column, rounds: list[Any]) -> str:
    if column.shown == "text":
        value = value_at(column.metric, rounds[0])
        return ABSENT if value is None else str(value)
    return figure_text(median_at(column.metric, rounds), column.shown)


def _reference_text(column: Column, reference: Reference | None) -> str:
    if reference is None or column.reference is None:
        return ""
    own = getattr(reference, column.reference, None)
    figure = own if isinstance(own, int | float) else reference.figures.get(column.reference)
    return "" if figure is None else figure_text(figure, column.shown)


def figure_text(value: float | None, form: str) -> str:
    """Return a figure as the text of a cell, in the form `shown` of its column; the heading names its unit."""
    if value is None:
        return ABSENT
    if form == "ms":
        return milliseconds(value)
    return f"{value:.3g}" if form == "s" else formed(value, form)


def mean_rows(run: Run) -> Rows:
    """Return the means of every case, ms, with the queueing delay of a law where one applies.

    Over several rounds, the median.
    """
    law = [LAW] if any(case.law for case in run.cases) else []
    headings = ["case", "requests", "service", "queueing", *law, "response", "connect"]
    void = void_cases(run)
    rows = []
    paths = [
        "split.components.service_time.mean",
        "split.components.queueing_delay.mean",
        *(["law.queueing_delay"] if law else []),
        "split.response_time.mean",
        "split.components.connect.mean",
    ]
    for name, rounds in by_base(run.cases).items():
        case = name + (" (void)" if name in void else "")
        requests = figure_text(median_at("client.offered", rounds), "count")
        rows.append([case, requests, *(milliseconds(median_at(path, rounds)) for path in paths)])
    return headings, rows


def reference_rows(run: Run) -> Rows:
    """Return the measured, the law's and the reference's means, ms.

    There are no rows if the scenario has its own columns: those hold the reference's figures.
    """
    rows = []
    for case, rounds in by_base([] if run.scenario.columns else run.cases).items():
        for name, path in (
            ("service_time", "split.components.service_time.mean"),
            ("queueing_delay", "split.components.queueing_delay.mean"),
            ("response_time", "split.response_time.mean"),
        ):
            if (beside := number_at(f"reference.{name}", rounds[0])) is not None:
                figures = [median_at(path, rounds), median_at(f"law.{name}", rounds), beside]
                rows.append([case, name.replace("_", " "), *map(milliseconds, figures)])
    return ["case", "mean, ms", "measured", "law", run.scenario.reference_name], rows


def prediction_rows(run: Run) -> Rows:
    """Return the figures before each change, predicted, and after it, ms."""
    rows = []
    for each in run.predictions:
        for name, figure in (("p50", each.p50), ("p99", each.p99)):
            rows.append(
                [
                    each.change if name == "p50" else "",
                    name,
                    milliseconds(figure.before),
                    "refused" if each.refused is not None else milliseconds(figure.predicted),
                    milliseconds(figure.after),
                    ABSENT if figure.error is None else formatted(figure.error, "+.1%"),
                ]
            )
    return ["change", "", "before", "predicted", "after", "error"], rows


def target_rows(run: Run) -> Rows:
    """Return the clients' figures of each URL or path, ms, of cases that request several; medians over the rounds."""
    rows = []
    for name, rounds in by_base(run.cases).items():
        targets = value_at("figures.targets", rounds[0]) or {}
        for target in targets:
            figures = [(each.get("figures") or {}).get("targets", {}).get(target) for each in rounds]
            counts = [figure_text(median_at(key, figures), "count") for key in ("requests", "failed")]
            times = [milliseconds(median_at(f"response_time.{key}", figures)) for key in ("mean", "p50", "p99")]
            rows.append([name, target, *counts, *times])
    return ["case", "target", "requests", "failed", "response", "p50", "p99"], rows


def contrast_rows(run: Run) -> Rows:
    """Return the contrasts: both figures, their ratio and its interval."""
    rows = []
    for each in run.contrasts:
        interval = ABSENT if each.low is None or each.high is None else f"{each.low:.3f} to {each.high:.3f}"
        figures = [metric_text(each.metric, [value]) for value in (each.a, each.b)]
        rows.append([each.name, *figures, ABSENT if each.ratio is None else f"{each.ratio:.3f}", interval])
    return ["contrast", "a", "b", "a / b", "95 % interval"], rows


def criteria_rows(run: Run) -> Rows:
    """Return one row per criterion; a failed one has a row per case."""
    rows = []
    for name, group in groupby(run.criteria, key=lambda each: each.name):
        judged = list(group)
        failed = [each for each in judged if not each.passed]
        if not failed:
            rows.append([name, str(len(judged)), PASSED, _measured(judged)])
        rows += [[name, each.case, FAILED, _missed(each)] for each in failed]
    return ["criterion", "cases", "result", "measured"], rows


def _measured(judged: list[CriterionResult]) -> str:
    figures = metric_text(judged[0].metric, [each.value for each in judged], judged[0].name)
    notes = list(dict.fromkeys(each.note for each in judged if each.note))
    return f"{figures} ({'; '.join(notes)})" if notes else figures


def _missed(judged: CriterionResult) -> str:
    figure = metric_text(judged.metric, [judged.value], judged.name)
    return f"{figure}, required: {judged.bound}" + (f" ({judged.note})" if judged.note else "")
