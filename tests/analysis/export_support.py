"""An exporter that has read logs from their beginning, and its samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sojourn.export.exporter import Exporter
from sojourn.export.histograms import Histogram
from sojourn.export.metrics import BY_NAME
from sojourn.export.settings import Settings
from sojourn.export.tally import Sample
from sojourn.model.objective import DEFAULT, objective_of
from sojourn.sources.live.opening import opened_followers


@contextmanager
def exported(
    logs: Sequence[Path], *, spans: Sequence[Path] = (), objectives: Sequence[str] = (DEFAULT,), **settings: Any
) -> Iterator[Exporter]:
    """Yield an exporter that has read these logs from their beginning to their end."""
    followers, tails = opened_followers([str(log) for log in logs], from_start=True)
    of_spans, _ = opened_followers([str(file) for file in spans], from_start=True)
    chosen = Settings(objectives=[objective_of(text) for text in objectives], **settings)
    exporter = Exporter(followers, tails, spans=of_spans, settings=chosen, from_beginning=True)
    try:
        exporter.read_all()
        yield exporter
    finally:
        exporter.close()


def samples_of(exporter: Exporter) -> list[Sample]:
    """Return all counters and gauges; each has the labels that the table of metrics names."""
    samples = [sample for of_name in exporter.snapshot().samples.values() for sample in of_name]
    for sample in samples:
        assert len(sample.labels) == len(BY_NAME[sample.name].labels), sample
    assert len({(sample.name, sample.labels) for sample in samples}) == len(samples)
    return samples


def histograms_of(exporter: Exporter) -> list[tuple[str, tuple[str, ...], Histogram]]:
    """Return name, label values and histogram of every group."""
    return [(name, *each) for name, of_name in exporter.snapshot().histograms.items() for each in of_name]


def value_of(samples: Sequence[Sample], name: str, **labels: str) -> float:
    """Return the sum of a metric's samples with these label values; it has at least one."""
    names = BY_NAME[name].labels
    wanted = {names.index(label): value for label, value in labels.items()}
    values = [
        sample.value
        for sample in samples
        if sample.name == name and all(sample.labels[place] == value for place, value in wanted.items())
    ]
    assert values, f"no sample of {name} {labels}"
    return sum(values)
