"""What a run taught, in plain sentences made from its figures alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

import msgspec
from sojourn.words import milliseconds

from sojourn_lab.criteria import by_base, median_at, number_at, skipped
from sojourn_lab.document import CaseResult, ContrastResult, PredictionResult
from sojourn_lab.load import ClosedLoad
from sojourn_lab.scenario import Scenario

PLACE = re.compile(r"\{(?:([a-z0-9._-]+):)?([A-Za-z0-9_./-]+)(?:\|([^}]*))?\}")


def lessons_of(
    scenario: Scenario,
    cases: list[CaseResult],
    predictions: Sequence[PredictionResult] = (),
    contrasts: Sequence[ContrastResult] = (),
) -> list[str]:
    """Return the sentences for a run's record and its table; none for what was not measured."""
    told = [paragraph(scenario.learned, cases, contrasts)] if scenario.learned else []
    grown = [] if scenario.learned else _growth(cases)
    return [*_skipped(cases), *told, *grown, *_beside_reference(scenario, cases), *_foretold(predictions)]


def _skipped(cases: Sequence[CaseResult]) -> list[str]:
    """Return which cases were not measured, and why: nobody shall take their absence for a result."""
    reasons = {name: skipped(rounds) for name, rounds in by_base(cases).items()}
    return [f"{name} was skipped, nothing is known of it: {reason}." for name, reason in reasons.items() if reason]


def paragraph(text: str, cases: Sequence[CaseResult], contrasts: Sequence[ContrastResult] = ()) -> str:
    """Return a scenario's paragraph with its places filled: `{case:path|form}`, of repeated cases by their median.

    Of a contrast: `{name:ratio}`. A place for which there is no figure becomes a dash.
    """
    rounds = {each.name: [msgspec.to_builtins(each)] for each in contrasts} | by_base(cases)

    def filled(match: re.Match[str]) -> str:
        case, path, form = match[1], match[2], match[3] or ".3g"
        found = rounds.get(case, []) if case is not None else (next(iter(rounds.values()), []))
        return formed(median_at(path, found), form)

    return " ".join(PLACE.sub(filled, text).split())


def formed(value: float | None, form: str) -> str:
    """Return a figure as `ms`, `s`, `%`, `count`, or by one of Python's number formats; a dash for none."""
    if value is None:
        return "–"
    if form == "ms":
        return f"{milliseconds(value)} ms"
    if form == "%":
        form = ".0%" if abs(value) >= 0.1 or value == 0.0 else ".1%"
    unit = " s" if form == "s" else ""
    return format(value, {"s": ".3g", "count": ",.0f", "number": ".3g"}.get(form, form)) + unit


def _foretold(predictions: Sequence[PredictionResult]) -> list[str]:
    """Return what each change was said to bring and what it brought, and the largest error of all."""
    sentences: list[str] = []
    errors: list[tuple[float, str]] = []
    for each in predictions:
        if each.refused is not None:
            sentences.append(f"{each.change}: nothing was predicted, because {each.refused}")
        p99 = each.p99
        if p99.before is None or p99.predicted is None or p99.after is None or p99.error is None:
            continue
        sentences.append(
            f"{each.change}: p99 was to go from {milliseconds(p99.before)} to {milliseconds(p99.predicted)} ms,"
            f" and went to {milliseconds(p99.after)} ms: the prediction was off by {p99.error:+.1%}."
        )
        named = ((each.p50.error, "p50"), (p99.error, "p99"))
        errors += [(error, f"{name} of {each.change}") for error, name in named if error is not None]
    if len(errors) > 2:
        error, where = max(errors, key=lambda pair: abs(pair[0]))
        sentences.append(f"Of {len(errors)} predicted figures the one furthest off is the {where}: {error:+.1%}.")
    return sentences


def _growth(cases: list[CaseResult]) -> list[str]:
    """Return how service time and queueing delay moved between the least and the most users."""
    loops = [
        (case.service_time, case.load.concurrency, means)
        for case in cases
        if isinstance(case.load, ClosedLoad) and case.law is not None and (means := _means(case)) is not None
    ]
    sentences: list[str] = []
    for asked, group in groupby(sorted(loops), key=lambda loop: loop[0]):
        members = list(group)
        (_, fewest, (service, queueing)), (_, most, (last_service, last_queueing)) = members[0], members[-1]
        if fewest == most:
            continue
        queue_grew = last_queueing - queueing > 2.0 * abs(last_service - service)
        sentences.append(
            f"At {milliseconds(asked)} ms of service, going from {fewest} to {most} users moved the service"
            f" time from {milliseconds(service)} to {milliseconds(last_service)} ms and the queueing delay"
            f" from {milliseconds(queueing)} to {milliseconds(last_queueing)} ms"
            + (": the code did not get slower, the queue got longer." if queue_grew else ".")
        )
    return sentences


def _means(case: CaseResult) -> tuple[float, float] | None:
    service = number_at("components.service_time.mean", case.split)
    queueing = number_at("components.queueing_delay.mean", case.split)
    return None if service is None or queueing is None else (service, queueing)


def _beside_reference(scenario: Scenario, cases: list[CaseResult]) -> list[str]:
    """Return how far the reference figures are from the law and from what was measured here."""
    sentences: list[str] = []
    for case in cases:
        response = case.reference.response_time if case.reference is not None else None
        measured = number_at("response_time.mean", case.split)
        if response is None or measured is None or case.law is None:
            continue
        law = case.law.response_time
        sentences.append(
            f"{case.name}: the {scenario.reference_name}'s response time of {milliseconds(response)} ms is"
            f" {response / law:.1f} times the law's {milliseconds(law)} ms and"
            f" {response / measured:.1f} times the {milliseconds(measured)} ms measured here."
        )
    if sentences and scenario.reference_note:
        sentences.append(scenario.reference_note)
    return sentences
