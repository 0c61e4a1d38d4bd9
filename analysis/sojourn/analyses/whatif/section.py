"""What would have helped, for people."""

from __future__ import annotations

import math
from functools import partial

from sojourn.analyses.question import ReportContext
from sojourn.analyses.whatif.charts import p99_by_variant, responses
from sojourn.analyses.whatif.result import Variant, WhatIfResult
from sojourn.analyses.whatif.run import whatif
from sojourn.model.formatting import duration, formatted, milliseconds, percent, printable
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

WORDS = {
    "round_robin": "in turn",
    "least_conn": "least connections",
    "two_choices": "the better of two at random",
    "shared_queue": "one queue for all",
    "sjf": "shortest first",
    "adaptive_lifo": "adaptive LIFO",
    "lifo": "LIFO",
}
RANKED = {"p99": "p99", "p90": "p90", "p50": "the median", "mean": "the mean", "goodput": "goodput"}


@lay_out.register(WhatIfResult)
def whatif_section(found: WhatIfResult) -> Section:
    """How well the replay fits, and the variants from the best to the worst."""
    # Without a prediction there is nothing to doubt: the sentence says why there is none.
    failures = (f"not to be believed: {found.refused}",) if found.forced else ()
    pictures: tuple[Picture, ...] = ()
    if found.variants:
        pictures = (
            Picture(
                "whatif-variants",
                "p99 under each change",
                "Bars are predicted p99 of the response time, with what 95 % of resamples say; the dashed line is the "
                "replay of things as they are.",
                partial(p99_by_variant, found),
                variants_reading(found),
            ),
            Picture(
                "whatif-responses",
                "Measured, replayed, and changed",
                "The share of requests that took longer than a time. As far as measured and replayed lie upon each "
                "other, the others can be believed.",
                partial(responses, found),
                fit_reading(found),
            ),
        )
    return Section(
        key="whatif",
        title="What would have helped",
        sentence=sentence(found),
        measures=(
            "Measured arrivals at the backends and measured service times, replayed. Response: as nginx saw it, with "
            "everything but the wait as it was."
        ),
        failures=failures,
        tables=(_fit(found), *([_variants(found)] if found.variants else [])),
        pictures=pictures,
        notes=tuple(found.notes),
        short=short_of(found) if _helps(found) else "",
    )


def variants_reading(found: WhatIfResult) -> str:
    """The variant with the least p99 beside the replay of things as they are."""
    best = min(found.variants, key=lambda variant: variant.response_time["p99"] or 0.0)
    low, high = best.interval["p99"]
    as_is, changes = f"p99 is {duration(found.replayed['response_time']['p99'])} as it is", len(found.variants)
    if best.change["p99"] >= 0:
        return f"{as_is}, and none of the changes ({changes}) makes it less."
    return (
        f"{as_is}; the best of the changes ({changes}), {named(best)}, would make it "
        f"{duration(best.response_time['p99'])} (95 %: {duration(low)} to {duration(high)})."
    )


def fit_reading(found: WhatIfResult) -> str:
    """How far the replay of things as they are is from what was measured."""
    measured, again = (figures["response_time"] for figures in (found.measured, found.replayed))
    return (
        f"One request in a hundred took {duration(measured['p99'])} or longer as measured, and "
        f"{duration(again['p99'])} or longer as replayed, {formatted(found.error['p99'], '+.1%')}; the mean is off by "
        f"{formatted(found.error['mean'], '+.1%')}."
    )


def short_of(found: WhatIfResult) -> str:
    """The best variant in the words of somebody who runs no queue."""
    best = found.variants[0]
    change = " and ".join(_in_plain_words(key, value) for key, value in best.settings.items())
    if found.rank == "goodput":
        return (
            f"By a replay of these requests, {best.goodput:.3g} instead of {found.system['goodput']:.3g} requests/s "
            f"would be answered in time with {change}."
        )
    words = {"mean": "the mean", "p50": "half of the requests", "p90": "one request in ten"}
    who = words.get(found.rank, "one request in a hundred")
    longer = "" if found.rank == "mean" else " or longer" if found.rank != "p50" else " or less"
    low, high = best.interval[found.rank]
    return (
        f"By a replay of these requests with {change}, {who} would take "
        f"{duration(best.response_time[found.rank])}{longer} instead of "
        f"{duration(found.replayed['response_time'][found.rank])} (95 %: {duration(low)} to {duration(high)})."
    )


def _in_plain_words(key: str, value: str) -> str:
    kind, _, route = key.partition(":")
    if kind == "workers" and value.startswith("+"):
        return f"{value[1:]} more worker{'' if value == '+1' else 's'} per backend"
    if kind != "service":
        return _said(key, value)
    return f"{printable(route or 'everything', 60)} served in {percent(float(value.lstrip('x×')))} of its time"


def _helps(found: WhatIfResult) -> bool:
    """Whether the best variant is predicted to be better by more than chance."""
    if not found.variants or found.forced:
        return False
    best = found.variants[0]
    if found.rank == "goodput":
        return best.goodput > found.system["goodput"]
    return best.change_interval[found.rank][1] < 0


def sentence(found: WhatIfResult) -> str:
    """The best variant in one sentence, or why there is none."""
    if not found.variants:
        return f"No prediction: {found.refused}."
    best = found.variants[0]
    now, then = found.replayed["response_time"], best.response_time
    if found.rank == "goodput":
        return f"{named(best)} would bring goodput from {found.system['goodput']:.3g} to {best.goodput:.3g} requests/s."
    low, high = best.change_interval[found.rank]
    if best.change[found.rank] >= 0:
        return (
            f"None of these helps: {named(best)} would change {RANKED[found.rank]} by "
            f"{formatted(best.change[found.rank], '+.0%')}."
        )
    return (
        f"{named(best)} would bring {RANKED[found.rank]} from {milliseconds(now[found.rank])} to "
        f"{milliseconds(then[found.rank])} ms ({formatted(best.change[found.rank], '+.0%')}; 95 %: "
        f"{formatted(low, '+.0%')} to {formatted(high, '+.0%')})."
    )


def named(variant: Variant) -> str:
    """A variant in words: "+1 worker per backend and least connections"."""
    return " and ".join(_said(key, value) for key, value in variant.settings.items()) or "As it is"


def _said(key: str, value: str) -> str:
    kind, _, route = key.partition(":")
    if kind == "workers":
        return f"{value} {'worker' if value.lstrip('+-x') == '1' else 'workers'} per backend"
    if kind == "pool":
        return f"{printable(route, 60)} in a pool of its own ({value} {'worker' if value == '1' else 'workers'})"
    if kind == "service":
        return f"{printable(route or 'every service', 60)} × {value.lstrip('x×')}"
    if kind == "load":
        return f"load × {value.lstrip('x×')}"
    return WORDS.get(value, f"{key} {value}")


def _fit(found: WhatIfResult) -> Table:
    measured, again = found.measured["response_time"], found.replayed["response_time"]
    rows = [
        ("measured", *(milliseconds(measured[name]) for name in ("mean", "p50", "p90", "p99"))),
        ("replayed as it is", *(milliseconds(again[name]) for name in ("mean", "p50", "p90", "p99"))),
        ("error", *(_off(found.error[name]) for name in ("mean", "p50", "p90", "p99"))),
    ]
    return Table(("response time, ms", "mean", "p50", "p90", "p99"), tuple(rows), "Does the replay fit?")


def _off(error: float) -> str:
    """How far a figure is off; – where what was measured is 0, for nothing can be said in parts of that."""
    return "–" if math.isnan(error) else formatted(error, "+.1%")


def _variants(found: WhatIfResult) -> Table:
    rows: list[tuple[str, ...]] = []
    for variant in found.variants:
        low, high = variant.change_interval["p99"]
        response = variant.response_time
        rows.append(
            (
                named(variant),
                *(milliseconds(response[name]) for name in ("mean", "p50", "p99")),
                formatted(variant.change["p99"], "+.0%"),
                f"{formatted(low, '+.0%')} … {formatted(high, '+.0%')}",
                percent(variant.utilisation),
                f"{variant.timeouts:,}",
            )
        )
    system = found.system
    rows.append(
        ("as it is", *(milliseconds(found.replayed["response_time"][name]) for name in ("mean", "p50", "p99")), "", "",
         percent(system["utilisation"]), f"{system['timeouts']:,}")
    )  # fmt: skip
    headings = ("change", "mean", "p50", "p99", "Δ p99", "95 %", "busy", "given up")
    return Table(headings, tuple(rows), f"Response time in ms, the best {RANKED[found.rank]} first", shown=20)


def report_section(context: ReportContext) -> Section:
    """Return the section of a report."""
    return whatif_section(whatif(context.requests, workers=context.workers))
