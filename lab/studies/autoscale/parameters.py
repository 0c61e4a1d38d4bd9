"""The parameters of the signals, for the page."""

from __future__ import annotations

from sojourn_lab.scenario.experiment_settings import Autoscale

from studies.autoscale.case import EVERY
from studies.autoscale.controller import CALM, STEP_DOWN, STEPS_UP, TOLERANCE
from studies.autoscale.loop import SAMPLES
from studies.autoscale.other_controllers import (
    COOLDOWN,
    HIGH_POINTS,
    LOW,
    LOW_POINTS,
    PANIC_THRESHOLD,
    PANIC_WINDOW,
    REAL_STABILISATION,
    SCALE_UP_RATE,
    STABLE_WINDOW,
)
from studies.autoscale.recorded import Measured, Measurement
from studies.autoscale.workers import OWN_STARTUP

PARAMETERS = """
## Parameters

All signals have the same limits and the same period; all but `knative` and `aws_tracking` the same hysteresis, that of
Kubernetes' Horizontal Pod Autoscaler (HPA): the number is the highest recommendation of the last {stabilisation} s. So
it rises at once and falls late. A look without a value recommends nothing. The HPA's rule: desired =
ceil(workers · value / target), and no change where value / target is 1 ± {tolerance}.

- `cpu`: cores per worker since the last look, from /proc, by the HPA's rule with a target of {target} of a core.
  Workers that have just started are left out.
- `cpu_of_busy`: the same, with a target of {target} of what a busy worker of this app uses: {busy} of a core,
  measured before the load.
- `in_flight`: requests in nginx (`stub_status`) per worker, mean of {samples} samples since the last look, by the
  HPA's rule with a target of {target}.
- `queueing_delay`: its {percentile}th percentile since the last look, from the exporter's histogram, linear
  within a bucket. Steps: {steps}; below {calm} of the threshold × {down}; at least one worker more or less.
- `knative`: requests in nginx per worker, by the rules of the Knative Pod Autoscaler: target {target}; the mean of a
  stable window of {stable} s; a panic window of {panic} s, which decides while it needs at least {panic_threshold:g} ×
  the ready workers, and until a stable window after that (nothing is removed meanwhile); at most × {up:g} up and half
  down at one look. Its windows of {real_stable:g} and {real_panic:g} s are in proportion to the {stabilisation} s that
  stand for the HPA's {real:g} s.
- `aws_tracking`: requests in nginx per worker, by the rules of AWS's target tracking: target {target}; {high} looks in
  sequence above it add workers in proportion, {low} below {low_share} of it remove them; cooldown {cooldown} s, in the
  same proportion.
- `workers_needed`: the exporter's gauge, method `replay`, set as it is. The exporter's `--window` is
  {exporter_window} s, four looks; its default of 60 s is four looks of the HPA, which looks every 15 s.
  `--every` is {every} s.
- `workers_live`: the exporter's gauge, method `live`, set as it is. `--status` is nginx's `stub_status`, `--hold`
  {stabilisation} s, `--startup` {startup} s and what the app takes to load. No other case has `--status`: nginx counts
  these requests, too.
- `fixed_mean`, `fixed_peak`: the mean and the maximum of the yardstick. {fixed}

Settings: the targets of the signals that have one; for `queueing_delay` a factor on the threshold; for
`workers_needed` and `workers_live` the share of the requests for which the exporter computes the gauge.

A request is in the log when it ends; it is in nginx's count when it arrives.
"""


def parameters(measurement: Measurement, one: Measured) -> str:
    """Return the section on the parameters; `one`: any case, for the settings that all have."""
    settings = one.settings
    fixed = [
        f"{load.replace('_', ' ').capitalize()}: {' and '.join(numbers)}"
        for load, cells in measurement.cases.items()
        if (numbers := [f"{cell.first.figures['workers']['most']}" for cell in cells.values() if cell.is_fixed])
    ]
    time_scale = settings.stabilisation / REAL_STABILISATION
    return PARAMETERS.format(
        stabilisation=f"{settings.stabilisation:g}",
        target=f"{Autoscale('cpu').target:g}",
        tolerance=f"{TOLERANCE:g}",
        busy=_busy(measurement),
        samples=SAMPLES,
        percentile=f"{100.0 * settings.share:g}",
        steps=", ".join(f"above {least:g} × the threshold × {factor:g}" for least, factor in STEPS_UP),
        calm=f"{CALM:g}",
        down=f"{STEP_DOWN:g}",
        stable=f"{STABLE_WINDOW * time_scale:g}",
        panic=f"{PANIC_WINDOW * time_scale:g}",
        panic_threshold=PANIC_THRESHOLD,
        up=SCALE_UP_RATE,
        real_stable=STABLE_WINDOW,
        real_panic=PANIC_WINDOW,
        real=REAL_STABILISATION,
        high=HIGH_POINTS,
        low=LOW_POINTS,
        low_share=f"{LOW:.0%}",
        cooldown=f"{COOLDOWN * time_scale:g}",
        exporter_window=f"{settings.window:g}",
        every=f"{EVERY:g}",
        startup=f"{OWN_STARTUP:g}",
        fixed="; ".join(fixed) + ("." if fixed else ""),
    )


def _busy(measurement: Measurement) -> str:
    """Return what a busy worker used of a core, over the cases that measured it."""
    cores = [
        each.figures["busy_cores"]
        for cells in measurement.cases.values()
        for cell in cells.values()
        for each in cell.repetitions
        if cell.signal == "cpu_of_busy"
    ]
    return " to ".join(dict.fromkeys(f"{value:.3f}" for value in (min(cores), max(cores)))) if cores else "–"
