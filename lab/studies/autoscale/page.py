"""The page on autoscaling, in Markdown: what each signal costs, its parameters, and what a run has shown."""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Mapping
from functools import partial

from sojourn.model.formatting import formatted, listed, milliseconds

from studies.autoscale.case import EVERY
from studies.autoscale.controller import CALM, STEP_DOWN, STEPS_UP, TOLERANCE
from studies.autoscale.loop import SAMPLES
from studies.autoscale.recorded import LOADS, Measured, Measurement
from studies.page_output import versions_text

PROGRAMS = ("gunicorn", "nginx", "python")
SIGNALS = ("cpu", "cpu_of_busy", "in_flight", "queueing_delay", "workers_needed")

HEAD = """# Autoscaling: which signal says how many workers an app needs

<!-- Written by PYTHONPATH=lab python -m studies.autoscale RUN...: run that again. -->

[The lab's study](../../lab/README.md#studies) `autoscale` offers the same requests to gunicorn (sync
workers) behind nginx, once for each signal. Every {period} s an autoscaler looks at one signal and sets the
number of workers, from {minimum} to {maximum}, with SIGTTIN and SIGTTOU. Service times are exponential with a
mean of {service} ms; the app sleeps, as an app does that waits for a database. The objective: {share} of the
requests wait at most {threshold} ms for a worker. A request without an answer misses it.

The yardstick is the fewest workers with which the objective holds in each window of {window} s, with all arrivals
and service times known beforehand. No autoscaler can reach it: it learns of a rise from the requests that came
with it.
"""

LOAD = {
    "diurnal": "A day in {duration} s: the rate rises from {low} to {high} requests a second, and falls again.",
    "spiky": "Steps: {steps}.",
}

TABLE = """
| signal | within the objective | worker-seconds | of the yardstick's | in violation | overshoot | changes | reversals | no answer |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""  # noqa: E501 - a row of a table is one line

COLUMNS = """
*In violation*: time in windows whose requests did not meet the objective. *Overshoot*: the most
workers above the yardstick at any time. *Changes* of the number that was set, *reversals* of their direction. *No
answer*: requests that clients gave up on after {timeout} s, or that failed.
"""

PICTURE = """
![For each signal the workers over the offered load, and the queueing delay](../images/autoscale-{load}.svg)

Left: the workers that were set (blue), the yardstick (grey line), and the offered load in busy workers (area).
Right: the 95th percentile of the queueing delay in windows of {window} s, and the threshold (dashed); at the
upper end requests got no answer.
"""

PARAMETERS = """
## Parameters

All signals have the same limits, the same period and the same hysteresis, that of Kubernetes' Horizontal Pod
Autoscaler (HPA): the number is the highest recommendation of the last {stabilisation} s. So it rises at once and
falls late. The HPA's rule: desired = ceil(workers · value / target), and no change where value / target is 1 ±
{tolerance}.

- `cpu`: cores per worker since the last look, from /proc, by the HPA's rule with a target of {target} of a core.
  Workers that have just started are left out.
- `cpu_of_busy`: the same, with a target of {target} of what a busy worker of this app uses: {busy} of a core,
  measured before the load.
- `in_flight`: requests in nginx (`stub_status`) per worker, mean of {samples} samples since the last look, by the
  HPA's rule with a target of {target}.
- `queueing_delay`: its {percentile}th percentile since the last look, from the exporter's histogram, linear
  within a bucket. Steps: {steps}; below {calm} of the threshold × {down}; at least one worker more or less.
- `workers_needed`: the exporter's gauge, method `replay`, set as it is. The exporter's `--window` is
  {exporter_window} s, four looks; its default of 60 s is four looks of the HPA, which looks every 15 s.
  `--every` is {every} s.
- `fixed_mean`, `fixed_peak`: the mean and the maximum of the yardstick. {fixed}

A request is in the log, and so in the exporter's values, when it ends; it is in nginx's count when it arrives.
"""

VOIDS = """
**Void** are cases in which the generator was late or other programs took processor time
([why](../../lab/README.md#void-runs)); a few milliseconds of lateness hardly change the table, but the figures are
less certain:

"""

FINDINGS = """
## What the runs show

Beside each signal: the requests within the objective, and the cost.

- **CPU at the usual target does nothing.** A busy worker of this app uses {busy} of a core, so {target} of a core
  per worker is never reached: the number of workers is the minimum all the time.
- **CPU with a target for this app follows a slow rise, not a step**: {cpu_of_busy}. It says how busy the workers
  are, and nothing about the queue: when all are busy, the rule multiplies their number by at most 1 / {target} at
  each look, however many requests wait.
- **Requests in flight know first**: {in_flight}. nginx counts a request when it arrives. A request that waits
  counts as much as one that is served, so a queue makes the number overshoot.
- **The queueing delay says that workers are missing, not how many**: {queueing_delay}. The steps overshoot, and
  requests report their delay when they end.
- **The workers needed come late**: {workers_needed}. The gauge is as of {age} s before the look (median): a request
  is in the log when it ends, so the state is complete only as far back as the slowest request of the last minute. To
  that come the exporter's window and its second between two computations. The load of these runs multiplies within
  seconds; the delay is the same where it takes minutes.
- **A fixed number at the peak** needs no signal: {fixed_peak}. Against steps that are shorter than the hysteresis and
  the delays of a signal, no autoscaler of these is better and cheaper.

One run per case, without intervals. Cases that were repeated differed by up to eight percentage points within the
objective, and by up to 15 % in worker-seconds: smaller differences mean nothing.
"""

TAIL = """
To measure it again, in about half an hour:

    PYTHONPATH=lab python -m studies.autoscale.measure --out RUN
    PYTHONPATH=lab python -m studies.autoscale RUN --pictures docs/images --out docs/reference/autoscale.md

{versions}
"""


def page(measurement: Measurement) -> str:
    """Return the page with the figures of the runs."""
    scenario = measurement.run.scenario
    measured = [each for signals in measurement.cases.values() for each in signals.values()]
    settings = measured[0].settings
    window = f"{measured[0].windows[0]['seconds']:g}"
    head = HEAD.format(
        period=f"{settings.period:g}",
        minimum=settings.minimum,
        maximum=settings.maximum,
        service=milliseconds(measured[0].case.mean_service_time),
        share=f"{settings.share:.0%}",
        threshold=milliseconds(settings.threshold),
        window=window,
    )
    loads = "".join(
        f"\n## {load.capitalize()} load\n\n{_load(load, signals, scenario.duration)}\n{TABLE}"
        f"{''.join(_row(name, each) for name, each in signals.items())}"
        f"{COLUMNS.format(timeout=f'{scenario.timeout:g}')}{PICTURE.format(load=load, window=window)}"
        for load, signals in measurement.cases.items()
    )
    tail = TAIL.format(versions=versions_text(measurement.run.versions, PROGRAMS))
    return filled(
        head + loads + _findings(measurement) + _voids(measurement) + _parameters(measurement, measured[0]) + tail
    )


def _findings(measurement: Measurement) -> str:
    """Return the findings; empty if a signal was not measured with every load."""
    loads = measurement.cases
    names = (*SIGNALS, "fixed_peak")
    if set(loads) != set(LOADS) or any(name not in signals for signals in loads.values() for name in names):
        return ""

    def result(name: str) -> str:
        return listed([_result(load, signals[name]) for load, signals in loads.items()])

    needed = [signals["workers_needed"] for signals in loads.values()]
    ages = [look["age"] for each in needed for look in each.looks if look["age"] is not None]
    return FINDINGS.format(
        busy=_busy(measurement),
        target=f"{needed[0].settings.target:g}",
        age=formatted(statistics.median(ages), ".1f"),
        **{name: result(name) for name in names},
    )


def _result(load: str, measured: Measured) -> str:
    share, cost = measured.figures["within_share"] or 0.0, measured.figures["of_oracle"]
    return f"{load} {share:.0%} of the requests for {cost:.0%} of the yardstick's worker-seconds"


def _voids(measurement: Measurement) -> str:
    """Return why cases are void; empty if none is."""
    reasons = [
        f"- {load}, `{name}`: {reason}.\n"
        for load, signals in measurement.cases.items()
        for name, each in signals.items()
        for reason in each.void
    ]
    return VOIDS + "".join(reasons) if reasons else ""


def _busy(measurement: Measurement) -> str:
    """Return what a busy worker used of a core, in each case that measured it."""
    cases = [signals["cpu_of_busy"] for signals in measurement.cases.values() if "cpu_of_busy" in signals]
    return " and ".join(f"{each.figures['busy_cores']:.3f}" for each in cases) or "–"


def filled(text: str, width: int = 120) -> str:
    """Return Markdown with its paragraphs and lists filled to a width, and all else unchanged."""
    return "\n\n".join(_filled(block, width) for block in text.split("\n\n"))


def _filled(block: str, width: int) -> str:
    if block.lstrip("\n").startswith(("|", "#", "<", "!", "    ")):
        return block
    items = re.split(r"\n(?=- )", block.strip("\n"))
    fill = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    text = "\n".join(
        fill(" ".join(item.split()), subsequent_indent="  " if item.startswith("- ") else "") for item in items
    )
    # Newlines around a block separate it from its neighbours.
    return block[: len(block) - len(block.lstrip("\n"))] + text + block[len(block.rstrip("\n")) :]


def _load(load: str, signals: Mapping[str, Measured], duration: float) -> str:
    case = next(iter(signals.values())).case
    if load == "diurnal":
        low, high = getattr(case.load, "low", 0.0), getattr(case.load, "high", 0.0)
        return LOAD[load].format(duration=f"{duration:g}", low=f"{low:g}", high=f"{high:g}")
    rates, at = getattr(case.load, "rates", [0.0]), getattr(case.load, "at", [])
    steps = [f"{rates[0]:g} requests a second"]
    steps += [f"{rate:g} from {instant:g} s" for rate, instant in zip(rates[1:], at, strict=True) if instant < duration]
    return LOAD.get(load, "{steps}").format(steps=", ".join(steps))


def _row(name: str, measured: Measured) -> str:
    figures = measured.figures
    cells = [
        f"`{name}`" + (" (void)" if measured.void else ""),
        formatted(figures["within_share"] or 0.0, ".1%"),
        formatted(figures["worker_seconds"], ",.0f"),
        formatted(figures["of_oracle"], ".0%"),
        f"{figures['violation']['seconds']:g} s",
        str(figures["overshoot"]),
        str(figures["changes"]),
        str(figures["reversals"]),
        str(figures["unanswered"]),
    ]
    return "| " + " | ".join(cells) + " |\n"


def _parameters(measurement: Measurement, one: Measured) -> str:
    settings = one.settings
    fixed = [
        f"{load.capitalize()}: {' and '.join(str(each.figures['workers']['most']) for each in fixed_ones)}"
        for load, signals in measurement.cases.items()
        if (fixed_ones := [each for name, each in signals.items() if name.startswith("fixed")])
    ]
    return PARAMETERS.format(
        stabilisation=f"{settings.stabilisation:g}",
        target=f"{settings.target:g}",
        tolerance=f"{TOLERANCE:g}",
        busy=_busy(measurement),
        samples=SAMPLES,
        percentile=f"{100.0 * settings.share:g}",
        steps=", ".join(f"above {least:g} × the threshold × {factor:g}" for least, factor in STEPS_UP),
        calm=f"{CALM:g}",
        down=f"{STEP_DOWN:g}",
        exporter_window=f"{settings.window:g}",
        every=f"{EVERY:g}",
        fixed="; ".join(fixed),
    )
