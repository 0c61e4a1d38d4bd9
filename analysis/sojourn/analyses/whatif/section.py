"""Layout of a what-if result."""

from __future__ import annotations

import math
from functools import partial

from sojourn.analyses.question import ReportContext
from sojourn.analyses.whatif.charts import p99_by_variant, responses
from sojourn.analyses.whatif.result import ROUGH, Variant, WhatIfResult
from sojourn.analyses.whatif.run import whatif
from sojourn.analyses.whatif.variants import written
from sojourn.model.formatting import duration, formatted, milliseconds, percent, printable
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

SETTING_NAMES = {
    "round_robin": "in turn",
    "least_conn": "least connections",
    "two_choices": "the better of two at random",
    "shared_queue": "one queue for all",
    "sjf": "shortest first",
    "adaptive_lifo": "adaptive LIFO",
    "lifo": "LIFO",
}
MEASURED = (
    "Measured arrivals at the backends and measured service times, replayed. Response: as measured by nginx, with only "
    "the queueing delay changed."
)
INFERRED = (
    "Arrivals at the backends as logged and inferred service times, replayed. Response: as logged, with only the "
    "queueing delay changed."
)
IN_WORDS = {
    "processes": "one queue for all processes of each backend",
    "absent": "workers that are never absent",
}
SPANS = " The app's spans (--spans) show for how long workers were held."
RANKED = {"p99": "p99", "p90": "p90", "p50": "the median", "mean": "the mean", "goodput": "goodput"}


@lay_out.register(WhatIfResult)
def whatif_section(result: WhatIfResult) -> Section:
    """Lay out how well the replay fits, and the variants from the best to the worst."""
    # Without a prediction there is no failure: the sentence says why there is none.
    failures = (f"unreliable: {result.refused}",) if result.forced else ()
    pictures: tuple[Picture, ...] = ()
    if result.variants:
        pictures = (
            Picture(
                "whatif-variants",
                "p99 under each change",
                "Bars: predicted p99 of the response time, with the 95 % interval of resamples. Dashed line: the "
                "replay of the recorded configuration.",
                partial(p99_by_variant, result),
                variants_reading(result),
            ),
            Picture(
                "whatif-responses",
                "Response times: measured, replayed, and predicted",
                "The share of requests that took longer than a time. Where measured and replayed agree, the "
                "predictions are reliable.",
                partial(responses, result),
                fit_reading(result),
            ),
        )
    return Section(
        key="whatif",
        title="What-if: response times under other configurations",
        sentence=sentence(result),
        measures=INFERRED if set(result.queue_source) - {"none"} == {"inferred"} else MEASURED,
        failures=failures,
        tables=(_fit(result), *([_variants(result)] if result.variants else [])),
        pictures=pictures,
        notes=(
            *(f"{written(each.settings)} is not predicted: {each.reason}." for each in result.withheld),
            *result.notes,
        ),
        short=short_of(result) if _helps(result) else "",
    )


def variants_reading(result: WhatIfResult) -> str:
    """Return a sentence on the variant with the lowest p99, compared with the replay of the recorded configuration."""
    best = min(result.variants, key=lambda variant: variant.response_time["p99"] or 0.0)
    low, high = best.interval["p99"]
    unchanged, changes = f"p99 is {duration(result.replayed['response_time']['p99'])} unchanged", len(result.variants)
    if best.change["p99"] >= 0:
        return f"{unchanged}; none of the changes ({changes}) reduces it."
    return (
        f"{unchanged}; the best of the changes ({changes}), {name_of(best)}, would reduce it to "
        f"{duration(best.response_time['p99'])} (95 %: {duration(low)} to {duration(high)})."
    )


def fit_reading(result: WhatIfResult) -> str:
    """Return a sentence on the error of the replay of the recorded configuration."""
    measured, replayed = (figures["response_time"] for figures in (result.measured, result.replayed))
    return (
        f"One request in a hundred took {duration(measured['p99'])} or longer as measured, and "
        f"{duration(replayed['p99'])} or longer as replayed, {formatted(result.error['p99'], '+.1%')}; the mean is off "
        f"by {formatted(result.error['mean'], '+.1%')}."
    )


def short_of(result: WhatIfResult) -> str:
    """Return a sentence on the best variant without technical terms, for the summary of a report."""
    best = result.variants[0]
    change = " and ".join(_in_plain_words(key, value) for key, value in best.settings.items())
    assumed = _assumption(best)
    if result.rank == "goodput":
        return (
            f"By a replay of these requests, {best.goodput:.3g} instead of {result.system['goodput']:.3g} requests/s "
            f"would be answered in time with {change}{assumed}."
        )
    shares = {"mean": "the mean", "p50": "half of the requests", "p90": "one request in ten"}
    share = shares.get(result.rank, "one request in a hundred")
    longer = "" if result.rank == "mean" else " or longer" if result.rank != "p50" else " or less"
    low, high = best.interval[result.rank]
    return (
        f"By a replay of these requests with {change}, {share} would take "
        f"{duration(best.response_time[result.rank])}{longer} instead of "
        f"{duration(result.replayed['response_time'][result.rank])} (95 %: {duration(low)} to {duration(high)})"
        f"{assumed}{_rough(result)}."
    )


def _in_plain_words(key: str, value: str) -> str:
    kind, _, route = key.partition(":")
    if kind == "workers" and value.startswith("+"):
        return f"{value[1:]} more worker{'' if value == '+1' else 's'} per backend"
    if kind in IN_WORDS:
        return IN_WORDS[kind]
    if kind != "service":
        return _described(key, value)
    return f"{printable(route or 'everything', 60)} served in {percent(float(value.lstrip('x×')))} of its time"


def _helps(result: WhatIfResult) -> bool:
    """Return whether the best variant is predicted to be better by more than chance."""
    if not result.variants or result.forced:
        return False
    best = result.variants[0]
    if result.rank == "goodput":
        return best.goodput > result.system["goodput"]
    return best.change_interval[result.rank][1] < 0


def sentence(result: WhatIfResult) -> str:
    """Return the best variant in one sentence, or why there is none."""
    if not result.variants:
        return f"No prediction: {result.refused or result.withheld[0].reason}.{_remedy(result)}"
    best = result.variants[0]
    unchanged, predicted = result.replayed["response_time"], best.response_time
    if result.rank == "goodput":
        present = f"{result.system['goodput']:.3g}"
        return (
            f"{name_of(best)} would bring goodput from {present} to {best.goodput:.3g} requests/s{_assumption(best)}"
            f"{_rough(result)}."
        )
    low, high = best.change_interval[result.rank]
    if best.change[result.rank] >= 0:
        return (
            f"No variant is better: {name_of(best)} would change {RANKED[result.rank]} by "
            f"{formatted(best.change[result.rank], '+.0%')}."
        )
    return (
        f"{name_of(best)} would bring {RANKED[result.rank]} from {milliseconds(unchanged[result.rank])} to "
        f"{milliseconds(predicted[result.rank])} ms ({formatted(best.change[result.rank], '+.0%')}; 95 %: "
        f"{formatted(low, '+.0%')} to {formatted(high, '+.0%')}){_assumption(best)}{_rough(result)}."
    )


def _remedy(result: WhatIfResult) -> str:
    """Return what may allow a prediction, as the end of a text."""
    if result.refused is None:
        return ""
    spans = "" if result.has_spans or "--spans" in result.refused else SPANS
    return f"{spans} --force predicts all the same, and marks the prediction as unreliable."


def _grade(result: WhatIfResult) -> str:
    """Return the grade of predictions, in words."""
    return f"Rough (±{percent(result.largest_error)})" if result.grade == ROUGH else result.grade.capitalize()


def _rough(result: WhatIfResult) -> str:
    """Return that a prediction is rough, as the end of a sentence; "" if it is exact."""
    if result.grade != ROUGH:
        return ""
    return (
        f"; a rough prediction, as the replay of the recorded configuration is off by {percent(result.largest_error)}"
    )


def _assumption(variant: Variant) -> str:
    """Return what a prediction assumes, as the end of a sentence; "" if nothing."""
    return ", if more services at a time do not slow each other" if variant.assumed else ""


def name_of(variant: Variant) -> str:
    """Return the name of a variant: "+1 worker per backend and least connections"."""
    return " and ".join(_described(key, value) for key, value in variant.settings.items()) or "Unchanged"


def _described(key: str, value: str) -> str:
    kind, _, route = key.partition(":")
    amount, factor = value.lstrip("+-x"), value.lstrip("x×")
    things = {"workers": ("worker", " per backend"), "cores": ("core", ""), "pool": ("place", " inside the app")}
    if kind in things and not route:
        thing, where = things[kind]
        return f"{value} {thing}{'' if amount == '1' else 's'}{where}"
    if kind == "pool":
        return f"{printable(route, 60)} in a separate pool ({value} {'worker' if value == '1' else 'workers'})"
    factors = {
        "service": printable(route or "every service", 60),
        "load": "load",
        "dependency": "time at what is shared",
    }
    if kind in factors:
        return f"{factors[kind]} × {factor}"
    return SETTING_NAMES.get(value, f"{key} {value}")


def _fit(result: WhatIfResult) -> Table:
    measured, replayed = result.measured["response_time"], result.replayed["response_time"]
    rows = [
        ("measured", *(milliseconds(measured[name]) for name in ("mean", "p50", "p90", "p99"))),
        ("replayed", *(milliseconds(replayed[name]) for name in ("mean", "p50", "p90", "p99"))),
        ("error", *(_off(result.error[name]) for name in ("mean", "p50", "p90", "p99"))),
    ]
    return Table(
        ("response time, ms", "mean", "p50", "p90", "p99"), tuple(rows), f"Does the replay fit? {_grade(result)}"
    )


def _off(error: float) -> str:
    """Return the relative error of a figure; – if the measured figure is 0."""
    return "–" if math.isnan(error) else formatted(error, "+.1%")


def _variants(result: WhatIfResult) -> Table:
    rows: list[tuple[str, ...]] = []
    for variant in result.variants:
        low, high = variant.change_interval["p99"]
        response = variant.response_time
        rows.append(
            (
                name_of(variant),
                *(milliseconds(response[name]) for name in ("mean", "p50", "p99")),
                formatted(variant.change["p99"], "+.0%"),
                f"{formatted(low, '+.0%')} … {formatted(high, '+.0%')}",
                percent(variant.utilisation),
                f"{variant.timeouts:,}",
            )
        )
    system, unchanged = result.system, result.replayed["response_time"]
    figures = (milliseconds(unchanged[name]) for name in ("mean", "p50", "p99"))
    rows.append(("unchanged", *figures, "", "", percent(system["utilisation"]), f"{system['timeouts']:,}"))
    headings = ("change", "mean", "p50", "p99", "Δ p99", "95 %", "busy", "timed out")
    return Table(headings, tuple(rows), f"Response time in ms, the best {RANKED[result.rank]} first", shown=20)


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return whatif_section(whatif(context.requests, workers=context.workers))
