"""Changes that are predicted from the log of one case and then made in another: how far the two are apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn_lab.errors import LabError
from sojourn_lab.results.requests import case_response_time, case_what_if
from sojourn_lab.results.run_schema import Predicted, PredictionResult
from sojourn_lab.scenario.schema import Prediction, Scenario

if TYPE_CHECKING:
    from sojourn import Requests

FIGURES = ("mean", "p50", "p99")


def prediction_results(scenario: Scenario, requests: Requests | None, faults: list[str]) -> list[PredictionResult]:
    """Return what became of every prediction that could be made at all; the others are named in `faults`.

    Of cases that are repeated the first round counts: the same requests, before and after.
    """
    names = {case.name: scenario.name_in(case, 1) for case in scenario.cases}
    results: list[PredictionResult] = []
    if requests is None:
        return results
    for each in scenario.predictions:
        try:
            # Nothing of the case `after` goes into the prediction.
            said = case_what_if(requests, names[each.before], dict(each.set))
            results.append(compared(each, said, case_response_time(requests, names[each.after])))
        except LabError as error:
            faults.append(str(error))
    return results


def compared(prediction: Prediction, said: dict[str, Any], after: dict[str, float | None]) -> PredictionResult:
    """Return a prediction (`said`: as `sojourn whatif --json`) beside the response times measured after the change."""
    variants = said.get("variants") or [{}]
    foretold = variants[0]
    figures = {
        name: Predicted(
            before=said["measured"]["response_time"].get(name),
            predicted=foretold.get("response_time", {}).get(name),
            after=after.get(name),
            interval=_interval(foretold, name),
        )
        for name in FIGURES
    }
    for figure in figures.values():
        if figure.predicted is not None and figure.after:
            figure.error = figure.predicted / figure.after - 1.0
        if figure.before and figure.after is not None:
            figure.moved = figure.after / figure.before - 1.0
    replay = {name: said["error"].get(name) for name in ("mean", "p99")}
    return PredictionResult(
        prediction.change,
        prediction.before,
        prediction.after,
        dict(prediction.set),
        **figures,
        replay=replay,
        refused=said.get("refused"),
    )


def _interval(variant: dict[str, Any], name: str) -> list[float] | None:
    found = variant.get("interval", {}).get(name)
    return [float(end) for end in found] if isinstance(found, list | tuple) else None
