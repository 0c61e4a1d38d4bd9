"""Changes that are predicted from the log of one case and made in another: the error of the prediction."""

from __future__ import annotations

from typing import Any

from sojourn import Requests

from sojourn_lab.errors import LabError
from sojourn_lab.results.requests import case_split, case_what_if, logged
from sojourn_lab.results.run_schema import Predicted, PredictionResult
from sojourn_lab.runtime.versions import processors
from sojourn_lab.scenario.schema import Prediction, Scenario

FIGURES = ("mean", "p50", "p99")


def prediction_results(scenario: Scenario, requests: Requests | None, faults: list[str]) -> list[PredictionResult]:
    """Return the result of every prediction; predictions that fail are added to `faults`.

    For repeated cases the first round is used: the same requests, before and after. A prediction from or to a case that
    was skipped is left out.
    """
    names = {case.name: scenario.name_in(case, 1) for case in scenario.cases}
    results: list[PredictionResult] = []
    if requests is None:
        return results
    for each in scenario.predictions:
        if not all(logged(requests, names[case]) for case in (each.before, each.after)):
            continue
        try:
            # The prediction uses no data of the case `after`.
            cores = processors() if each.cores else None
            whatif = case_what_if(requests, names[each.before], dict(each.set), cores)
            results.append(compared(each, whatif, case_split(requests, names[each.after])["response_time"]))
        except LabError as error:
            faults.append(str(error))
    return results


def compared(prediction: Prediction, whatif: dict[str, Any], after: dict[str, float | None]) -> PredictionResult:
    """Return a prediction (`whatif`: as `sojourn whatif --json`) with the response times measured after the change."""
    variants = whatif.get("variants") or [{}]
    variant = variants[0]
    figures = {
        name: Predicted(
            before=whatif["measured"]["response_time"].get(name),
            predicted=variant.get("response_time", {}).get(name),
            after=after.get(name),
            interval=_interval(variant, name),
        )
        for name in FIGURES
    }
    for figure in figures.values():
        if figure.predicted is not None and figure.after:
            figure.error = figure.predicted / figure.after - 1.0
        if figure.before and figure.after is not None:
            figure.moved = figure.after / figure.before - 1.0
    errors = [abs(figure.error) for name in ("mean", "p99") if (figure := figures[name]).error is not None]
    withheld = next((each["reason"] for each in whatif.get("withheld", ())), None)
    replay = {name: whatif["error"].get(name) for name in ("mean", "p99")}
    return PredictionResult(
        prediction.change,
        prediction.before,
        prediction.after,
        dict(prediction.set),
        **figures,
        replay=replay,
        refused=whatif.get("refused") or withheld,
        largest_error=max(errors, default=0.0),
    )


def _interval(variant: dict[str, Any], name: str) -> list[float] | None:
    ends = variant.get("interval", {}).get(name)
    return [float(end) for end in ends] if isinstance(ends, list | tuple) else None
