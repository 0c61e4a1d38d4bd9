"""Autoscalers with rules of their own: Knative's, and AWS's target tracking. No I/O.

Both go by the requests in flight, per ready worker. Their times are in proportion to the stabilisation of the study,
which stands for the 300 s of the Horizontal Pod Autoscaler.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from sojourn_lab.scenario.experiment_settings import Autoscale

from studies.autoscale.controller import Controller, HorizontalAutoscaler, Look, within_limits

REAL_STABILISATION = 300.0
"""Seconds: the scale-down stabilisation of the Horizontal Pod Autoscaler, to which the times of the others relate."""

STABLE_WINDOW, PANIC_WINDOW = 60.0, 6.0
"""Knative's windows, s: ``stable-window``, and 10 % of it (``panic-window-percentage``)."""

PANIC_THRESHOLD, SCALE_UP_RATE, SCALE_DOWN_RATE = 2.0, 1000.0, 2.0
"""Knative's ``panic-threshold-percentage`` / 100, ``max-scale-up-rate`` and ``max-scale-down-rate``."""

HIGH_POINTS, LOW_POINTS = 3, 15
"""Data points, one a look, for which a metric must be above the target, or below `LOW` of it, before AWS acts."""

LOW = 0.9
"""The share of the target below which AWS removes capacity."""

COOLDOWN = 300.0
"""AWS's cooldown after adding and after removing capacity, s: the default of ECS services."""


@dataclass
class Knative:
    """The Knative Pod Autoscaler, by the concurrency of the service.

    In its stable mode the number follows the mean concurrency of the stable window, and may halve at one look. It
    panics when the concurrency of the panic window needs at least twice the ready workers; it then follows the higher
    need of both windows and never goes down, until the threshold was not exceeded for a stable window.

    Source: ``Scale`` in knative/serving, pkg/autoscaler/scaling/autoscaler.go, and the defaults in
    pkg/autoscaler/config/config.go.

    Attributes:
        settings: limits, and the stabilisation to which its windows relate.
        target: concurrency per worker: the share ``container-concurrency-target-percentage`` of one request.
    """

    settings: Autoscale
    target: float
    _samples: deque[tuple[float, int]] = field(default_factory=deque)
    _panic_since: float | None = None
    _most: int = 0

    def desired(self, look: Look) -> int:
        """Return the number of workers after this look; without a sample in the stable window the present one."""
        time_scale = self.settings.stabilisation / REAL_STABILISATION
        stable_window = STABLE_WINDOW * time_scale
        self._samples.extend(look.in_flight)
        while self._samples and self._samples[0][0] <= look.time - stable_window:
            self._samples.popleft()
        if not self._samples:
            return look.workers
        ready = max(1, look.ready)
        stable = self._needed(look.time - stable_window)
        # At least the last sample: the panic window is no longer than the time between two of them.
        panic = self._needed(min(look.time - PANIC_WINDOW * time_scale, self._samples[-1][0] - 1e-6))
        over = panic / ready >= PANIC_THRESHOLD
        if over:
            self._panic_since = look.time
        elif self._panic_since is not None and self._panic_since + stable_window < look.time:
            self._panic_since, self._most = None, 0
        most, least = math.ceil(SCALE_UP_RATE * ready), math.floor(ready / SCALE_DOWN_RATE)
        number = min(max(stable, least), most)
        if self._panic_since is not None:
            self._most = max(self._most, number, min(max(panic, least), most))
            number = self._most
        return within_limits(self.settings, number)

    def _needed(self, since: float) -> int:
        """Return the workers that the mean concurrency after an instant needs."""
        counts = [count for instant, count in self._samples if instant > since]
        return math.ceil(sum(counts) / len(counts) / self.target - 1e-9)


@dataclass
class TargetTracking:
    """Target tracking of AWS's Application Auto Scaling, by the requests in flight per worker.

    An alarm is raised by 3 data points in sequence above the target, or by 15 below 90 % of it. The capacity then
    becomes ceil(workers · value / target). In the cooldown after an increase, what it added counts as a part of the
    next one; in the cooldown after a decrease nothing is removed, and an increase ends it. Insufficient data changes
    nothing. How much one decrease removes is not documented: here it is proportional, rounded up.

    Source: https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html;
    the alarms as ECS creates them (https://github.com/aws/containers-roadmap/issues/1208), of one data point a minute.

    Attributes:
        settings: limits, and the stabilisation to which the cooldown relates. A data point is a look: of the study's
            2 s, as one of AWS's is of 60 s where the stabilisation is 300 s.
        target: requests in flight per worker.
    """

    settings: Autoscale
    target: float
    _values: deque[float | None] = field(default_factory=lambda: deque(maxlen=LOW_POINTS))
    _raised: tuple[float, int] | None = None
    """The instant of the increase whose cooldown lasts, and the workers before it."""
    _lowered: float | None = None

    def desired(self, look: Look) -> int:
        """Return the number of workers after this look."""
        self._values.append(look.value)
        cooldown = COOLDOWN * self.settings.stabilisation / REAL_STABILISATION
        if self._raised is not None and look.time - self._raised[0] >= cooldown - 1e-6:
            self._raised = None
        value = look.value
        if value is None:
            return look.workers
        recent = [each for each in list(self._values)[-HIGH_POINTS:] if each is not None and each > self.target]
        number = math.ceil(look.workers * value / self.target - 1e-9)
        if len(recent) == HIGH_POINTS:
            return self._increased(look, number)
        low = [each for each in self._values if each is not None and each < LOW * self.target]
        calm = self._lowered is None or look.time - self._lowered >= cooldown - 1e-6
        if len(low) == LOW_POINTS and calm and self._raised is None:
            number = within_limits(self.settings, min(number, look.workers))
            if number < look.workers:
                self._lowered = look.time
            return number
        return look.workers

    def _increased(self, look: Look, number: int) -> int:
        base = look.workers if self._raised is None else self._raised[1]
        number = within_limits(self.settings, max(look.workers, base + number - look.workers))
        if number > look.workers:
            # A larger increase within a cooldown does not prolong it.
            self._raised = self._raised or (look.time, base)
            self._lowered = None
        return number


class Constant:
    """No autoscaler."""

    def desired(self, look: Look) -> int:
        """Return the present number."""
        return look.workers


def controller_of(settings: Autoscale, target: float) -> Controller:
    """Return the controller of a case's signal; `target`: the value per worker that it aims at."""
    match settings.signal:
        case "knative":
            return Knative(settings, target)
        case "aws_tracking":
            return TargetTracking(settings, target)
        case "fixed_mean" | "fixed_peak":
            return Constant()
        case _:
            return HorizontalAutoscaler(settings, target)
