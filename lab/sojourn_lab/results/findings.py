"""Findings of a run: sentences made from its figures alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from sojourn.model.formatting import counted, formatted, listed, milliseconds, percent

from sojourn_lab.results.app_times import app_times_sentence
from sojourn_lab.results.criteria import by_base, median_at, skipped
from sojourn_lab.results.run_schema import CaseResult, ContrastResult, PredictionResult, Run
from sojourn_lab.scenario.load import ClosedLoad
from sojourn_lab.scenario.schema import Scenario

PASSED, FAILED, VOID = "✓ passed", "✗ failed", "⚠ void"
"""The state of a run or of a criterion: a sign and a word, which differ without colour."""
STEADY = 0.02  # share of a service time: a smaller change counts as none
SENTENCE_END = re.compile(r"(?<=[\w%)]\.) (?=[A-Z])")
PLACE = re.compile(r"\{(?:([a-z0-9._-]+):)?([A-Za-z0-9_./-]+)(?:\|([^}]*))?\}")


def lessons_of(
    scenario: Scenario,
    cases: list[CaseResult],
    predictions: Sequence[PredictionResult] = (),
    contrasts: Sequence[ContrastResult] = (),
) -> list[str]:
    """Return the sentences for a run's record and its table; figures that were not measured have none."""
    learned = [paragraph(scenario.learned, cases, contrasts)] if scenario.learned else []
    grown = [] if scenario.learned else _growth(cases)
    return [
        *_skipped(cases),
        *learned,
        *grown,
        *reference_sentences(scenario, cases),
        *_prediction_sentences(predictions),
        *filter(None, [app_times_sentence([case.app_times for case in cases if case.app_times is not None])]),
    ]


def findings(run: Run) -> list[str]:
    """Return the findings of a run, one per sentence, without the comparison with the reference."""
    beside = reference_sentences(run.scenario, run.cases)
    return [sentence for text in run.learned if text not in beside for sentence in SENTENCE_END.split(text)]


def outcome(run: Run) -> str:
    """Return in one sentence whether a run that is not void passed, and how many criteria were met."""
    missed = sum(not each.passed for each in run.criteria)
    faults = [counted(len(run.faults), "fault")] if run.faults else []
    if missed:
        criteria = counted(len(run.criteria), "criterion", "criteria")
        text = f"{missed} of {criteria} {'was' if missed == 1 else 'were'} missed"
    elif run.criteria:
        criteria = counted(len(run.criteria), "criterion was", "criteria were")
        text = f"{'all ' if len(run.criteria) > 1 else ''}{criteria} met"
    else:
        text = "no criterion was set"
    return f"{FAILED if missed or faults else PASSED}: {', '.join([text, *faults])}."


def void_sentence(run: Run) -> str:
    """Return that a run is void, why, and what to do; empty for one that is not."""
    if not run.void:
        return ""
    again = " again" if run.first_try else ""
    return f"{VOID}{again}: do not use the figures of this run. {'; '.join(run.void_reasons)}. {run.advice}".strip()


def _skipped(cases: Sequence[CaseResult]) -> list[str]:
    """Return the cases that were not measured, with the reasons, so that their absence is not read as a result."""
    reasons = {name: skipped(rounds) for name, rounds in by_base(cases).items()}
    return [f"{name} was skipped and has no figures: {reason}." for name, reason in reasons.items() if reason]


def paragraph(text: str, cases: Sequence[CaseResult], contrasts: Sequence[ContrastResult] = ()) -> str:
    """Return a scenario's paragraph with its placeholders filled: `{case:path|form}`, the median of repeated cases.

    A contrast has `{name:ratio}`. A placeholder without a figure becomes a dash.
    """
    rounds = {each.name: [msgspec.to_builtins(each)] for each in contrasts} | by_base(cases)

    def filled(match: re.Match[str]) -> str:
        case, path, form = match[1], match[2], match[3] or ".3g"
        values = rounds.get(case, []) if case is not None else (next(iter(rounds.values()), []))
        return formed(median_at(path, values), form)

    return " ".join(PLACE.sub(filled, text).split())


def formed(value: float | None, form: str) -> str:
    """Return a figure as `ms`, `s`, `%`, `count`, or by one of Python's number formats; a dash for None."""
    if value is None:
        return "–"
    if form == "ms":
        return f"{milliseconds(value)} ms"
    if form == "%":
        return percent(value)
    unit = " s" if form == "s" else ""
    return formatted(value, {"s": ".3g", "count": ",.0f", "number": ".3g"}.get(form, form)) + unit


def _prediction_sentences(predictions: Sequence[PredictionResult]) -> list[str]:
    """Return the predicted and the measured figures of each change, and the largest error of all."""
    sentences: list[str] = []
    errors: list[tuple[float, str]] = []
    for each in predictions:
        if each.refused is not None:
            sentences.append(f"{each.change}: nothing was predicted, because {each.refused}")
        p99 = each.p99
        if p99.before is None or p99.predicted is None or p99.after is None or p99.error is None:
            continue
        sentences.append(
            f"{each.change}: p99 was predicted to go from {milliseconds(p99.before)} to"
            f" {milliseconds(p99.predicted)} ms and went to {milliseconds(p99.after)} ms, an error of"
            f" {formatted(p99.error, '+.1%')}."
        )
        own = ((each.p50.error, "p50"), (p99.error, "p99"))
        errors += [(error, f"{name} of {each.change}") for error, name in own if error is not None]
    if len(errors) > 2:
        error, where = max(errors, key=lambda pair: abs(pair[0]))
        sentences.append(
            f"Of {counted(len(errors), 'predicted figure')} the {where} has the largest error: "
            f"{formatted(error, '+.1%')}."
        )
    return sentences


class Means(NamedTuple):
    """The means of a case with `users` users, s."""

    users: int
    service: float
    queueing: float


Growth = tuple[Means, Means]
"""The same service with the fewest users, and with the most."""


def _growth(cases: Sequence[CaseResult]) -> list[str]:
    """Return sentences on the change of queueing delay and service time between the fewest and the most users."""
    by_service: dict[float, list[Means]] = {}
    rounds = by_base(cases)
    for case in cases:
        if case.round == 1 and isinstance(case.load, ClosedLoad) and case.law is not None:
            own = rounds[case.base or case.name]
            service = median_at("split.components.service_time.mean", own)
            queueing = median_at("split.components.queueing_delay.mean", own)
            if service is not None and queueing is not None:
                by_service.setdefault(case.service_time, []).append(Means(case.load.concurrency, service, queueing))
    by_users: dict[tuple[int, int], list[Growth]] = {}
    for _, means in sorted(by_service.items()):
        fewest, most = min(means), max(means)
        if fewest.users != most.users:
            by_users.setdefault((fewest.users, most.users), []).append((fewest, most))
    return [_growth_sentence(growths) for growths in by_users.values()]


def _growth_sentence(growths: Sequence[Growth]) -> str:
    """Return the sentence for services with the same numbers of users."""

    def from_to(before: float, after: float) -> str:
        return f"from {milliseconds(before)} to {milliseconds(after)} ms"

    queueing = listed([from_to(few.queueing, many.queueing) for few, many in growths])
    if all(abs(many.service - few.service) <= STEADY * few.service for few, many in growths):
        service = f"remains at {listed([milliseconds(many.service) for _, many in growths])} ms"
    else:
        service = f"goes {listed([from_to(few.service, many.service) for few, many in growths])}"
    grew = all(many.queueing - few.queueing > 2.0 * abs(many.service - few.service) for few, many in growths)
    few, many = growths[0]
    return (
        f"From {few.users} to {counted(many.users, 'user')} the queueing delay goes {queueing}, and the service time"
        f" {service}" + (": the code did not get slower, the queue got longer." if grew else ".")
    )


def reference_sentences(scenario: Scenario, cases: list[CaseResult]) -> list[str]:
    """Return sentences that compare the reference with the law and the measurement, and the reference's note."""
    sentences: list[str] = []
    rounds = by_base(cases)
    for case in cases:
        name = case.base or case.name
        response = case.reference.response_time if case.reference is not None else None
        measured = median_at("split.response_time.mean", rounds[name])
        if case.round > 1 or response is None or measured is None or case.law is None:
            continue
        law = case.law.response_time
        sentences.append(
            f"{name}: the {scenario.reference_name}'s response time of {milliseconds(response)} ms is"
            f" {response / law:.1f} times the law's {milliseconds(law)} ms and"
            f" {response / measured:.1f} times the {milliseconds(measured)} ms measured here."
        )
    if sentences and scenario.reference_note:
        sentences.append(scenario.reference_note)
    return sentences
