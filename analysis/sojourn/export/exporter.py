"""Follow logs, and keep counters, histograms and gauges up to date."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from sojourn.components.split import clock_of, split_rows
from sojourn.export.histograms import Histogram
from sojourn.export.labels import Labels, Routes
from sojourn.export.live.poller import Source
from sojourn.export.live.signal import LiveSignal
from sojourn.export.measurement import LogReports, clock_samples, log_samples
from sojourn.export.memory import Memory
from sojourn.export.metrics import GROUP
from sojourn.export.refusal import CLOCKS
from sojourn.export.settings import Settings
from sojourn.export.state import ServiceState, refusals
from sojourn.export.tally import READ, Sample, Tally
from sojourn.export.wasted import JOINED, WastedWork
from sojourn.model.client_retries import CLIENT
from sojourn.model.frame import Records
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.readers.record import EXPRESSIONS, PATH, ROUTE_AND_PATH
from sojourn.sources.live.follow import READ_BYTES, Follower
from sojourn.sources.live.pace import Paced
from sojourn.sources.live.reader import POLL_INTERVAL, LiveReader
from sojourn.sources.live.recent import Recent
from sojourn.sources.live.tail import Tail

READ_EVERY = 1.0  # s between two readings of what was polled
READ_COLUMNS = tuple(dict.fromkeys((*READ, *JOINED)))
LITTLE_UNREAD = 100_000  # bytes: written while others are fetched
PAUSE = 0.02  # s between two polls of an idle pipe
CLOCK_SHARE, GAUGE_SHARE = 0.02, 0.1
"""Share of one processor that each computation may use."""


@dataclass(frozen=True)
class Snapshot:
    """All metrics at one instant, by name.

    Attributes:
        histograms: label values and histogram of each group.
        samples: of counters and gauges.
    """

    histograms: Mapping[str, Sequence[tuple[tuple[str, ...], Histogram]]]
    samples: Mapping[str, Sequence[Sample]]


@dataclass(frozen=True)
class _Window:
    """The requests that gauges are computed from, while others are read.

    Attributes:
        now: the log's time.
        since: begin of the part of the log that is complete.
        clock: offsets of the backends.
        rows: the requests held.
        services: label values.
        clocks_disagree: whether requests are missing from the rows because their records are ahead of the clock.
    """

    now: datetime
    since: datetime
    clock: pl.DataFrame
    rows: pl.LazyFrame
    services: tuple[str, ...]
    clocks_disagree: bool


class Exporter:
    """Logs that are being written, as metrics.

    Args:
        followers: of the logs.
        tails: start positions of the files that existed at the start.
        spans: of files of the app's spans; without any, wasted work is unknown.
        status: where requests are counted when they begin; without any, there are no gauges of them.
        settings: what is exported.
        from_beginning: count the requests of the whole log, and let its last record define the current time; otherwise
            only requests that are logged from now on are counted.
        form: format of all logs; None: each log's own.
    """

    def __init__(
        self,
        followers: Sequence[Follower],
        tails: Sequence[Tail] = (),
        *,
        spans: Sequence[Follower] = (),
        status: Sequence[Source] = (),
        settings: Settings | None = None,
        from_beginning: bool = False,
        form: LineFormat | Units | None = None,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.lock = threading.Lock()
        labels = [label for label in self.settings.labels if label in GROUP]
        self.tally = Tally(
            Labels(labels, self.settings.limits),
            self.settings.objectives,
            self.settings.buckets,
            by_status_class="status_class" in self.settings.labels,
        )
        span = self.settings.retention
        self._reader = LiveReader(
            followers, tails, replay=from_beginning, form=form, recent=Recent(span),
            columns=(*JOINED, *CLIENT, PATH), expressions=EXPRESSIONS | ROUTE_AND_PATH,
            prepare=Routes(report="route" in labels).of, on_rows=self._count, on_step=self._restart,
        )  # fmt: skip
        self._wasted = WastedWork(spans) if spans else None
        self._live = LiveSignal(status, self.settings) if status else None
        self._counting = from_beginning
        self._clock = Paced(self._clock_of, CLOCK_SHARE)
        self._state = Paced(self._state_of, GAUGE_SHARE)
        self._memory = Memory()
        self._reports = LogReports()
        self._services: set[str] = set()
        self._gauges: list[Sample] = []
        self._failure: Exception | None = None
        self._logs: list[Sample] = []

    @property
    def records(self) -> Records:
        """Counts of the lines read."""
        return self._reader.recent.records

    def close(self) -> None:
        """Close the logs."""
        self._reader.close()
        if self._live is not None:
            self._live.poller.close()
        if self._wasted is not None:
            self._wasted.close()

    def start(self) -> None:
        """Read what is written already: counted from the beginning, otherwise only for the gauges."""
        self._reader.catch_up(datetime.now(UTC))
        if not self._counting:
            self.tally.labels.other.clear()
        self._counting = True
        if self._live is not None:
            self._live.poller.start()

    def run(self, stop: threading.Event) -> None:
        """Read new lines until ``stop``, and compute the gauges meanwhile; after ``start``."""
        due, computing = 0.0, threading.Thread()
        try:
            while not stop.is_set():
                wall = datetime.now(UTC)
                self.update(wall, gauges=False)
                if self._failure is not None:
                    raise self._failure
                if time.monotonic() >= due and not computing.is_alive():
                    due = time.monotonic() + self.settings.every
                    window = self._window(self._reader.now(wall))
                    computing = threading.Thread(target=self._compute, args=(window,), name="sojourn-gauges")
                    computing.start()
                self._rest(stop)
        finally:
            if computing.ident is not None:
                computing.join()

    def _rest(self, stop: threading.Event) -> None:
        """Fetch lines until the next reading is due."""
        waited = 0.0
        while waited < READ_EVERY and self._reader.behind < READ_BYTES and not stop.wait(POLL_INTERVAL):
            waited += POLL_INTERVAL
            self._reader.poll()

    def update(self, wall: datetime, *, gauges: bool = True) -> None:
        """Count the lines written since the last update; ``wall`` is the local time; ``gauges``: compute them too."""
        self._reader.poll()
        unopened = any(follower.refusal for follower in self._reader.followers)
        complete = self._reader.unfetched < LITTLE_UNREAD and not unopened
        self._reports.report(self._reader.followers)
        self._reader.read(wall)
        if self._live is not None:
            with self.lock:
                disagree = self._reader.ahead.disagree
                self._live.read(wall.timestamp(), complete=complete, clocks_disagree=disagree)
        if self._wasted is not None:
            rows = self._wasted.matched(self._reader.now(wall))
            with self.lock:
                self.tally.add_wasted(rows)
        logs = list(log_samples(self._reader))
        with self.lock:
            self._logs = logs
        if gauges:
            self._set_gauges(self._window(self._reader.now(wall)))

    def read_all(self) -> None:
        """Read the logs to their end, without waiting for more than pipes deliver; compute the gauges."""
        self.start()
        while self._reader.poll() or self._reader.piped:
            self._reader.read(datetime.now(UTC))
            time.sleep(0 if self._reader.behind else PAUSE)
        self.update(datetime.now(UTC))

    def snapshot(self) -> Snapshot:
        """Return all metrics as they are now, by name; safe while another thread updates them."""
        histograms: dict[str, list[tuple[tuple[str, ...], Histogram]]] = defaultdict(list)
        samples: dict[str, list[Sample]] = defaultdict(list)
        with self.lock:
            for name, labels, histogram in self.tally.histograms():
                histograms[name].append((labels, histogram))
            for sample in self._samples():
                samples[sample.name].append(sample)
        return Snapshot(histograms, samples)

    def _samples(self) -> Iterator[Sample]:
        yield from self.tally.counters()
        yield from self._logs
        yield from self._gauges
        if self._live is not None:
            yield from self._live.samples(sorted(self._services))
        for objective in self.settings.objectives:
            yield Sample("sojourn_objective_ratio", (objective.text,), objective.share)
            yield Sample("sojourn_objective_threshold_seconds", (objective.text,), objective.seconds)

    def _count(self, rows: pl.DataFrame) -> None:
        """Count new rows."""
        clock = self._clock.get(self._reader.recent.last)
        labels = self.tally.labels
        if self._counting:
            with_components = split_rows(rows.lazy(), clock=clock, infer=False).rows
            split = labels.of(with_components.select(READ_COLUMNS).collect(engine="streaming"))
            with self.lock:
                self.tally.add(split)
            if self._wasted is not None:
                self._wasted.add(split)
        else:
            labels.of(rows)
        proxied = rows.filter(pl.col("upstream").is_not_null())["service"].unique()
        self._services.update(labels.value("service", name) for name in proxied)
        self._memory.add(rows, labels)
        if self._live is not None:
            with self.lock:
                self._live.add(rows, labels)

    def _restart(self) -> None:
        """Forget what was counted before the local clock was set."""
        self._clock.outdated()
        self._state.outdated()
        if self._live is not None:
            with self.lock:
                self._live.restart()

    def _clock_of(self, now: datetime) -> pl.DataFrame:
        recent = self._reader.recent
        return clock_of(recent.rows(now, recent.span))

    def _compute(self, window: _Window | None) -> None:
        """Compute the gauges on a thread of their own."""
        try:
            self._set_gauges(window)
        except Exception as error:  # raised by ``run``: in a thread it would be lost
            self._failure = error

    def _set_gauges(self, window: _Window | None) -> None:
        computed = self._state.get(window)
        with self.lock:
            self._gauges = computed

    def _window(self, now: datetime) -> _Window | None:
        """Return the recent requests; None before the first."""
        recent, disagree = self._reader.recent, self._reader.ahead.disagree
        if recent.last is None and not disagree:
            return None
        if self._live is not None:
            self._live.learn(recent.known_since(), now)
        rows, clock = recent.rows(now, recent.span), self._clock.get(recent.last or now)
        return _Window(now, recent.known_since(), clock, rows, tuple(sorted(self._services)), disagree)

    def _state_of(self, window: _Window | None) -> list[Sample]:
        """Return the gauges of every service."""
        if window is None:
            return []
        if window.clocks_disagree:
            return [sample for service in window.services for sample in refusals(service, CLOCKS)]
        split = split_rows(window.rows, clock=window.clock, infer=False)
        rows = split.rows.collect(engine="streaming")
        labels = self.tally.labels
        samples = list(clock_samples(window.clock, rows, labels))
        of_service = dict(_by_label(rows.filter("proxied"), labels))
        for service in window.services:
            samples += self._of_service(service, of_service.get(service, rows.clear()).lazy(), window)
        return samples

    def _of_service(self, service: str, rows: pl.LazyFrame, window: _Window) -> list[Sample]:
        settings = self.settings
        state = ServiceState(service, rows, window.now, window.since, settings.window, self._memory, settings.workers)
        if not state.is_long_enough:
            return []
        samples = [*state.backends(self.tally.labels), *state.signals(settings.objectives)]
        if self._live is not None and (demand := state.demand(self._live.demand(service))) is not None:
            self._live.set_demand(service, demand)
        return samples


def _by_label(rows: pl.DataFrame, labels: Labels) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of each service, by its label value."""
    labelled = rows.with_columns(
        __label=pl.col("service").replace_strict(
            {name: labels.value("service", name) for name in rows["service"].unique()}, return_dtype=pl.String
        )
    )
    for (label,), own in labelled.group_by("__label", maintain_order=True):
        yield str(label), own.drop("__label")
